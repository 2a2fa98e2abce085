package watch

import (
	"context"
	"log/slog"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// lackedAgain is the interval between two checks for a resource that the API server does not serve yet. An upgrade of
// the API server may add the resource. unknownAgain is the interval after a check that failed.
const (
	lackedAgain  = 10 * time.Minute
	unknownAgain = 30 * time.Second
)

// Server returns the resources that the API server serves in an API group and version. The client in package apiserver
// implements it.
type Server interface {
	ServedResources(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// Served waits until the API server serves a resource. It returns false if the context ends first.
func Served(ctx context.Context, server Server, of schema.GroupVersionResource, log *slog.Logger) bool {
	_, ok := ServedVersion(ctx, server, []schema.GroupVersionResource{of}, log)
	return ok
}

// ServedVersion waits until the API server serves at least one of the given versions of a resource. It returns the
// first served version, or false if the context ends.
func ServedVersion(ctx context.Context, server Server, versions []schema.GroupVersionResource, log *slog.Logger) (found schema.GroupVersionResource, ok bool) {
	logged := false
	for {
		again := lackedAgain
		for _, of := range versions {
			served, err := serves(ctx, server, of)
			switch {
			case ctx.Err() != nil:
				return found, false
			case served:
				return of, true
			case err != nil:
				again = unknownAgain
				if !logged {
					logged = true
					log.Warn("cannot check whether the API server serves the resource, will retry", "resource", of.Resource, "err", err)
				}
			}
		}
		select {
		case <-ctx.Done():
			return found, false
		case <-time.After(again):
		}
	}
}

// serves returns an error if it cannot determine whether the API server serves the resource.
func serves(ctx context.Context, server Server, of schema.GroupVersionResource) (bool, error) {
	list, err := server.ServedResources(ctx, of.GroupVersion().String())
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == of.Resource }), nil
}
