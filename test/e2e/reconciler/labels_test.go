//go:build e2e

package reconciler_test

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/test/e2e/cluster"
)

// nodeWrites includes rejected requests.
func nodeWrites(t testing.TB, since *cluster.Audit) []cluster.Request {
	t.Helper()
	return must(since.Requests(func(r *cluster.Request) bool {
		return r.User.Name == username && r.Writes() && r.Object.Resource == "nodes"
	}))(t)
}

// allWrites omits the writes that renew the Lease.
func allWrites(t testing.TB, since *cluster.Audit) []cluster.Request {
	t.Helper()
	return must(since.Requests(func(r *cluster.Request) bool {
		return r.User.Name == username && r.Writes() && r.Object.Resource != "leases"
	}))(t)
}

func now(t testing.TB) *cluster.Audit {
	t.Helper()
	return must(world.Audit())(t)
}

// TestLabels checks that a Node gets its labels and its annotation by a server-side apply of the manager gpuledger. The
// Node must keep the labels of other managers.
func TestLabels(t *testing.T) {
	n := newNode(t, "a", "1654", "1655")
	n.patch(`{"metadata":{"labels":{"zone":"one","gpuledger.io/team":"ours"}}}`)
	lead(t, "--enable=labels")

	want := serials("1654", "1655")
	want["team"] = "ours" // a label of another manager with our prefix
	n.awaitLabels(want)
	object := n.object()
	if got := object.Labels["zone"]; got != "one" {
		t.Errorf("the label of another manager is now %q", got)
	}
	if annotation := object.Annotations["gpuledger.io/inventory"]; !strings.Contains(annotation, "GPU-1654") || len(annotation) > 4000 {
		t.Errorf("annotation of %d bytes: %s", len(annotation), annotation)
	}
	byUs := slices.DeleteFunc(object.ManagedFields, func(f meta.ManagedFieldsEntry) bool { return f.Manager != "gpuledger" })
	if len(byUs) != 1 || byUs[0].Operation != meta.ManagedFieldsOperationApply || strings.Contains(string(byUs[0].FieldsV1.GetRawBytes()), "team") {
		t.Errorf("managed fields of gpuledger: %v", byUs)
	}
}

// TestSteady checks that the reconciler writes every Node with GPUs once, and not again until something changes.
func TestSteady(t *testing.T) {
	nodes := []*node{newNode(t, "a", "1"), newNode(t, "b", "2"), newNode(t, "c")}
	since := now(t)
	lead(t)
	nodes[0].awaitLabels(serials("1"))
	nodes[1].awaitLabels(serials("2"))
	awaitAllReads(t, nodes, 5)
	if writes := allWrites(t, since); len(writes) != 2 {
		t.Errorf("the audit log has %d writes, want one for each node with GPUs: %v", len(writes), writes)
	}
}

// TestForeignEdit checks that the reconciler restores its labels within five seconds after another client has edited
// them. It does not read the exporter again in this time.
func TestForeignEdit(t *testing.T) {
	n := newNode(t, "a", "1654", "1655")
	lead(t, "--enable=labels", "--resync=1h")
	n.awaitLabels(serials("1654", "1655"))
	for name, patch := range map[string]string{
		"changed": `{"metadata":{"labels":{"gpuledger.io/gpu-0":"other"}}}`,
		"removed": `{"metadata":{"labels":{"gpuledger.io/gpu-1":null}}}`,
		"all":     `{"metadata":{"labels":{"gpuledger.io/gpu-0":null,"gpuledger.io/gpu-1":null,"gpuledger.io/gpu-count":null}}}`,
	} {
		n.patch(patch)
		begun := time.Now()
		n.awaitLabels(serials("1654", "1655"))
		took := time.Since(begun)
		t.Logf("%s: repaired after %v", name, took.Round(time.Millisecond))
		if took > 5*time.Second {
			t.Errorf("%s: restored only after %v", name, took)
		}
	}
	n.patch(`{"metadata":{"annotations":{"gpuledger.io/inventory":null}}}`)
	eventually(t, "the annotation is back", func() bool { return n.object().Annotations["gpuledger.io/inventory"] != "" })
}

func TestExporterAway(t *testing.T) {
	n := newNode(t, "a", "1")
	lead(t, "--enable=labels")
	n.awaitLabels(serials("1"))
	since := now(t)
	n.answers(away)
	n.awaitReads(t, 3)
	n.deletePod()
	n.createPod()
	n.awaitReads(t, 1)
	n.serves(page("a", boards("1")...))
	n.awaitReads(t, 3)
	if writes := nodeWrites(t, since); len(writes) > 0 {
		t.Errorf("writes: %v", writes)
	}
}

func TestLabelTTL(t *testing.T) {
	n := newNode(t, "a", "1")
	n.patch(`{"metadata":{"labels":{"gpuledger.io/team":"ours"}}}`)
	lead(t, "--enable=labels", "--label-ttl=3s")
	want := serials("1")
	want["team"] = "ours"
	n.awaitLabels(want)
	n.deletePod()
	begun := time.Now()
	n.awaitLabels(map[string]string{"team": "ours"})
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("the labels were removed after %v", took)
	}
	if _, there := n.object().Annotations["gpuledger.io/inventory"]; there {
		t.Error("the annotation was not removed")
	}
}

func TestCleanup(t *testing.T) {
	a, b := newNode(t, "a", "1"), newNode(t, "b", "2")
	a.patch(`{"metadata":{"labels":{"zone":"one","gpuledger.io/team":"ours"}}}`)
	r := lead(t, "--enable=labels")
	b.awaitLabels(serials("2"))
	eventually(t, "node a has its labels", func() bool { return a.labels()["gpu-0"] == "1" })
	r.stop()

	kubeconfig := t.TempDir() + "/kubeconfig"
	check(t, cluster.WriteKubeconfig(kubeconfig, must(world.ServiceAccount(t.Context(), namespace, account))(t)))
	command := execute(t, "cleanup", "--kubeconfig="+kubeconfig)
	command.ended()
	if command.err != nil {
		t.Errorf("cleanup: %v", command.err)
	}
	if diff := cmp.Diff(map[string]string{"team": "ours"}, a.labels()); diff != "" {
		t.Errorf("labels of a (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{}, b.labels()); diff != "" {
		t.Errorf("labels of b (-want +got):\n%s", diff)
	}
	if object := a.object(); object.Labels["zone"] != "one" || object.Annotations["gpuledger.io/inventory"] != "" {
		t.Errorf("node a: labels %v, annotations %v", object.Labels, object.Annotations)
	}
}

// TestDeletedNode checks that the reconciler does not create a deleted Node again while its exporter still runs.
func TestDeletedNode(t *testing.T) {
	gone, stays := newNode(t, "gone", "1"), newNode(t, "stays", "2")
	lead(t, "--enable=labels")
	gone.awaitLabels(serials("1"))
	stays.awaitLabels(serials("2"))
	check(t, world.Client.CoreV1().Nodes().Delete(t.Context(), "gone", meta.DeleteOptions{}))
	gone.serves(page("gone", boards("3")...)) // the new serial number is a reason to write
	stays.awaitReads(t, 4)                    // the exporter of an unknown Node is not read
	if gone.object() != nil {
		t.Error("the Node exists again")
	}
	// A Node that is created again under the same name is a new Node and gets labels.
	gone.create(nil)
	gone.awaitLabels(serials("3"))
}

// TestRegisteredAgain deletes and creates a Node while its exporter runs. The Node must get its labels immediately,
// although the next regular reading is an hour later.
func TestRegisteredAgain(t *testing.T) {
	n := newNode(t, "a", "1")
	lead(t, "--enable=labels", "--resync=1h")
	n.awaitLabels(serials("1"))
	check(t, world.Client.CoreV1().Nodes().Delete(t.Context(), "a", meta.DeleteOptions{}))
	n.create(nil)
	n.awaitLabels(serials("1"))
}

// TestTwoReadings checks that the reconciler does not write a value that it has read only once.
func TestTwoReadings(t *testing.T) {
	n := newNode(t, "a", "1")
	lead(t, "--enable=labels")
	n.awaitLabels(serials("1"))
	since := now(t)
	var turn atomic.Int64
	n.answers(func(w http.ResponseWriter, r *http.Request) {
		serves(page("a", boards(strconv.FormatInt(1+turn.Add(1)%2, 10))...))(w, r)
	})
	n.awaitReads(t, 6)
	if writes := nodeWrites(t, since); len(writes) > 0 {
		t.Errorf("writes: %v", writes)
	}
	n.serves(page("a", boards("2")...))
	n.awaitLabels(serials("2"))
}

// TestChangeBudget checks that a driver that reports other serial numbers does not change the labels of a whole fleet
// at once. The metrics must show the delay.
func TestChangeBudget(t *testing.T) {
	const fleet, budget = 14, 10
	var nodes []*node
	for i := range fleet {
		name := "n" + string(rune('a'+i))
		nodes = append(nodes, newNode(t, name, name+"-1"))
	}
	r := lead(t, "--enable=labels")
	for _, n := range nodes {
		n.awaitLabels(serials(n.name + "-1")) // the first labels do not use the budget
	}
	for _, n := range nodes {
		n.serves(page(n.name, boards(n.name+"-2")...))
	}
	changed := func() int {
		return len(slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool { return n.labels()["gpu-0"] != n.name+"-2" }))
	}
	eventually(t, "the budget is spent", func() bool { return changed() >= budget })
	awaitAllReads(t, nodes, 3)
	if got := changed(); got != budget {
		t.Errorf("%d nodes changed, want %d", got, budget)
	}
	eventually(t, "the metric counts the waiting nodes", func() bool {
		return r.value("gpuledger_reconciler_changes_held", nil) == fleet-budget
	})

	// A new leader must read two values from the Lease: the spent part of the budget, and an administrator's approval.
	r.stop()
	second := lead(t, "--enable=labels", "--leader-election.identity=second")
	awaitAllReads(t, nodes, 3)
	if got := changed(); got != budget {
		t.Errorf("%d nodes changed after a restart, want %d", got, budget)
	}
	annotateLease(t, `{"gpuledger.io/approved-changes":"4"}`)
	eventually(t, "the other nodes change", func() bool { return changed() == fleet })
	if got := second.logLines("all approved changes of identity were applied"); len(got) != 1 {
		t.Errorf("the log reports the end of the approval: %v", got)
	}
}

// The annotations of the Lease contain the change budget.
func annotateLease(t testing.TB, annotations string) {
	t.Helper()
	_, err := world.Client.CoordinationV1().Leases(namespace).Patch(context.Background(), account, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":`+annotations+`}}`), meta.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		check(t, err)
	}
}

func TestDryRun(t *testing.T) {
	n := newNode(t, "a", "1654")
	since := now(t)
	r := lead(t, "--enable=labels", "--dry-run")
	n.awaitReads(t, 4)
	if writes := allWrites(t, since); len(writes) > 0 {
		t.Errorf("writes: %v", writes)
	}
	eventually(t, "the log has the labels", func() bool { return len(r.logLines("1654")) > 0 })
}

func TestSameGPUTwice(t *testing.T) {
	a, b, c := newNode(t, "a", "1", "2"), newNode(t, "b", "2", "3"), newNode(t, "c", "4")
	since := now(t)
	r := lead(t, "--enable=labels")
	c.awaitLabels(serials("4"))
	awaitAllReads(t, []*node{a, b}, 3)
	for _, w := range nodeWrites(t, since) {
		if w.Object.Name != "c" {
			t.Errorf("a write: %v", w)
		}
	}
	eventually(t, "both nodes have events", func() bool {
		return len(events(t, a)) > 0 && len(events(t, b)) > 0
	})
	t.Logf("event: %s: %s", events(t, a)[0].Reason, events(t, a)[0].Message)
	if r.value("gpuledger_reconciler_nodes", map[string]string{"state": "duplicate_uuid"}) != 2 {
		t.Errorf("the metrics do not name two nodes")
	}
	b.serves(page("b", boards("3")...)) // b reported the wrong GPU
	a.awaitLabels(serials("1", "2"))
	b.awaitLabels(serials("3"))
}

func events(t *testing.T, n *node) []core.Event {
	t.Helper()
	all := must(world.Client.CoreV1().Events("default").List(t.Context(), meta.ListOptions{
		FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + n.name,
	}))(t)
	return all.Items
}

func TestBadPages(t *testing.T) {
	n := newNode(t, "a", "1", "2")
	r := lead(t, "--enable=labels", "--exporter.timeout=500ms")
	n.awaitLabels(serials("1", "2"))
	twice := boards("1", "3")
	twice[1].UUID = twice[0].UUID
	reads := func(result string) float64 {
		return r.value("gpuledger_reconciler_inventory_reads_total", map[string]string{"result": result})
	}
	tests := []struct {
		name   string
		answer http.HandlerFunc
		result string // result of reading the exporter
		state  string // state of the inventory, if it could be read
	}{
		{"garbage", text("\x00\x01 no JSON {"), "garbage", ""},
		{"HTML", text("<html>hello</html>"), "garbage", ""},
		{"an empty answer", text(""), "garbage", ""},
		{"an empty object", text("{}"), "garbage", ""},
		{"null", text("null"), "garbage", ""},
		{"a list", text("[]"), "garbage", ""},
		{"half a page", text(`{"version":1,"driver_up":true,"gpus":[{"uuid":"GPU-9","present":true`), "garbage", ""},
		{"100 MB", huge, "garbage", ""},
		{"another version", serves(inventory.Page{Version: 99, DriverUp: true, GPUs: boards("9")}), "garbage", ""},
		{"an error", away, "refused", ""},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/inventory?again", http.StatusTemporaryRedirect)
		}, "refused", ""},
		{"the connection is cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "unreachable", ""},
		{"nothing, without end", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "unreachable", ""},
		{"the driver is down", serves(inventory.Page{Version: inventory.Version, Node: gpu.Node{Name: "a"}, GPUs: boards("9")}), "ok", "driver_down"},
		{"one UUID twice", serves(page("a", twice...)), "ok", "contradiction"},
		{"another node's identity", serves(page("b", boards("9")...)), "ok", "other_node"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			since, before := now(t), reads(tt.result)
			n.answers(tt.answer)
			eventually(t, "the readings are counted as "+tt.result, func() bool { return reads(tt.result) >= before+3 })
			if tt.state != "" && r.value("gpuledger_reconciler_nodes", map[string]string{"state": tt.state}) != 1 {
				t.Errorf("the node is not counted as %s", tt.state)
			}
			if writes := nodeWrites(t, since); len(writes) > 0 {
				t.Errorf("writes: %v", writes)
			}
			if diff := cmp.Diff(serials("1", "2"), n.labels()); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
	n.serves(page("a", boards("1", "3")...))
	n.awaitLabels(serials("1", "3"))
}

func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

// huge serves a page that begins correctly but never ends.
func huge(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte(`{"version":1,"driver_up":true,"gpus":[`))
	gpus := []byte(strings.Repeat(`{"uuid":"GPU-9","serial":"9","present":true},`, 1000))
	for range 100 << 20 / len(gpus) {
		if _, err := w.Write(gpus); err != nil {
			return // the client has stopped reading
		}
	}
}
