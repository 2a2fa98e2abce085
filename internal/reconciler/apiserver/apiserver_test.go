package apiserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
)

type request struct{ Method, URI, ContentType, Body string }

// serve returns a client of an API server that gives every request this response, and a pointer to the last request.
func serve(t *testing.T, status int, contentType, body string) (apiserver.Client, *request) {
	t.Helper()
	last := new(request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*last = request{r.Method, r.RequestURI, r.Header.Get("Content-Type"), string(got)}
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	kube, err := apiserver.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf}})
	if err != nil {
		t.Fatal(err)
	}
	return kube, last
}

// TestPaths compares the paths of the requests with the API reference of Kubernetes.
func TestPaths(t *testing.T) {
	kube, last := serve(t, http.StatusNotFound, "text/plain", "")
	limit := metav1.ListOptions{Limit: 1}
	for path, list := range map[string]func(context.Context) error{
		"/api/v1/namespaces/a/configmaps":                  func(ctx context.Context) error { _, err := kube.ConfigMaps("a").List(ctx, limit); return err },
		"/apis/apps/v1/namespaces/a/daemonsets":            func(ctx context.Context) error { _, err := kube.DaemonSets("a").List(ctx, limit); return err },
		"/api/v1/events":                                   func(ctx context.Context) error { _, err := kube.Events("").List(ctx, limit); return err },
		"/apis/coordination.k8s.io/v1/namespaces/a/leases": func(ctx context.Context) error { _, err := kube.Leases("a").List(ctx, limit); return err },
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": func(ctx context.Context) error {
			_, err := kube.MutatingWebhookConfigurations().List(ctx, limit)
			return err
		},
		"/api/v1/nodes": func(ctx context.Context) error { _, err := kube.Nodes().List(ctx, limit); return err },
		"/api/v1/pods":  func(ctx context.Context) error { _, err := kube.Pods(metav1.NamespaceAll).List(ctx, limit); return err },
		"/apis/resource.k8s.io/v1/namespaces/a/resourceclaims": func(ctx context.Context) error { _, err := kube.ResourceClaims("a").List(ctx, limit); return err },
		"/apis/resource.k8s.io/v1/resourceslices":              func(ctx context.Context) error { _, err := kube.ResourceSlices().List(ctx, limit); return err },
		"/api/v1/namespaces/a/secrets":                         func(ctx context.Context) error { _, err := kube.Secrets("a").List(ctx, limit); return err },
	} {
		if err := list(t.Context()); !apierrors.IsNotFound(err) {
			t.Errorf("%s: error %v, want not found", path, err)
		}
		if want := (request{Method: http.MethodGet, URI: path + "?limit=1"}); *last != want {
			t.Errorf("request %+v, want %+v", *last, want)
		}
	}
}

func TestServedResources(t *testing.T) {
	kube, last := serve(t, http.StatusOK, "application/json", `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"batch/v1",
		"resources":[{"name":"jobs","singularName":"job","namespaced":true,"kind":"Job","verbs":["get"]}]}`)
	for groupVersion, path := range map[string]string{"batch/v1": "/apis/batch/v1", "v1": "/api/v1"} {
		list, err := kube.ServedResources(t.Context(), groupVersion)
		if err != nil || len(list.APIResources) != 1 || list.APIResources[0].Kind != "Job" || !list.APIResources[0].Namespaced {
			t.Errorf("resources %+v, error %v", list, err)
		}
		if last.URI != path {
			t.Errorf("request of %s, want %s", last.URI, path)
		}
	}
	missing, _ := serve(t, http.StatusNotFound, "text/plain", "404 page not found")
	if _, err := missing.ServedResources(t.Context(), "batch/v9"); !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want not found", err)
	}
}

// TestApply compares the request with the description of server-side apply in the documentation of Kubernetes.
func TestApply(t *testing.T) {
	kube, last := serve(t, http.StatusOK, "application/json", `{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}`)
	fields := metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u1", Labels: map[string]string{"x": "1"}},
	}
	if err := apiserver.Apply(t.Context(), kube.Nodes(), "a", fields, "gpuledger", "status"); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "a", "uid": "u1", "labels": map[string]any{"x": "1"}}}
	var body map[string]any
	if err := json.Unmarshal([]byte(last.Body), &body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	last.Body = ""
	if want := (request{Method: http.MethodPatch, URI: "/api/v1/nodes/a/status?fieldManager=gpuledger&force=true", ContentType: "application/apply-patch+yaml"}); *last != want {
		t.Errorf("request %+v, want %+v", *last, want)
	}
}

// TestLimit checks that requests for all kinds count towards one limit.
func TestLimit(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	kube, err := apiserver.NewForConfig(&rest.Config{Host: server.URL, QPS: 0.001, Burst: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, first := kube.Nodes().Get(ctx, "a", metav1.GetOptions{})
	_, second := kube.DaemonSets("a").Get(ctx, "a", metav1.GetOptions{})
	_, third := kube.Leases("a").Get(ctx, "a", metav1.GetOptions{})
	if !apierrors.IsNotFound(first) || !apierrors.IsNotFound(second) || third == nil || apierrors.IsNotFound(third) {
		t.Errorf("errors %v, %v and %v; want two responses, and then the limit", first, second, third)
	}
}
