package ledger_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A claim with admin access to another pod's GPU must cost nothing while the other pod uses the GPU. Pods that share a
// claim must count as holders of one GPU.
func TestAdminAccess(t *testing.T) {
	claims := func(first, second string, w gpu.Owner) []gpu.Allocation {
		owned, other := holds(train, 1), holds(w, 1)
		owned.Claim, other.Claim = first, second
		return []gpu.Allocation{owned, other}
	}
	mate := gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: "mate-0", UID: "uid-mate", Part: "main"}
	tests := []struct {
		name      string
		processes []*gpu.Process
		held      []gpu.Allocation
		want      amounts
	}{
		{"a monitor", both[:1], claims("train-gpu", "watch-all", serve), amounts{"energy": 300_000, "train exclusive": 300_000}},
		{"no process", nil, claims("train-gpu", "watch-all", serve), amounts{"energy": 300_000, "train allocated": 150_000, "serve allocated": 150_000}},
		{"one claim that two pods share", both[:1], claims("ours", "ours", mate), amounts{"energy": 300_000, "train allocated": 150_000, "mate allocated": 150_000}},
		{"claims with the same name in two namespaces", both[:1], claims("gpu", "gpu", serve), amounts{"energy": 300_000, "train exclusive": 300_000}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := ask(t, newLedger(), look(0, tt.processes, tt.held...), look(1, tt.processes, tt.held...))
			if diff := cmp.Diff(tt.want, amountsOf(b)); diff != "" {
				t.Errorf("amounts (-want +got):\n%s", diff)
			}
		})
	}
}
