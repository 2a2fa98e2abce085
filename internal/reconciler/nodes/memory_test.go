package nodes

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/internal/nodelabel"
	"github.com/gpuledger/gpuledger/internal/reconciler/validator"
)

func version(uid, v string) *node {
	return &node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: types.UID(uid), ResourceVersion: v}}
}

func desired(serial string) nodelabel.Desired {
	return nodelabel.Desired{Labels: map[string]string{"gpuledger.io/gpu-0": serial}}
}

// TestNews checks that a write is not repeated before its update event has arrived. A different write must not wait.
func TestNews(t *testing.T) {
	m := newMemory()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if news, wait := m.news(version("u1", "1"), desired("1"), at); !news || wait > 0 {
		t.Errorf("the first write: %v, %v", news, wait)
	}
	if !m.write(version("u1", "1"), desired("1"), at) {
		t.Error("the first write does not count as new")
	}
	tests := []struct {
		name string
		node *node
		want nodelabel.Desired
		news bool
	}{
		{"no update event yet", version("u1", "1"), desired("1"), false},
		{"other content", version("u1", "1"), desired("2"), true},
		{"edited in the meantime", version("u1", "2"), desired("1"), true},
		{"another Node", version("u2", "1"), desired("1"), true},
	}
	for _, tt := range tests {
		if news, _ := m.news(tt.node, tt.want, at.Add(time.Hour)); news != tt.news {
			t.Errorf("%s: news %v, want %v", tt.name, news, tt.news)
		}
	}
	if m.write(version("u1", "2"), desired("1"), at) {
		t.Error("a repeated write counts as new")
	}
}

// TestVain checks that a write without effect is repeated with increasing delays until the Node is correct.
func TestVain(t *testing.T) {
	m := newMemory()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	wait := func() time.Duration {
		_, wait := m.news(version("u1", "2"), desired("1"), at)
		return max(wait, 0)
	}
	for i, want := range []time.Duration{0, apart, apart, apart, apart, apart, 2 * apart, 4 * apart} {
		if got := wait(); got != want {
			t.Errorf("before write %d: wait %v, want %v", i, got, want)
		}
		m.write(version("u1", "1"), desired("1"), at)
	}
	for range 100 {
		m.write(version("u1", "1"), desired("1"), at)
	}
	if got := wait(); got != apartMax {
		t.Errorf("after a hundred failures: wait %v, want %v", got, apartMax)
	}
	m.right("a", "{}", at)
	if got := wait(); got != apartMax {
		t.Errorf("after the Node was correct for a moment: wait %v, want %v", got, apartMax)
	}
	m.right("a", "{}", at)
	at = at.Add(apartMax)
	if got := wait(); got != 0 {
		t.Errorf("after the Node stayed correct: wait %v, want none", got)
	}
	m.write(version("u1", "1"), desired("1"), at)
	if got := wait(); got != apart {
		t.Errorf("after another write: wait %v, want %v", got, apart)
	}
	if m.lastIdentity("a") != "{}" {
		t.Error("the identity is lost")
	}
	m.forget("a")
	if m.lastIdentity("a") != "" || wait() != 0 {
		t.Error("a deleted Node is not forgotten")
	}
}

// TestFight checks that writes become rare if another client reverts each write. After each write, the Node is correct
// for a moment.
func TestFight(t *testing.T) {
	m := newMemory()
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := begun
	for i := range 100 {
		n := version("u1", fmt.Sprint(i))
		_, wait := m.news(n, desired("1"), now)
		now = now.Add(max(wait, 0))
		m.write(n, desired("1"), now)
		m.right("a", "{}", now)
	}
	if took := now.Sub(begun); took < 80*apartMax {
		t.Errorf("a hundred writes in %v", took)
	}
}

// TestMissed checks that updates of a Node do not shorten the delay after a failed write. A new Node with the same name
// must have no delay.
func TestMissed(t *testing.T) {
	m := newMemory()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i, want := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second} {
		m.missed(version("u1", "1"), at)
		if news, wait := m.news(version("u1", fmt.Sprint(i)), desired("1"), at); !news || wait != want {
			t.Errorf("after failure %d: news %v, wait %v, want %v", i, news, wait, want)
		}
	}
	if _, wait := m.news(version("u2", "9"), desired("1"), at); wait > apart {
		t.Errorf("a new Node waits %v", wait)
	}
	m.missed(version("u1", "1"), at)
	m.write(version("u1", "1"), desired("1"), at)
	if _, wait := m.news(version("u1", "2"), desired("1"), at); wait != apart {
		t.Errorf("after a success: wait %v, want %v", wait, apart)
	}
}

func TestFailing(t *testing.T) {
	m := newMemory()
	steps := []struct {
		name, reason string
		news         bool
	}{
		{"a", "", false},
		{"a", "forbidden", true},
		{"b", "conflict", true},
		{"a", "forbidden", false},
		{"c", "", false},
		{"c", "forbidden", false},
		{"b", "conflict", false},
		{"b", "", false},
		{"a", "", false},
		{"c", "", true},
		{"a", "forbidden", true},
	}
	for i, s := range steps {
		if news := m.failing(s.name, s.reason); news != s.news {
			t.Errorf("step %d: news %v", i, news)
		}
	}
	m.forget("a")
	if !m.failing("b", "forbidden") {
		t.Error("a deleted Node still counts as failing")
	}
}

func TestNote(t *testing.T) {
	m := newMemory()
	steps := []struct {
		finding validator.Finding
		news    bool
		other   string
	}{
		{validator.Finding{State: validator.Unconfirmed}, false, ""},
		{validator.Finding{State: validator.Settled}, false, ""},
		{validator.Finding{State: validator.DuplicateUUID, Other: "b"}, true, ""},
		{validator.Finding{State: validator.DuplicateUUID, Other: "c"}, false, "b"},
		{validator.Finding{State: validator.Contradiction}, true, "c"},
		{validator.Finding{State: validator.Settled}, true, ""},
	}
	for i, s := range steps {
		if news, other := m.note("a", s.finding); news != s.news || other != s.other {
			t.Errorf("step %d: news %v, other %q", i, news, other)
		}
	}
}

func TestKindOf(t *testing.T) {
	const key = "gpuledger.io/inventory"
	identity := func(s string) nodelabel.Desired { return nodelabel.Desired{Annotations: map[string]string{key: s}} }
	with := func(inventory string, owned ...string) *node {
		n := version("u1", "1")
		n.Annotations = map[string]string{key: inventory}
		n.owned.annotations = owned
		return n
	}
	tests := []struct {
		name string
		node *node
		last string
		want nodelabel.Desired
		kind string
	}{
		{"no label of ours", with("old"), "", identity("new"), kindFirst},
		{"another identity", with("old", key), "old", identity("new"), kindChange},
		{"no GPUs", with("old", key), "old", nodelabel.Desired{}, kindChange},
		{"the same identity", with("old", key), "", identity("old"), kindRepair},
		{"the annotation was edited", with("edited", key), "old", identity("old"), kindRepair},
		{"another identity, after a time without a leader", with("old", key), "", identity("new"), kindChange},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trm := &term{opts: *testOptions(nodelabel.Own, "gpuledger.io"), memory: newMemory()}
			trm.memory.right("a", tt.last, time.Now())
			if got := trm.kindOf(tt.node, tt.want); got != tt.kind {
				t.Errorf("kind is %s, want %s", got, tt.kind)
			}
		})
	}
}

// TestKindOfUnknown checks Nodes without the annotation. Either the labels were taken over from another program, or
// someone removed or edited the annotation.
func TestKindOfUnknown(t *testing.T) {
	const label = "gpuledger.io/gpu-0"
	want := nodelabel.Desired{Labels: map[string]string{label: "1"}, Annotations: map[string]string{"gpuledger.io/inventory": "{}"}}
	tests := []struct {
		name   string
		scheme nodelabel.Scheme
		serial string
		last   string
		want   nodelabel.Desired
		kind   string
	}{
		{"taken over, correct", nodelabel.GPUID, "1", "", want, kindRepair},
		{"taken over, stale", nodelabel.GPUID, "2", "", want, kindFirst},
		{"taken over, no GPUs", nodelabel.GPUID, "2", "", nodelabel.Desired{}, kindChange},
		{"removed in this term", nodelabel.GPUID, "2", "old", want, kindChange},
		{"removed without a leader, the same GPU", nodelabel.Own, "1", "", want, kindRepair},
		{"removed without a leader, another GPU", nodelabel.Own, "2", "", want, kindChange},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trm := &term{opts: *testOptions(tt.scheme, "gpuledger.io"), memory: newMemory()}
			trm.memory.right("a", tt.last, time.Now())
			n := version("u1", "1")
			n.Labels, n.owned.labels = map[string]string{label: tt.serial}, []string{label}
			if got := trm.kindOf(n, tt.want); got != tt.kind {
				t.Errorf("kind is %s, want %s", got, tt.kind)
			}
		})
	}
}
