package sidecar

// The manifests and the reconciler use these names for the webhook that adds the container.
const (
	// Path is the URL path of the webhook.
	Path = "/sidecar"
	// ServiceName is the name of the webhook's Service, and of the Secret with its certificates.
	ServiceName = "gpuledger-webhook"
	// origin is the value of [InjectedBy].
	origin = "MutatingWebhookConfiguration " + Name
)
