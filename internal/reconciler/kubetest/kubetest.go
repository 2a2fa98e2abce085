// Package kubetest simulates an API server in memory for the tests of the reconciler.
package kubetest

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/testing"

	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
)

// Client is a client of a simulated API server.
type Client struct {
	testing.Fake
	tracker testing.ObjectTracker
}

var _ apiserver.Client = (*Client)(nil)

// New returns a client of an API server that has the given objects.
func New(objects ...runtime.Object) *Client {
	decoder := serializer.NewCodecFactory(apiserver.Scheme).UniversalDecoder()
	tracker := testing.NewFieldManagedObjectTracker(apiserver.Scheme, decoder, newTypes())
	for _, object := range objects {
		if err := tracker.Add(object); err != nil {
			panic(err)
		}
	}
	c := &Client{tracker: tracker}
	c.AddReactor("*", "*", testing.ObjectReaction(tracker))
	c.AddWatchReactor("*", func(action testing.Action) (bool, watch.Interface, error) {
		w, err := tracker.Watch(action.GetResource(), action.GetNamespace(), action.(testing.WatchActionImpl).ListOptions)
		return err == nil, w, err
	})
	RefuseStreams(&c.Fake)
	return c
}

// RefuseStreams makes a simulated API server refuse watches that begin with a list (KEP-3157), as API servers without this
// feature do. Informers then make separate lists. The simulations of client-go accept the watch but do not send the list.
func RefuseStreams(server *testing.Fake) {
	server.PrependWatchReactor("*", func(action testing.Action) (bool, watch.Interface, error) {
		options := action.(testing.WatchActionImpl).ListOptions
		return options.SendInitialEvents != nil, nil, apierrors.NewBadRequest("sendInitialEvents is not supported")
	})
}

// Tracker returns the objects of the API server.
func (c *Client) Tracker() testing.ObjectTracker { return c.tracker }

// ServedResources implements [apiserver.Client]. A reactor for "get" of "resources" can refuse the request.
func (c *Client) ServedResources(_ context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	if _, err := c.Invokes(testing.ActionImpl{Verb: "get", Resource: schema.GroupVersionResource{Resource: "resources"}}, nil); err != nil {
		return nil, err
	}
	c.Lock()
	defer c.Unlock()
	for _, list := range c.Resources {
		if list.GroupVersion == groupVersion {
			return list, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, groupVersion)
}

// ConfigMaps implements [apiserver.Client].
func (c *Client) ConfigMaps(namespace string) apiserver.Objects[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return objects[corev1.ConfigMap, corev1.ConfigMapList](c, namespace, corev1.SchemeGroupVersion, "configmaps")
}

// DaemonSets implements [apiserver.Client].
func (c *Client) DaemonSets(namespace string) apiserver.Objects[*appsv1.DaemonSet, *appsv1.DaemonSetList] {
	return objects[appsv1.DaemonSet, appsv1.DaemonSetList](c, namespace, appsv1.SchemeGroupVersion, "daemonsets")
}

// Events implements [apiserver.Client].
func (c *Client) Events(namespace string) apiserver.Objects[*corev1.Event, *corev1.EventList] {
	return objects[corev1.Event, corev1.EventList](c, namespace, corev1.SchemeGroupVersion, "events")
}

// Leases implements [apiserver.Client].
func (c *Client) Leases(namespace string) apiserver.Objects[*coordinationv1.Lease, *coordinationv1.LeaseList] {
	return objects[coordinationv1.Lease, coordinationv1.LeaseList](c, namespace, coordinationv1.SchemeGroupVersion, "leases")
}

// MutatingWebhookConfigurations implements [apiserver.Client].
func (c *Client) MutatingWebhookConfigurations() apiserver.Objects[*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.MutatingWebhookConfigurationList] {
	return objects[admissionregistrationv1.MutatingWebhookConfiguration, admissionregistrationv1.MutatingWebhookConfigurationList](
		c, "", admissionregistrationv1.SchemeGroupVersion, "mutatingwebhookconfigurations")
}

// Nodes implements [apiserver.Client].
func (c *Client) Nodes() apiserver.Objects[*corev1.Node, *corev1.NodeList] {
	return objects[corev1.Node, corev1.NodeList](c, "", corev1.SchemeGroupVersion, "nodes")
}

// Pods implements [apiserver.Client].
func (c *Client) Pods(namespace string) apiserver.Objects[*corev1.Pod, *corev1.PodList] {
	return objects[corev1.Pod, corev1.PodList](c, namespace, corev1.SchemeGroupVersion, "pods")
}

// ResourceClaims implements [apiserver.Client].
func (c *Client) ResourceClaims(namespace string) apiserver.Objects[*resourcev1.ResourceClaim, *resourcev1.ResourceClaimList] {
	return objects[resourcev1.ResourceClaim, resourcev1.ResourceClaimList](c, namespace, resourcev1.SchemeGroupVersion, "resourceclaims")
}

// ResourceSlices implements [apiserver.Client].
func (c *Client) ResourceSlices() apiserver.Objects[*resourcev1.ResourceSlice, *resourcev1.ResourceSliceList] {
	return objects[resourcev1.ResourceSlice, resourcev1.ResourceSliceList](c, "", resourcev1.SchemeGroupVersion, "resourceslices")
}

// Secrets implements [apiserver.Client].
func (c *Client) Secrets(namespace string) apiserver.Objects[*corev1.Secret, *corev1.SecretList] {
	return objects[corev1.Secret, corev1.SecretList](c, namespace, corev1.SchemeGroupVersion, "secrets")
}

type object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

type list[L any] interface {
	*L
	runtime.Object
	metav1.ListInterface
}

func objects[T, L any, PT object[T], PL list[L]](c *Client, namespace string, group schema.GroupVersion, resource string) apiserver.Objects[PT, PL] {
	kinds, _, err := apiserver.Scheme.ObjectKinds(PT(new(T)))
	if err != nil {
		panic(err)
	}
	return gentype.NewFakeClientWithList(&c.Fake, namespace, group.WithResource(resource), kinds[0],
		func() PT { return new(T) }, func() PL { return new(L) },
		func(to, from PL) {
			to.SetResourceVersion(from.GetResourceVersion())
			to.SetContinue(from.GetContinue())
		},
		items[PT], setItems[PT])
}

func items[PT runtime.Object, PL runtime.Object](of PL) []PT {
	var all []PT
	_ = meta.EachListItem(of, func(o runtime.Object) error { // EachListItem returns only errors of this function
		all = append(all, o.(PT))
		return nil
	})
	return all
}

func setItems[PT runtime.Object, PL runtime.Object](of PL, all []PT) {
	var list []runtime.Object
	for _, o := range all {
		list = append(list, o)
	}
	if err := meta.SetList(of, list); err != nil {
		panic(err)
	}
}
