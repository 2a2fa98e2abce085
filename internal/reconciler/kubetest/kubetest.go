// Package kubetest simulates an API server in memory for the tests of the reconciler. The fake clientset of client-go
// does the same for all API groups, and compiling it takes longer than compiling the reconciler.
package kubetest

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/testing"

	fakediscovery "k8s.io/client-go/discovery/fake"
	admission "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	fakeadmission "k8s.io/client-go/kubernetes/typed/admissionregistration/v1/fake"
	apps "k8s.io/client-go/kubernetes/typed/apps/v1"
	fakeapps "k8s.io/client-go/kubernetes/typed/apps/v1/fake"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	fakecoordination "k8s.io/client-go/kubernetes/typed/coordination/v1/fake"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	fakecore "k8s.io/client-go/kubernetes/typed/core/v1/fake"
	resource "k8s.io/client-go/kubernetes/typed/resource/v1"
	fakeresource "k8s.io/client-go/kubernetes/typed/resource/v1/fake"
)

// Client is a client of a simulated API server. It panics for API groups without a method below.
type Client struct {
	kubernetes.Interface
	testing.Fake
	tracker testing.ObjectTracker
}

// New returns a client of an API server that has the given objects.
func New(objects ...runtime.Object) *Client {
	tracker := testing.NewFieldManagedObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder(), applyconfigurations.NewTypeConverter(scheme.Scheme))
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

// Discovery implements [kubernetes.Interface].
func (c *Client) Discovery() discovery.DiscoveryInterfaces {
	return &fakediscovery.FakeDiscovery{Fake: &c.Fake}
}

// AdmissionregistrationV1 implements [kubernetes.Interface].
func (c *Client) AdmissionregistrationV1() admission.AdmissionregistrationV1Interface {
	return &fakeadmission.FakeAdmissionregistrationV1{Fake: &c.Fake}
}

// AppsV1 implements [kubernetes.Interface].
func (c *Client) AppsV1() apps.AppsV1Interface { return &fakeapps.FakeAppsV1{Fake: &c.Fake} }

// CoordinationV1 implements [kubernetes.Interface].
func (c *Client) CoordinationV1() coordination.CoordinationV1Interface {
	return &fakecoordination.FakeCoordinationV1{Fake: &c.Fake}
}

// CoreV1 implements [kubernetes.Interface].
func (c *Client) CoreV1() core.CoreV1Interface { return &fakecore.FakeCoreV1{Fake: &c.Fake} }

// ResourceV1 implements [kubernetes.Interface].
func (c *Client) ResourceV1() resource.ResourceV1Interface {
	return &fakeresource.FakeResourceV1{Fake: &c.Fake}
}
