package apiserver

import (
	"context"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

var (
	codecs     = serializer.NewCodecFactory(Scheme)
	parameters = runtime.NewParameterCodec(Scheme)
)

// client has a connection for each API group. All connections share the HTTP client and the limit of requests.
type client struct {
	admission, apps, coordination, core, resource rest.Interface
}

// NewForConfig returns a client of the API server. The limit of requests is cfg.QPS with bursts of cfg.Burst.
func NewForConfig(cfg *rest.Config) (Client, error) {
	shared := *cfg
	if shared.RateLimiter == nil && shared.QPS > 0 {
		shared.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(shared.QPS, shared.Burst)
	}
	connection, err := rest.HTTPClientFor(&shared)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to the API server: %w", err)
	}
	var c client
	for group, of := range map[schema.GroupVersion]*rest.Interface{
		admissionregistrationv1.SchemeGroupVersion: &c.admission,
		appsv1.SchemeGroupVersion:                  &c.apps,
		coordinationv1.SchemeGroupVersion:          &c.coordination,
		corev1.SchemeGroupVersion:                  &c.core,
		resourcev1.SchemeGroupVersion:              &c.resource,
	} {
		own := shared
		own.GroupVersion, own.APIPath = &group, "/apis"
		if group.Group == "" {
			own.APIPath = "/api"
		}
		own.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(Scheme, codecs).WithoutConversion()
		if *of, err = rest.RESTClientForConfigAndClient(&own, connection); err != nil {
			return nil, fmt.Errorf("prepare requests of %s: %w", group, err)
		}
	}
	return &c, nil
}

func (c *client) ConfigMaps(namespace string) Objects[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return objects[corev1.ConfigMap, corev1.ConfigMapList](c.core, "configmaps", namespace)
}

func (c *client) DaemonSets(namespace string) Objects[*appsv1.DaemonSet, *appsv1.DaemonSetList] {
	return objects[appsv1.DaemonSet, appsv1.DaemonSetList](c.apps, "daemonsets", namespace)
}

func (c *client) Events(namespace string) Objects[*corev1.Event, *corev1.EventList] {
	return objects[corev1.Event, corev1.EventList](c.core, "events", namespace)
}

func (c *client) Leases(namespace string) Objects[*coordinationv1.Lease, *coordinationv1.LeaseList] {
	return objects[coordinationv1.Lease, coordinationv1.LeaseList](c.coordination, "leases", namespace)
}

func (c *client) MutatingWebhookConfigurations() Objects[*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.MutatingWebhookConfigurationList] {
	return objects[admissionregistrationv1.MutatingWebhookConfiguration, admissionregistrationv1.MutatingWebhookConfigurationList](c.admission, "mutatingwebhookconfigurations", "")
}

func (c *client) Nodes() Objects[*corev1.Node, *corev1.NodeList] {
	return objects[corev1.Node, corev1.NodeList](c.core, "nodes", "")
}

func (c *client) Pods(namespace string) Objects[*corev1.Pod, *corev1.PodList] {
	return objects[corev1.Pod, corev1.PodList](c.core, "pods", namespace)
}

func (c *client) ResourceClaims(namespace string) Objects[*resourcev1.ResourceClaim, *resourcev1.ResourceClaimList] {
	return objects[resourcev1.ResourceClaim, resourcev1.ResourceClaimList](c.resource, "resourceclaims", namespace)
}

func (c *client) ResourceSlices() Objects[*resourcev1.ResourceSlice, *resourcev1.ResourceSliceList] {
	return objects[resourcev1.ResourceSlice, resourcev1.ResourceSliceList](c.resource, "resourceslices", "")
}

func (c *client) Secrets(namespace string) Objects[*corev1.Secret, *corev1.SecretList] {
	return objects[corev1.Secret, corev1.SecretList](c.core, "secrets", namespace)
}

// ServedResources implements [Client].
func (c *client) ServedResources(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	root := "/apis"
	if !strings.Contains(groupVersion, "/") {
		root = "/api"
	}
	var list metav1.APIResourceList
	if err := c.core.Get().AbsPath(root, groupVersion).Do(ctx).Into(&list); err != nil {
		return nil, err
	}
	return &list, nil
}

type object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

type list[L any] interface {
	*L
	runtime.Object
}

func objects[T, L any, PT object[T], PL list[L]](server rest.Interface, resource, namespace string) Objects[PT, PL] {
	return gentype.NewClientWithList(resource, server, parameters, namespace, func() PT { return new(T) }, func() PL { return new(L) })
}
