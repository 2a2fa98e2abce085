package sidecar

// The manifests and the reconciler use these names for the webhook that adds the container.
const (
	// Path is the path of the webhook.
	Path = "/sidecar"
	// ServiceName is the name of the webhook's Service, and of the Secret with the webhook's
	// certificates.
	ServiceName = "gpuledger-webhook"
	// origin is the value of [InjectedBy].
	origin = "MutatingWebhookConfiguration " + Name
)
