//go:build e2e

package reconciler_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/test/e2e/cluster"
)

// TestTakeOver checks that the reconciler takes over the labels that gpuid wrote, with the label scheme of gpuid. Stale
// labels must be removed. Correct labels and similar labels must stay unchanged.
func TestTakeOver(t *testing.T) {
	n := newNode(t, "a", "30", "10")
	written := `{"metadata":{"labels":{"gpuid.github.com/gpu-0":"10","gpuid.github.com/gpu-1":"30","gpuid.github.com/gpu-7":"70","gpuid.github.com/chassis":"old"}}}`
	must(world.Client.CoreV1().Nodes().Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(written), meta.PatchOptions{FieldManager: "gpuid"}))(t)
	n.patch(`{"metadata":{"labels":{"gpuid.github.community/x":"y","gpuid.github.com/mine":"stays"}}}`)
	labels := func() map[string]string {
		ours := maps.Clone(n.object().Labels)
		maps.DeleteFunc(ours, func(key, _ string) bool { return !strings.HasPrefix(key, "gpuid.") })
		return ours
	}
	want := map[string]string{
		"gpuid.github.com/gpu-0": "10", "gpuid.github.com/gpu-1": "30",
		"gpuid.github.com/mine": "stays", "gpuid.github.community/x": "y",
	}
	fence(t, "'gpuledger.io/', 'gpuid.github.com/'")
	r := lead(t, "--enable=labels", "--label-scheme=gpuid")
	eventually(t, "gpuid's stale labels are removed", func() bool { return maps.Equal(labels(), want) })
	for _, f := range n.object().ManagedFields {
		if f.Manager == "gpuid" {
			t.Errorf("gpuid still owns %s", f.FieldsV1.GetRawBytes())
		}
	}

	since := now(t)
	n.awaitReads(t, 3)
	writes := must(since.Requests(func(q *cluster.Request) bool {
		return q.Writes() && q.Object.Resource == "nodes" && q.Object.Name == "a"
	}))(t)
	if len(writes) > 0 {
		t.Errorf("writes after the take-over: %v", writes)
	}
	if got := r.value("gpuledger_reconciler_node_writes_total", map[string]string{"kind": "take_over"}); got != 1 {
		t.Errorf("%v take-overs, want 1", got)
	}

	// From now on, the reconciler adds and removes these labels as if it had written them itself.
	n.serves(page("a", boards("10")...))
	delete(want, "gpuid.github.com/gpu-1")
	eventually(t, "a removed board has no label", func() bool { return maps.Equal(labels(), want) })
}

// TestOtherRules checks that the labels of a whole fleet can get another prefix although the budget is spent, because
// the GPUs do not change.
func TestOtherRules(t *testing.T) {
	var nodes []*node
	for i := range 12 {
		name := "n" + string(rune('a'+i))
		nodes = append(nodes, newNode(t, name, name+"-1"))
	}
	fence(t, "'gpuledger.io/', 'gpus.example.com/'")
	first := lead(t, "--enable=labels")
	for _, n := range nodes {
		n.awaitLabels(serials(n.name + "-1"))
	}
	first.stop()
	lead(t, "--enable=labels", "--label-prefix=gpus.example.com", "--leader-election.identity=second")
	for _, n := range nodes {
		eventually(t, n.name+" has moved", func() bool {
			l := n.object().Labels
			return len(n.labels()) == 0 && l["gpus.example.com/gpu-0"] == n.name+"-1"
		})
	}
}

// TestNeverCreates sends an apply with the UID of a Node that does not exist. The API server must reject it, even if
// the account may create Nodes. A test in package nodes checks that the program sends the UID.
func TestNeverCreates(t *testing.T) {
	n := newNode(t, "a", "1")
	r := start(t, world.Admin, "--enable=labels")
	n.awaitLabels(serials("1"))
	proxied := n.object()
	r.stop()
	check(t, world.Client.CoreV1().Nodes().Delete(t.Context(), "a", meta.DeleteOptions{}))
	apply := `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a","uid":"` + string(proxied.UID) + `","labels":{"gpuledger.io/gpu-0":"1"}}}`
	_, err := world.Client.CoreV1().Nodes().Patch(t.Context(), "a", types.ApplyPatchType, []byte(apply), meta.PatchOptions{FieldManager: "gpuledger", Force: new(true)})
	if err == nil || n.object() != nil {
		t.Errorf("apply to a deleted Node: error %v, Node %v", err, n.object())
	}
	t.Logf("the API server returned: %v", err)
	n.create(nil)
	_, err = world.Client.CoreV1().Nodes().Patch(t.Context(), "a", types.ApplyPatchType, []byte(apply), meta.PatchOptions{FieldManager: "gpuledger", Force: new(true)})
	if err == nil {
		t.Error("an apply to another Node with the same name succeeded")
	}
	t.Logf("the API server returned: %v", err)
	if diff := cmp.Diff(map[string]string{}, n.labels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}
