// Package apiserver makes requests to the API server for the kinds of objects that the reconciler uses. The clientset
// of client-go makes requests for all kinds of Kubernetes objects. It would make the program 22 MB larger and more than
// double the compile time.
package apiserver

import (
	"context"
	"encoding/json"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Scheme contains the kinds of objects that a [Client] can request.
var Scheme = newScheme()

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistrationv1.AddToScheme, appsv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme, resourcev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // two kinds have the same name
		}
	}
	return scheme
}

// Objects makes requests for the objects of one kind, in one namespace, in all namespaces, or in the cluster. T is the
// type of an object, such as [*corev1.Node], and L is the type of a list of these objects.
type Objects[T, L any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
	UpdateStatus(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
	Patch(ctx context.Context, name string, patch types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (T, error)
}

// Client makes requests to an API server. [metav1.NamespaceAll] selects the objects of all namespaces.
type Client interface {
	ConfigMaps(namespace string) Objects[*corev1.ConfigMap, *corev1.ConfigMapList]
	DaemonSets(namespace string) Objects[*appsv1.DaemonSet, *appsv1.DaemonSetList]
	Events(namespace string) Objects[*corev1.Event, *corev1.EventList]
	Leases(namespace string) Objects[*coordinationv1.Lease, *coordinationv1.LeaseList]
	MutatingWebhookConfigurations() Objects[*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.MutatingWebhookConfigurationList]
	Nodes() Objects[*corev1.Node, *corev1.NodeList]
	Pods(namespace string) Objects[*corev1.Pod, *corev1.PodList]
	ResourceClaims(namespace string) Objects[*resourcev1.ResourceClaim, *resourcev1.ResourceClaimList]
	ResourceSlices() Objects[*resourcev1.ResourceSlice, *resourcev1.ResourceSliceList]
	Secrets(namespace string) Objects[*corev1.Secret, *corev1.SecretList]
	// ServedResources returns the resources that the API server serves in an API group and version, such as "batch/v1". The
	// error is [k8s.io/apimachinery/pkg/api/errors.IsNotFound] if the API server does not serve this group and version.
	ServedResources(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// Apply sets the given fields of an object by server-side apply (KEP-555). It removes the other fields that the field
// manager set earlier. If other field managers own these fields, Apply takes the fields over. fields is encoded as JSON
// and must contain apiVersion, kind, the name, and the UID of the object. Without the UID, Apply would create an object
// that was deleted.
func Apply[T, L any](ctx context.Context, objects Objects[T, L], name string, fields any, manager string, subresources ...string) error {
	data, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode the fields of %s: %w", name, err)
	}
	options := metav1.PatchOptions{FieldManager: manager, Force: new(true)}
	_, err = objects.Patch(ctx, name, types.ApplyPatchType, data, options, subresources...)
	return err
}

// EventSink creates and updates Events in their namespaces. It implements [k8s.io/client-go/tools/record.EventSink].
type EventSink struct{ Client Client }

// Create creates an Event.
func (s EventSink) Create(event *corev1.Event) (*corev1.Event, error) {
	return s.Client.Events(event.Namespace).Create(context.Background(), event, metav1.CreateOptions{})
}

// Update replaces an Event.
func (s EventSink) Update(event *corev1.Event) (*corev1.Event, error) {
	return s.Client.Events(event.Namespace).Update(context.Background(), event, metav1.UpdateOptions{})
}

// Patch changes an Event by a strategic merge patch.
func (s EventSink) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	return s.Client.Events(event.Namespace).Patch(context.Background(), event.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
}
