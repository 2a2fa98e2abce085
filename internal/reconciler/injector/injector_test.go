package injector

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuledger/gpuledger/internal/reconciler/certificate"
	"github.com/gpuledger/gpuledger/internal/reconciler/kubetest"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
	"github.com/gpuledger/gpuledger/internal/sidecar"
)

const namespace = "gpuledger"

func newInjector() *Injector {
	return New(Options{Address: ":0", Namespace: namespace}, slog.New(slog.DiscardHandler))
}

func reviewOf(pod string) string {
	return `{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "u1", "kind": {"group": "", "version": "v1", "kind": "Pod"},
		"resource": {"group": "", "version": "v1", "resource": "pods"}, "operation": "CREATE", "namespace": "kube-system", "object": ` + pod + `}}`
}

const plugin = `{"kind": "Pod", "apiVersion": "v1", "metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "nvidia-device-plugin-ctr"}]}}`

func post(i *Injector, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	i.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, sidecar.Path, strings.NewReader(body)))
	return w
}

func counted(i *Injector) map[string]int {
	all := make(map[string]int)
	for _, result := range results {
		var sample dto.Metric
		if err := i.counts.requests.WithLabelValues(result).Write(&sample); err != nil {
			panic(err) // a counter can always be written
		}
		if n := int(sample.GetCounter().GetValue()); n > 0 {
			all[result] = n
		}
	}
	return all
}

// TestResponses checks the responses to reviews. No response may deny a pod.
func TestResponses(t *testing.T) {
	parameters := sidecar.Parse(map[string]string{"image": "i", "nodes": "*"})
	none := sidecar.Parse(map[string]string{"image": "i"})
	tests := []struct {
		name       string
		parameters *sidecar.Parameters
		body       string
		status     int
		result     string
	}{
		{"injected", &parameters, reviewOf(plugin), 200, injected},
		{"no parameters", nil, reviewOf(plugin), 200, noParameters},
		{"no nodes", &none, reviewOf(plugin), 200, "node_not_selected"},
		{"not JSON", &parameters, "x", 400, invalidRequest},
		{"empty", &parameters, "", 400, invalidRequest},
		{"no object", &parameters, reviewOf("null"), 400, invalidRequest},
		{"a list instead of the object", &parameters, reviewOf("[]"), 400, invalidRequest},
		{"an update", &parameters, strings.Replace(reviewOf(plugin), "CREATE", "UPDATE", 1), 400, invalidRequest},
		{"another kind", &parameters, strings.Replace(reviewOf(plugin), `"kind": "Pod"}`, `"kind": "Node"}`, 1), 400, invalidRequest},
		{"another version", &parameters, strings.Replace(reviewOf(plugin), "k8s.io/v1", "k8s.io/v1beta1", 1), 400, invalidRequest},
		{"no uid", &parameters, strings.Replace(reviewOf(plugin), `"u1"`, `""`, 1), 400, invalidRequest},
		{"too large", &parameters, reviewOf(`{"a": "` + strings.Repeat("x", maxBody) + `"}`), 400, invalidRequest},
		{"too deep", &parameters, reviewOf(strings.Repeat("[", 20_000)), 400, invalidRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := newInjector()
			i.parameters.Store(tt.parameters)
			w := post(i, tt.body)
			if w.Code != tt.status {
				t.Fatalf("status %d, want %d: %s", w.Code, tt.status, w.Body)
			}
			if diff := cmp.Diff(map[string]int{tt.result: 1}, counted(i)); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			if tt.status == 200 {
				checkResponse(t, w.Body.Bytes(), tt.result == injected)
			}
		})
	}
	w := httptest.NewRecorder()
	newInjector().Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, sidecar.Path, http.NoBody))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET: status %d, want 405", w.Code)
	}
}

func checkResponse(t *testing.T, body []byte, patched bool) {
	t.Helper()
	var review admissionv1.AdmissionReview
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&review); err != nil {
		t.Fatal(err)
	}
	r := review.Response
	if review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview" || r == nil || r.UID != "u1" || !r.Allowed {
		t.Errorf("response %s", body)
	}
	if patched != (r.PatchType != nil && *r.PatchType == "JSONPatch") || patched != (len(r.Patch) > 0) {
		t.Errorf("a patch: %v, want %v", !patched, patched)
	}
}

// FuzzReview checks that no request causes a denial or a panic. The response to an accepted request must be valid.
func FuzzReview(f *testing.F) {
	f.Add(reviewOf(plugin))
	f.Add(reviewOf(`{"metadata": {"annotations": null}, "spec": {"volumes": {}, "containers": null, "imagePullSecrets": [{}], "affinity": {"nodeAffinity": null}}}`))
	f.Add(`{"request": null}`)
	f.Add(`{"request": {"object": {"spec": {"affinity": [1]}}}}`)
	i := newInjector()
	i.parameters.Store(new(sidecar.Parse(map[string]string{"image": "i", "nodes": "a *", "pullSecrets": "s"})))
	f.Fuzz(func(t *testing.T, body string) {
		w := post(i, body)
		if w.Code == http.StatusBadRequest {
			return
		}
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(w.Body.Bytes(), &review); w.Code != http.StatusOK || err != nil || !review.Response.Allowed || review.Response.UID == "" {
			t.Errorf("status %d, %v: %s", w.Code, err, w.Body)
		}
	})
}

// TestLife simulates a year with two replicas. The first authority must sign all certificates of both replicas, even
// after a change of leader and a second installation. Changed parameters must take effect.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubetest.New(
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: sidecar.ServiceName}},
			&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "gpuledger"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "sidecar.gpuledger.io"}}},
		)
		failures := watch.New(slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer stop()
		replicas := []*Injector{newInjector(), newInjector()}
		for _, r := range replicas {
			if r.NotReady() == "" {
				t.Error("the webhook is ready without a certificate")
			}
			all.Go(func() { r.Run(ctx, kube, failures) })
		}
		term, end := context.WithCancel(ctx)
		defer end()
		all.Go(func() { replicas[0].Lead(term, kube, kube, failures) })
		time.Sleep(time.Minute)
		trusted := secret(t, kube).Data[certificate.Authority]
		checkTrusted(t, kube, trusted)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(trusted)
		seen := make(map[string]bool)
		for week := range 52 {
			if week == 20 { // the other replica becomes the leader
				end()
				all.Go(func() { replicas[1].Lead(ctx, kube, kube, failures) })
			}
			if week == 30 { // an administrator installs the manifests again
				change(t, kube, nil)
			}
			time.Sleep(7 * 24 * time.Hour)
			for n, r := range replicas {
				seen[checkCertificate(t, fmt.Sprintf("week %d, replica %d", week, n), r, roots)] = true
			}
		}
		if len(seen) < 6 || len(seen) > 8 {
			t.Errorf("%d certificates in a year, want one every 60 days", len(seen))
		}
		checkTrusted(t, kube, trusted)
		checkParameters(t, kube, replicas[1])
	})
}

func change(t *testing.T, kube *kubetest.Client, authority []byte) {
	t.Helper()
	webhooks := kube.MutatingWebhookConfigurations()
	w, err := webhooks.Get(t.Context(), "gpuledger", metav1.GetOptions{})
	check(t, err)
	w.Webhooks[0].ClientConfig.CABundle = authority
	_, err = webhooks.Update(t.Context(), w, metav1.UpdateOptions{})
	check(t, err)
}

func checkTrusted(t *testing.T, kube *kubetest.Client, authority []byte) {
	t.Helper()
	w, err := kube.MutatingWebhookConfigurations().Get(t.Context(), "gpuledger", metav1.GetOptions{})
	check(t, err)
	if len(w.Webhooks) != 1 || len(authority) == 0 || string(w.Webhooks[0].ClientConfig.CABundle) != string(authority) {
		t.Errorf("caBundle is not the authority of the Secret: %v", w.Webhooks)
	}
}

// checkCertificate checks that the API server would accept the certificate of a replica. It returns the certificate.
func checkCertificate(t *testing.T, when string, i *Injector, roots *x509.CertPool) string {
	t.Helper()
	c, err := i.Certificate().Get(nil)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if _, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: "gpuledger-webhook.gpuledger.svc", Roots: roots, CurrentTime: time.Now()}); err != nil {
		t.Errorf("%s: %v", when, err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(i)
	families, err := registry.Gather()
	check(t, err)
	if got := families[0]; got.GetName() != expiry.Name || int64(got.GetMetric()[0].GetGauge().GetValue()) != c.Leaf.NotAfter.Unix() {
		t.Errorf("%s: the first metric is %v, want the expiry time of the certificate", when, got)
	}
	return string(c.Leaf.Raw)
}

func checkParameters(t *testing.T, kube *kubetest.Client, i *Injector) {
	t.Helper()
	maps := kube.ConfigMaps(namespace)
	parameters := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: sidecar.ParametersName}, Data: map[string]string{"image": "i", "nodes": "*"}}
	steps := []struct {
		want string
		do   func() error
	}{
		{noParameters, func() error { return nil }},
		{injected, func() error { _, err := maps.Create(t.Context(), parameters, metav1.CreateOptions{}); return err }},
		{"no_image", func() error {
			parameters.Data = map[string]string{"nodes": "*"}
			_, err := maps.Update(t.Context(), parameters, metav1.UpdateOptions{})
			return err
		}},
		{noParameters, func() error { return maps.Delete(t.Context(), parameters.Name, metav1.DeleteOptions{}) }},
	}
	for _, step := range steps {
		check(t, step.do())
		synctest.Wait()
		before := counted(i)[step.want]
		post(i, reviewOf(plugin))
		if got := counted(i); got[step.want] != before+1 {
			t.Errorf("results %v, want %s", got, step.want)
		}
		if missing := i.NotReady(); missing != "" {
			t.Error(missing)
		}
	}
}

// TestSecretOfOthers checks that the reconciler does not change a Secret without the authority's key. The injector must
// wait for a missing Secret. If a new certificate is invalid, the injector must keep the old certificate.
func TestSecretOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubetest.New()
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer stop()
		i := newInjector()
		all.Go(func() { i.Run(ctx, kube, watch.New(slog.New(slog.DiscardHandler))) })
		all.Go(func() { i.Lead(ctx, kube, kube, watch.New(slog.New(slog.DiscardHandler))) })
		time.Sleep(time.Hour)
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: sidecar.ServiceName}}
		_, err := kube.Secrets(namespace).Create(t.Context(), object, metav1.CreateOptions{})
		check(t, err)
		time.Sleep(time.Minute)
		if missing := i.NotReady(); missing != "" {
			t.Fatalf("after the Secret was created: %s", missing)
		}
		first, _ := i.Certificate().Get(nil)
		object.Data = map[string][]byte{
			certificate.Authority: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: first.Certificate[0]}), certificate.Server: []byte("x"),
		}
		_, err = kube.Secrets(namespace).Update(t.Context(), object, metav1.UpdateOptions{})
		check(t, err)
		time.Sleep(time.Hour)
		if diff := cmp.Diff(object.Data, secret(t, kube).Data); diff != "" {
			t.Errorf("the Secret was changed (-want +got):\n%s", diff)
		}
		if now, _ := i.Certificate().Get(nil); string(now.Certificate[0]) != string(first.Certificate[0]) {
			t.Error("the broken Secret changed the certificate")
		}
	})
}

// TestRenewalErrors checks that the log contains each repeated error of the renewal once. The error must be logged
// again after a successful renewal.
func TestRenewalErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubetest.New(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: sidecar.ServiceName}})
		var broken atomic.Bool
		kube.PrependReactor("update", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return broken.Load(), nil, errors.New("the server is currently unable to handle the request")
		})
		var out bytes.Buffer
		i := New(Options{Address: ":0", Namespace: namespace}, slog.New(slog.NewTextHandler(&out, nil)))
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer stop()
		failures := watch.New(slog.New(slog.DiscardHandler))
		all.Go(func() { i.Run(ctx, kube, failures) })
		all.Go(func() { i.Lead(ctx, kube, kube, failures) })
		for outage := range 2 {
			time.Sleep(60*24*time.Hour - 2*time.Hour) // the certificate is renewed after 60 days
			broken.Store(true)
			time.Sleep(4 * time.Hour)
			broken.Store(false)
			time.Sleep(time.Hour)
			synctest.Wait()
			if got, want := strings.Count(out.String(), "level=ERROR"), outage+1; got != want {
				t.Errorf("%d errors after outage %d, want %d:\n%s", got, outage+1, want, &out)
			}
		}
	})
}

func secret(t *testing.T, kube *kubetest.Client) *corev1.Secret {
	t.Helper()
	s, err := kube.Secrets(namespace).Get(t.Context(), sidecar.ServiceName, metav1.GetOptions{})
	check(t, err)
	return s
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
