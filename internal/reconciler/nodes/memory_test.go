package nodes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/internal/nodelabel"
	"github.com/gpuledger/gpuledger/internal/reconciler/verdict"
)

func version(uid, v string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: types.UID(uid), ResourceVersion: v}}
}

func desired(serial string) nodelabel.Desired {
	return nodelabel.Desired{Labels: map[string]string{"gpuledger.io/gpu-0": serial}}
}

// TestNews: a write is not made twice before it was heard of, but at once to another
// Node or for another reason.
func TestNews(t *testing.T) {
	m := &memory{nodes: make(map[string]*remembered)}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if news, wait := m.news(version("u1", "1"), desired("1"), at); !news || wait > 0 {
		t.Errorf("the first write: %v, %v", news, wait)
	}
	if !m.write(version("u1", "1"), desired("1"), at) {
		t.Error("the first write is not another one")
	}
	tests := []struct {
		name string
		node *corev1.Node
		want nodelabel.Desired
		news bool
	}{
		{"not heard of", version("u1", "1"), desired("1"), false},
		{"something else", version("u1", "1"), desired("2"), true},
		{"edited since", version("u1", "2"), desired("1"), true},
		{"another Node", version("u2", "1"), desired("1"), true},
	}
	for _, tt := range tests {
		if news, _ := m.news(tt.node, tt.want, at.Add(time.Hour)); news != tt.news {
			t.Errorf("%s: news %v, want %v", tt.name, news, tt.news)
		}
	}
	if m.write(version("u1", "2"), desired("1"), at) {
		t.Error("the same write is another one")
	}
}

// TestVain: what does not take is written ever more seldom, until it takes.
func TestVain(t *testing.T) {
	m := &memory{nodes: make(map[string]*remembered)}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	wait := func() time.Duration {
		_, wait := m.news(version("u1", "2"), desired("1"), at)
		return max(wait, 0)
	}
	for i, want := range []time.Duration{0, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		if got := wait(); got != want {
			t.Errorf("before write %d: wait %v, want %v", i, got, want)
		}
		m.write(version("u1", "1"), desired("1"), at)
	}
	for range 100 {
		m.write(version("u1", "1"), desired("1"), at)
	}
	if got := wait(); got != apartMax {
		t.Errorf("after a hundred in vain: wait %v, want %v", got, apartMax)
	}
	m.right("a", "{}")
	if got := wait(); got != apart {
		t.Errorf("after it took: wait %v, want %v", got, apart)
	}
	if m.bore("a") != "{}" {
		t.Error("the identity is forgotten")
	}
	m.forget("a")
	if m.bore("a") != "" || wait() != 0 {
		t.Error("a Node that is gone is remembered")
	}
}

func TestJudged(t *testing.T) {
	m := &memory{nodes: make(map[string]*remembered)}
	steps := []struct {
		finding verdict.Finding
		news    bool
		other   string
	}{
		{verdict.Finding{State: verdict.Unconfirmed}, false, ""},
		{verdict.Finding{State: verdict.Settled}, false, ""},
		{verdict.Finding{State: verdict.DuplicateUUID, Other: "b"}, true, ""},
		{verdict.Finding{State: verdict.DuplicateUUID, Other: "c"}, false, "b"},
		{verdict.Finding{State: verdict.Contradiction}, true, "c"},
		{verdict.Finding{State: verdict.Settled}, true, ""},
	}
	for i, s := range steps {
		if news, other := m.judged("a", s.finding); news != s.news || other != s.other {
			t.Errorf("step %d: news %v, other %q", i, news, other)
		}
	}
}

func TestKindOf(t *testing.T) {
	const key = "gpuledger.io/inventory"
	identity := func(s string) nodelabel.Desired { return nodelabel.Desired{Annotations: map[string]string{key: s}} }
	node := func(inventory string) *corev1.Node {
		n := version("u1", "1")
		n.Annotations = map[string]string{key: inventory}
		return n
	}
	owned := keys{annotations: map[string]bool{key: true}}
	tests := []struct {
		name  string
		node  *corev1.Node
		owned keys
		bore  string
		want  nodelabel.Desired
		kind  string
	}{
		{"nothing of ours", node("old"), keys{}, "", identity("new"), kindFirst},
		{"another identity", node("old"), owned, "old", identity("new"), kindChange},
		{"no GPUs", node("old"), owned, "old", nodelabel.Desired{}, kindChange},
		{"the same identity", node("old"), owned, "", identity("old"), kindRepair},
		{"the annotation was edited", node("edited"), owned, "old", identity("old"), kindRepair},
		{"the annotation was edited while nobody led", node("edited"), owned, "", identity("old"), kindChange},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trm := &term{opts: *testOptions(nodelabel.Own, "gpuledger.io"), memory: &memory{nodes: make(map[string]*remembered)}}
			trm.memory.right("a", tt.bore)
			if got := trm.kindOf(tt.node, tt.owned, tt.want); got != tt.kind {
				t.Errorf("kind is %s, want %s", got, tt.kind)
			}
		})
	}
}
