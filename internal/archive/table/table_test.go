package table_test

import (
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// An hour without units must have the same digest as in earlier versions. In these versions, active_ms was the last
// column of charges. A unit must change the digest.
func TestDigest(t *testing.T) {
	h := &table.Hour{Cluster: "east", Start: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Charges: []table.Charge{
		{Node: "a", UUID: "GPU-1", Namespace: "ml", Pod: "p", PodUID: "u", Team: "blue", Energy: 7},
	}}
	older := table.DigestRows(func(of table.Table) [][]any {
		rows := of.Rows(h)
		for i := range rows {
			for n := len(rows[i]); n > 0 && of.Columns[n-1].Added(); n-- {
				rows[i] = rows[i][:n-1]
			}
		}
		return rows
	})
	if got := table.Digest(h); got != older {
		t.Errorf("digest %s, want the digest of earlier versions, %s", got, older)
	}
	h.Charges[0].Manager, h.Charges[0].Unit = "slurm", "7"
	if table.Digest(h) == older {
		t.Error("a unit does not change the digest")
	}
}

// FiledIn must return a reason for gaps in hours from earlier versions, so that they are not refused when they are read
// again. A pruned hour must keep its reason.
func TestFiledIn(t *testing.T) {
	for _, tt := range []struct {
		state        table.State
		reason, want string
	}{{table.Complete, "", ""}, {table.Gaps, "a power cut", "a power cut"}, {table.Gaps, "", "filed by an earlier version"}, {table.Corrected, "x", "x"}} {
		h := &table.Hour{State: tt.state, Filed: table.Filed{Revision: 2, Digest: "d", Reason: tt.reason}}
		row, want := table.Hours.Rows(h)[0], table.Filed{Revision: 2, Digest: "d", Reason: tt.want}
		if got := table.FiledIn(row); got != want {
			t.Errorf("%s with %q: %+v", tt.state, tt.reason, got)
		}
		table.SetPruned(row)
		if want.Pruned = true; table.FiledIn(row) != want {
			t.Errorf("%s with %q, pruned: %+v", tt.state, tt.reason, table.FiledIn(row))
		}
	}
}
