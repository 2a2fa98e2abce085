package database

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStatement(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := SQL("select node from {gpu_hours} where cluster = ? and hour in (?)", "east", []time.Time{noon, noon.Add(time.Hour)}).
		Join(SQL(" and serial in (?) and uuid not in (?)", []string{}, []string{"GPU-1"})).Add(" and scrapes > ?", int64(7))
	for d, want := range map[*Dialect]string{
		Postgres: "select node from gpuledger.gpu_hours where cluster = $1 and hour in ($2, $3) and serial in (null) and uuid not in ($4) and scrapes > $5",
		SQLite:   "select node from gpu_hours where cluster = ? and hour in (?, ?) and serial in (null) and uuid not in (?) and scrapes > ?",
		MySQL:    "select node from gpu_hours where cluster = ? and hour in (?, ?) and serial in (null) and uuid not in (?) and scrapes > ?",
	} {
		if diff := cmp.Diff(want, d.text(s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", d.Name, diff)
		}
	}
	if diff := cmp.Diff([]any{"east", noon, noon.Add(time.Hour), "GPU-1", int64(7)}, s.values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}
