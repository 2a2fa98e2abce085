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

// The times between two looks for a resource: of one that the API server lacks, which an
// upgrade may bring, and of one of which the API server did not say whether it has it.
const (
	lackedAgain  = 10 * time.Minute
	unknownAgain = 30 * time.Second
)

// Served waits until the API server serves a resource, and reports whether it does: the
// context may end first.
func Served(ctx context.Context, server discovery.ServerResourcesInterfaceWithContext, of schema.GroupVersionResource, log *slog.Logger) bool {
	said := false
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
			if !said {
				said = true
				log.Warn("not known whether the resource is served, will keep asking", "resource", of.Resource, "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(again):
		}
	}
}
