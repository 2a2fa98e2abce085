//go:build e2e

package reconciler_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/test/e2e/cluster"
)

// conditionRole lets the account write conditions until the end of the test.
func conditionRole(t *testing.T) {
	t.Helper()
	role := filepath.Join("..", "..", "..", "manifests", "components", "node-condition", "role.yaml")
	check(t, world.ApplyFile(t.Context(), role))
	t.Cleanup(func() { check(t, world.DeleteFile(context.Background(), role)) })
}

func (n *node) conditions() map[core.NodeConditionType]string {
	got := make(map[core.NodeConditionType]string)
	for _, c := range n.object().Status.Conditions {
		got[c.Type] = string(c.Status) + " " + c.Reason
	}
	return got
}

// TestCondition checks that the condition follows the exporter's health page and does not affect the kubelet's
// conditions. The command cleanup must remove the condition together with the labels.
func TestCondition(t *testing.T) {
	conditionRole(t)
	n := newNode(t, "a", "1654")
	kubelet := `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}}`
	must(world.Client.CoreV1().Nodes().Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(kubelet), meta.PatchOptions{}, "status"))(t)
	advise := func(advice health.Advice, codes ...string) {
		p := health.Page{Version: health.Version, Advice: advice, GPUs: []health.GPU{{Serial: "1654", PCIBusID: "00000000:10:00.0", Advice: advice}}}
		for _, code := range codes {
			p.GPUs[0].Evidence = append(p.GPUs[0].Evidence, health.Evidence{Code: code, Advice: advice})
		}
		n.advises(p)
	}
	want := func(condition string) {
		t.Helper()
		eventually(t, "the condition is "+condition, func() bool { return n.conditions()["GPULedgerHealthy"] == condition })
		if got := n.conditions(); got["Ready"] != "True KubeletReady" || len(got) != 2 {
			t.Errorf("conditions: %v", got)
		}
	}
	advise(health.OK)
	r := lead(t, "--enable=labels", "--node-condition")
	want("True OK")
	n.awaitLabels(serials("1654"))
	advise(health.Reset, "xid_48", "fabric_failed")
	want("False Reset")
	i := slices.IndexFunc(n.object().Status.Conditions, func(c core.NodeCondition) bool { return c.Type == "GPULedgerHealthy" })
	if c := n.object().Status.Conditions[i]; c.Message != "reset, serial 1654, PCI 00000000:10:00.0: xid_48, fabric_failed" || c.LastTransitionTime.IsZero() {
		t.Errorf("condition %+v", c)
	}
	eventually(t, "an Event contains the reset", func() bool {
		return slices.ContainsFunc(events(t, n), func(e core.Event) bool {
			return e.Type == core.EventTypeWarning && e.Reason == "Reset" && strings.HasSuffix(e.Message, "reset, serial 1654, PCI 00000000:10:00.0: xid_48, fabric_failed")
		})
	})
	since := now(t)
	n.awaitReads(t, 5)
	if writes := nodeWrites(t, since); len(writes) > 0 {
		t.Errorf("writes without a change: %v", writes)
	}
	advise(health.OK)
	want("True OK")
	n.awaitLabels(serials("1654"))
	r.stop()

	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	check(t, cluster.WriteKubeconfig(kubeconfig, must(world.ServiceAccount(t.Context(), namespace, account))(t)))
	command := execute(t, "cleanup", "--kubeconfig="+kubeconfig)
	if command.ended(); command.err != nil {
		t.Errorf("cleanup: %v", command.err)
	}
	if got := n.conditions(); got["GPULedgerHealthy"] != "" || got["Ready"] != "True KubeletReady" || len(n.labels()) > 0 {
		t.Errorf("after cleanup: conditions %v, labels %v", got, n.labels())
	}
}

func TestFenceOfStatus(t *testing.T) {
	conditionRole(t)
	client := asReconciler(t)
	n := newNode(t, "fenced", "1")
	must(world.Client.CoreV1().Nodes().Patch(t.Context(), "fenced", types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`), meta.PatchOptions{}, "status"))(t)
	patch := func(body string) error {
		_, err := client.CoreV1().Nodes().Patch(t.Context(), n.name, types.StrategicMergePatchType, []byte(body), meta.PatchOptions{}, "status")
		return err
	}
	eventually(t, "the role is in force", func() bool {
		return patch(`{"status":{"conditions":[{"type":"GPULedgerHealthy","status":"True"}]}}`) == nil
	})
	tests := []struct {
		name, patch, refused string
	}{
		{"own condition", `{"status":{"conditions":[{"type":"GPULedgerHealthy","status":"False","reason":"Reset"}]}}`, ""},
		{"kubelet's condition", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, "condition GPULedgerHealthy"},
		{"another condition", `{"status":{"conditions":[{"type":"DiskPressure","status":"True"}]}}`, "condition GPULedgerHealthy"},
		{"own and another", `{"status":{"conditions":[{"type":"GPULedgerHealthy","status":"True"},{"type":"Ready","status":"False"}]}}`, "condition GPULedgerHealthy"},
		{"capacity", `{"status":{"capacity":{"nvidia.com/gpu":"0"}}}`, "status of a node"},
		{"allocatable", `{"status":{"allocatable":{"nvidia.com/gpu":"0"}}}`, "status of a node"},
		{"address", `{"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.9"}]}}`, "status of a node"},
		{"foreign label", `{"metadata":{"labels":{"team":"b"}}}`, "labels under gpuledger.io/"},
		{"foreign annotation", `{"metadata":{"annotations":{"team":"b"}}}`, "annotations under gpuledger.io/"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := patch(tt.patch)
			switch {
			case tt.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)):
				t.Errorf("got %v, want an error with %q", err, tt.refused)
			}
		})
	}
}
