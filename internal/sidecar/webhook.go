package sidecar

// The webhook that adds the container, as the manifests and the reconciler name it.
const (
	// Path is the path of the webhook.
	Path = "/sidecar"
	// ServiceName is the name of the Service in front of the webhook, and of the Secret with its
	// certificates.
	ServiceName = "gpuledger-webhook"
	// origin is the value of [InjectedBy].
	origin = "MutatingWebhookConfiguration " + Name
)
