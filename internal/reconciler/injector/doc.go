// Package injector serves the admission webhook that adds the exporter's container to pods in clusters without
// MutatingAdmissionPolicy. Every replica of the reconciler serves the webhook.
//
// The API server evaluates the webhook's match conditions, and this package evaluates the conditions that depend on the
// parameters. The webhook never denies a pod. Without parameters, or after an error, it returns no patch.
package injector
