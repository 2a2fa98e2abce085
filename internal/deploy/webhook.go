package deploy

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/sidecar"
)

// Webhook returns the webhook that adds the container in clusters without MutatingAdmissionPolicy. The reconciler
// serves it.
//
// Like the policy, the webhook does not keep a device plugin from starting. The API server waits at most two seconds
// for the webhook's response, and ignores failures of the webhook. The kustomize components copy the namespace and the
// conditions that select pods from the policy.
func Webhook() *admissionv1.MutatingWebhookConfiguration {
	constraints := matchConstraints()
	return &admissionv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: Name, Labels: partOf},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "sidecar.gpuledger.io",
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{
				Namespace: ParametersNamespace, Name: sidecar.ServiceName, Path: new(sidecar.Path),
			}},
			Rules:                   []admissionv1.RuleWithOperations{constraints.ResourceRules[0].RuleWithOperations},
			NamespaceSelector:       constraints.NamespaceSelector,
			MatchConditions:         matchConditions(),
			FailurePolicy:           new(admissionv1.Ignore),
			ReinvocationPolicy:      new(admissionv1.IfNeededReinvocationPolicy),
			SideEffects:             new(admissionv1.SideEffectClassNone),
			TimeoutSeconds:          new(int32(2)),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}
