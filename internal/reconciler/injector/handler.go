package injector

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/internal/sidecar"
)

const (
	// maxBody is the maximum size of a request body in bytes. A device plugin's pod has only a few kilobytes.
	maxBody = 512 << 10
	// readTime limits the time for reading a request. The API server waits two seconds for the response.
	readTime = 2 * time.Second
)

type review struct {
	metav1.TypeMeta `json:",inline"`

	Request struct {
		UID       types.UID               `json:"uid"`
		Kind      metav1.GroupVersionKind `json:"kind"`
		Operation admissionv1.Operation   `json:"operation"`
		Object    *sidecar.Pod            `json:"object"`
	} `json:"request"`
}

// ServeHTTP responds to an AdmissionReview with the patch for the pod in the review. It responds to an invalid request
// with status 400, which the API server ignores like any failure of the webhook.
func (i *Injector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTime)) // fails only in tests, whose response recorders do not support deadlines
	var request review
	if err := decode(json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)), &request); err != nil {
		i.count(invalidRequest)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	patch, result := i.patch(request.Request.Object)
	i.count(result)
	response := &admissionv1.AdmissionResponse{UID: request.Request.UID, Allowed: true}
	if result == injected {
		response.Patch, response.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: request.TypeMeta, Response: response}) // the client may have disconnected
}

func decode(from *json.Decoder, into *review) error {
	if err := from.Decode(into); err != nil {
		return fmt.Errorf("decode the AdmissionReview: %w", err)
	}
	request := &into.Request
	switch {
	case into.APIVersion != "admission.k8s.io/v1" || into.Kind != "AdmissionReview":
		return fmt.Errorf("must be an AdmissionReview of admission.k8s.io/v1, not %q of %q", into.Kind, into.APIVersion)
	case request.Kind != metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod")) || request.Operation != admissionv1.Create:
		return fmt.Errorf("must be the CREATE of a v1 Pod, not the %s of %v", request.Operation, request.Kind)
	case request.UID == "" || request.Object == nil:
		return errors.New("the request has no uid or no object")
	}
	return nil
}

// patch returns a JSON patch for the pod, or nil if the pod must not change. It also returns the value for the label
// result.
func (i *Injector) patch(pod *sidecar.Pod) (patch []byte, result string) {
	parameters := i.parameters.Load()
	if parameters == nil {
		return nil, noParameters
	}
	if reason := parameters.Refuse(pod); reason != "" {
		return nil, string(reason)
	}
	patch, err := json.Marshal(sidecar.Patch(pod, parameters))
	if err != nil {
		i.log.Error("cannot encode the patch of a pod", "err", err)
		return nil, invalidRequest
	}
	return patch, injected
}

func (i *Injector) count(result string) { i.counts.requests.WithLabelValues(result).Inc() }
