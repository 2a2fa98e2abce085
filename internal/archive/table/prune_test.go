package table_test

import (
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestSetPruned checks that a pruned hour keeps the reason for its gaps, even if an earlier version filed the hour
// without a reason.
func TestSetPruned(t *testing.T) {
	for _, tt := range []struct {
		state        table.State
		reason, want string
	}{
		{table.Complete, "", ""},
		{table.Gaps, "rack 7 was moved", "rack 7 was moved"},
		{table.Gaps, "", table.EarlierReason},
	} {
		h := &table.Hour{Cluster: "east", Start: march, State: tt.state, Filed: table.Filed{Revision: 1, Reason: tt.reason}}
		row := table.Hours.Rows(h)[0]
		table.SetPruned(row)
		want := table.Filed{Revision: 1, Reason: tt.want, Pruned: true}
		if got := table.FiledIn(row); got != want {
			t.Errorf("%s, %q: the manifest has %+v, want %+v", tt.state, tt.reason, got, want)
		}
	}
}
