package table

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The digest of an hour is computed from rows that are sorted by these columns.
var sorting = map[string][]string{
	GPUHours.Name:  {"node", "uuid"},
	Charges.Name:   {"node", "uuid", "reason", "namespace", "pod", "pod_uid", "manager", "unit"},
	Pods.Name:      {"namespace", "pod", "pod_uid"},
	Workloads.Name: {"uid"},
}

func inOrder(t Table, rows [][]any) [][]any {
	return slices.SortedStableFunc(slices.Values(rows), func(a, b []any) int {
		for _, name := range sorting[t.Name] {
			if c := strings.Compare(t.value(a, name).(string), t.value(b, name).(string)); c != 0 {
				return c
			}
		}
		return 0
	})
}

// Renamed returns the rows with the name of another cluster.
func Renamed(rows [][]any, cluster string) [][]any {
	all := make([][]any, len(rows))
	for i, row := range rows {
		all[i] = slices.Clone(row)
		all[i][0] = cluster
	}
	return all
}

// RenamedHour returns the row of an hour in the manifest with another cluster name and a matching digest. data returns
// the rows of the hour in each table of [Data], in any order. The digest of a corrected or pruned hour does not match
// these rows, so it does not change.
func RenamedHour(row []any, cluster string, data func(t Table) [][]any) []any {
	rows := make(map[string][][]any)
	for _, t := range Data {
		rows[t.Name] = inOrder(t, data(t))
	}
	found := func(t Table) [][]any { return rows[t.Name] }
	renamed := Renamed([][]any{row}, cluster)[0]
	if digest := Hours.index("digest"); row[digest] == DigestRows(found) {
		renamed[digest] = DigestRows(func(t Table) [][]any { return Renamed(found(t), cluster) })
	}
	return renamed
}

// OverlapError means that a cluster cannot be renamed, because an hour with the new name already exists.
type OverlapError struct {
	Cluster string
	Hour    time.Time
}

func (e *OverlapError) Error() string {
	return fmt.Sprintf("cluster %s also has the hour %s: choose a name without these hours", e.Cluster, e.Hour.UTC().Format("2006-01-02T15"))
}
