package workloads

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
)

// kinds finds the resource of a kind, such as "jobs" for a Job. It caches the lists of resources of the API groups. It
// is safe for concurrent use.
type kinds struct {
	server watch.Server

	flights singleflight.Group

	mu    sync.Mutex
	lists map[schema.GroupVersion]servedList
}

type servedList struct {
	resources []metav1.APIResource
	forbidden error // set if RBAC forbids reading the list
	read      time.Time
}

func newKinds(server watch.Server) *kinds {
	return &kinds{server: server, lists: make(map[schema.GroupVersion]servedList)}
}

// resource returns the resource of a kind. The error is [meta.NoKindMatchError] if the API server does not serve the
// kind. If the cached list lacks the kind and is older than refusedFor, resource reads the list again. An administrator
// may have installed the kind since then.
func (k *kinds) resource(ctx context.Context, gv schema.GroupVersion, kind string) (metav1.APIResource, error) {
	list := k.recall(gv)
	r, ok := list.find(kind)
	if !ok && time.Since(list.read) >= refusedFor {
		v, err, _ := k.flights.Do(gv.String(), func() (any, error) { return k.list(ctx, gv) })
		if err != nil {
			return metav1.APIResource{}, err
		}
		list = v.(servedList)
		r, ok = list.find(kind)
	}
	switch {
	case ok:
		return r, nil
	case list.forbidden != nil:
		return metav1.APIResource{}, list.forbidden
	}
	return metav1.APIResource{}, &meta.NoKindMatchError{GroupKind: gv.WithKind(kind).GroupKind(), SearchedVersions: []string{gv.Version}}
}

func (k *kinds) recall(gv schema.GroupVersion) servedList {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lists[gv]
}

// list returns an empty list for an API group that the API server does not serve. If the server of an aggregated API does
// not respond, list returns the cached list, which may be empty. An error would hide each pod whose owner reference names
// such an API, until its server responds.
func (k *kinds) list(ctx context.Context, gv schema.GroupVersion) (servedList, error) {
	list := servedList{read: time.Now()}
	switch found, err := k.server.ServedResources(ctx, gv.String()); {
	case err == nil:
		list.resources = found.APIResources
	case apierrors.IsForbidden(err):
		list.forbidden = err
	case apierrors.IsNotFound(err):
	case k.isGroupDown(ctx, err):
		list.resources = k.recall(gv).resources
	default:
		return list, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lists[gv] = list
	return list, nil
}

// isGroupDown reports whether an error concerns only one API group. The API server then still serves its own resources.
func (k *kinds) isGroupDown(ctx context.Context, err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code < http.StatusInternalServerError {
		return false
	}
	_, err = k.server.ServedResources(ctx, corev1.SchemeGroupVersion.String())
	return err == nil
}

// find also finds a kind in lower case, because the garbage collector of Kubernetes accepts it in owner references.
func (l servedList) find(kind string) (metav1.APIResource, bool) {
	i := slices.IndexFunc(l.resources, func(r metav1.APIResource) bool {
		return (r.Kind == kind || strings.ToLower(r.Kind) == kind) && !strings.Contains(r.Name, "/") // "jobs/status" is a subresource
	})
	if i < 0 {
		return metav1.APIResource{}, false
	}
	return l.resources[i], true
}

// forget removes old lists to limit the memory, because the creator of a pod can name any API group.
func (k *kinds) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.lists, func(_ schema.GroupVersion, l servedList) bool { return time.Since(l.read) >= foundFor })
}
