// Package injector serves the admission webhook that adds the exporter's container to pods, on clusters
// without MutatingAdmissionPolicy. Every replica of the reconciler serves it.
//
// The API server evaluates the webhook's match conditions; the package evaluates the conditions on the
// parameters. It never denies a pod. Without parameters or after an error, it returns no patch.
package injector
