package sinktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Renamer is a sink that can rename a cluster.
type Renamer interface {
	Pruner
	RenameCluster(ctx context.Context, from, to string) (int, error)
}

// NewName is the new name of [Cluster] in [TestRename].
const NewName = "east, \"new\""

// FileForRename writes complete, corrected and pruned hours of two clusters, and events. It returns the rows that the
// sink must contain after the test has renamed [Cluster].
func FileForRename(t *testing.T, s Renamer, rows Rows) map[string][][]string {
	t.Helper()
	h := &history{rand.New(rand.NewPCG(3, 4)), make(statement)}
	january, march := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	digests := make(map[string]string) // new name by old name
	for _, cluster := range []string{Cluster, "west"} {
		for n, start := range []time.Time{january, january.Add(50 * time.Hour), march, march.Add(time.Hour), march.Add(30 * time.Hour)} {
			hour := h.hour(cluster, start)
			hour.Join() // Join sorts the rows, as in every archived hour
			hour.Digest = table.Digest(hour)
			check(t, s.Replace(t.Context(), hour))
			if n == 3 {
				h.correct(t, s, hour)
			} else if n >= 2 && cluster == Cluster {
				old := hour.Digest
				hour.Cluster = NewName
				digests[old] = table.Digest(hour)
			}
		}
		for _, of := range table.Appended {
			check(t, s.Append(t.Context(), of, table.EventRows(of, cluster, Events())))
		}
	}
	prune(t, s, march, false)
	want := make(map[string][][]string)
	for _, of := range table.All {
		for _, row := range rows(of) {
			if row[0] == Cluster {
				row[0] = NewName
				for i, text := range row {
					if digest := digests[text]; digest != "" && of.Name == table.Hours.Name {
						row[i] = digest
					}
				}
			}
			want[of.Name] = append(want[of.Name], row)
		}
		want[of.Name] = sorted(want[of.Name])
	}
	if len(digests) != 2 {
		t.Errorf("%d digests change", len(digests))
	}
	return want
}

// CheckRenamed compares the rows of a sink with the rows from [FileForRename].
func CheckRenamed(t *testing.T, rows Rows, want map[string][][]string) {
	t.Helper()
	for _, of := range table.All {
		if diff := Diff(want[of.Name], sorted(rows(of))); diff != "" || len(want[of.Name]) == 0 {
			t.Errorf("%s (-renamed +filed):\n%s", of.Name, diff)
		}
	}
}

// TestRename checks that all rows of the renamed cluster have the new name, and that no other row changes.
func TestRename(t *testing.T, open func(t *testing.T) (Renamer, Rows)) {
	s, rows := open(t)
	want := FileForRename(t, s, rows)
	overlap := new(table.OverlapError)
	before := rows.all()
	if _, err := s.RenameCluster(t.Context(), Cluster, "west"); !errors.As(err, &overlap) || overlap.Cluster != "west" {
		t.Errorf("error for a name with the same hours is %v", err)
	}
	CheckRenamed(t, rows, before)
	for _, hours := range []int{5, 0} {
		if n, err := s.RenameCluster(t.Context(), Cluster, NewName); err != nil || n != hours {
			t.Errorf("%d hours are renamed, want %d: %v", n, hours, err)
		}
		CheckRenamed(t, rows, want)
	}
	check(t, s.Replace(t.Context(), Hour(Noon, 3))) // some hours may already have the new name
	if n, err := s.RenameCluster(t.Context(), Cluster, NewName); err != nil || n != 1 {
		t.Errorf("%d hours are renamed later: %v", n, err)
	}
	if filed, err := s.Filed(t.Context(), NewName, Noon); err != nil || filed.Revision != 1 {
		t.Errorf("a later hour is filed as %+v, %v", filed, err)
	}
}
