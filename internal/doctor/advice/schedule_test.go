package advice_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/gpuledger/gpuledger/internal/doctor/advice"
)

// TestScheduled compares the program's decisions for random pods and Nodes with the decisions of the
// library that the scheduler and the DaemonSet controller use.
func TestScheduled(t *testing.T) {
	const seed = 20261129
	r := rand.New(rand.NewPCG(seed, 0))
	counts := make(map[bool]int)
	for range 20000 {
		pod, node := corev1.Pod{Spec: randomSpec(r)}, randomNode(r)
		selected, err := nodeaffinity.GetRequiredNodeAffinity(&pod).Match(&node)
		check(t, err)
		_, tainted := scheduling.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, func(t *corev1.Taint) bool {
			return t.Effect != corev1.TaintEffectPreferNoSchedule
		}, false)
		want := selected && !tainted
		spec, err := json.Marshal(pod.Spec)
		check(t, err)
		text, err := json.Marshal(node)
		check(t, err)
		got, err := advice.Scheduled(spec, text)
		check(t, err)
		if got != want {
			t.Fatalf("seed %d: scheduled %v, want %v:\n%s\n%s", seed, got, want, spec, text)
		}
		counts[want]++
	}
	if counts[true] < 500 || counts[false] < 500 {
		t.Errorf("results %v, want at least 500 of each", counts)
	}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func randomLabels(r *rand.Rand) map[string]string {
	labels := make(map[string]string)
	for range r.IntN(3) {
		labels[pick(r, "a", "b", "c")] = pick(r, "", "1", "2", "x")
	}
	return labels
}

func randomNode(r *rand.Rand) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pick(r, "n1", "n2"), Labels: randomLabels(r)}}
	for range r.IntN(2) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{
			Key: pick(r, "t", "u"), Value: pick(r, "", "v", "w"),
			Effect: pick(r, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
		})
	}
	return n
}

func randomSpec(r *rand.Rand) corev1.PodSpec {
	s := corev1.PodSpec{Containers: []corev1.Container{{Name: "x"}}}
	if r.IntN(3) == 0 {
		s.NodeSelector = randomLabels(r)
	}
	for range r.IntN(3) {
		s.Tolerations = append(s.Tolerations, corev1.Toleration{
			Key: pick(r, "t", "u"), Operator: pick(r, corev1.TolerationOpExists, corev1.TolerationOpEqual, ""), Value: pick(r, "", "v"),
			Effect: pick(r, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute),
		})
	}
	if r.IntN(4) == 0 {
		s.Tolerations = append(s.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: pick(r, "", corev1.TaintEffectNoSchedule)})
	}
	if r.IntN(2) == 0 {
		return s
	}
	required := &corev1.NodeSelector{}
	for range r.IntN(3) {
		var term corev1.NodeSelectorTerm
		for range r.IntN(3) {
			term.MatchExpressions = append(term.MatchExpressions, randomRequirement(r))
		}
		if r.IntN(3) == 0 {
			term.MatchFields = append(term.MatchFields, corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: pick(r, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{"n1"}})
		}
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, term)
	}
	s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	return s
}

func randomRequirement(r *rand.Rand) corev1.NodeSelectorRequirement {
	q := corev1.NodeSelectorRequirement{Key: pick(r, "a", "b", "c"), Operator: pick(r, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn,
		corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt)}
	switch q.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		q.Values = []string{pick(r, "1", "2"), pick(r, "x", "2")}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		q.Values = []string{pick(r, "0", "1", "2")}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
	}
	return q
}
