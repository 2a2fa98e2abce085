package sidecar

// These are the names of the webhook that adds the container. Both the manifests and the reconciler use these names.
const (
	// Path is the URL path of the webhook.
	Path = "/sidecar"
	// ServiceName is the name of the webhook's Service, and of the Secret with its certificates.
	ServiceName = "gpuledger-webhook"
	// origin is the value of [InjectedBy].
	origin = "MutatingWebhookConfiguration " + Name
)
