package table

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"
)

// ErrPruned means that an hour was pruned, so it can no longer be written.
var ErrPruned = errors.New("the hour is pruned")

// Deletable contains the tables in which pruning deletes rows.
var Deletable = slices.Concat(Data, []Table{Corrections}, Appended)

// ClusterMonth is a month of a cluster.
type ClusterMonth struct {
	Cluster string
	Month   time.Time
}

// ByMonth returns the keys of a map, sorted by month and cluster.
func ByMonth[T any](of map[ClusterMonth]T) []ClusterMonth {
	return slices.SortedFunc(maps.Keys(of), func(a, b ClusterMonth) int {
		return cmp.Or(a.Month.Compare(b.Month), cmp.Compare(a.Cluster, b.Cluster))
	})
}

// Deleted describes the pruned rows of one cluster in one table.
type Deleted struct {
	Table, Cluster string
	Rows           int64 // number of rows in a database
	Files, Bytes   int64 // number and size of files in a folder or a bucket
	// First and Last are hours. For files, First is the first hour of the first day, and Last is the last hour of the
	// last day.
	First, Last time.Time
}

// Add adds pruned rows of the same cluster and table.
func (d *Deleted) Add(other Deleted) {
	d.Rows, d.Files, d.Bytes = d.Rows+other.Rows, d.Files+other.Files, d.Bytes+other.Bytes
	if d.First.IsZero() || other.First.Before(d.First) {
		d.First = other.First
	}
	if other.Last.After(d.Last) {
		d.Last = other.Last
	}
}

// SetPruned sets the state in a row of the manifest to pruned. The earlier state may imply a reason for gaps. SetPruned
// writes this reason to the row.
func SetPruned(row []any) {
	row[Hours.index("reason")] = FiledIn(row).Reason
	row[Hours.index("state")] = string(Pruned)
}

// Unsummed reports whether an administrator has removed the charges of an hour: the manifest counts charges, but the
// table has none. Such an hour has no monthly sum. charged is the number of charges in the table.
func Unsummed(row []any, charged int64) bool {
	return charged == 0 && Hours.value(row, "charges").(int64) > 0
}
