package watch

import (
	"context"
	"log/slog"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// The intervals between two checks for a resource: for a resource that the API server lacks,
// which an upgrade may add, and after an error.
const (
	lackedAgain  = 10 * time.Minute
	unknownAgain = 30 * time.Second
)

// Served waits until the API server serves a resource. It returns false if the context ends
// first.
func Served(ctx context.Context, server discovery.ServerResourcesInterfaceWithContext, of schema.GroupVersionResource, log *slog.Logger) bool {
	logged := false
	for {
		again := lackedAgain
		list, err := server.ServerResourcesForGroupVersionWithContext(ctx, of.GroupVersion().String())
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == of.Resource }):
			return true
		case err != nil && !apierrors.IsNotFound(err):
			again = unknownAgain
			if !logged {
				logged = true
				log.Warn("cannot check whether the resource is served, will retry", "resource", of.Resource, "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(again):
		}
	}
}
