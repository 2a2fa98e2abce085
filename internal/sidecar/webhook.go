package sidecar

// The manifests and the reconciler both use these names of the webhook that adds the container.
const (
	// Path is the URL path of the webhook.
	Path = "/sidecar"
	// ServiceName is the name of the webhook's Service. The Secret with its certificates has the same name.
	ServiceName = "gpuledger-webhook"
	// origin is the value of [InjectedBy].
	origin = "MutatingWebhookConfiguration " + Name
)
