package chain

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Move contains an hour of a renamed cluster.
type Move struct {
	// Last is the last entry of the hour in the chain of the old name.
	Last table.Entry
	// Filed is the row of the hour in the manifest under the old name. Renamed is this row under the new name.
	Filed, Renamed []any
	// Rows returns the rows of the hour under the old name, for each table of [table.Chained].
	Rows func(t table.Table) [][]any
}

// Entries returns the entries that record the renaming in the chains of both names. If the rows of the hour do not
// match its last entry, they must not match the new entry either. Otherwise their change would no longer be detected.
func (m Move) Entries() (from, to table.Entry) {
	name := m.Renamed[0].(string)
	from = table.Entry{Cluster: m.Filed[0].(string), Hour: m.Filed[1].(time.Time).UTC(), Kind: table.RenamedEntry, State: m.Last.State}
	to = Filed(m.Renamed, func(t table.Table) [][]any { return table.Renamed(m.Rows(t), name) })
	pruned := table.StateIn(m.Filed) == table.Pruned
	rows := make(hour)
	for _, t := range table.Chained {
		rows[t.Name] = m.Rows(t)
	}
	switch {
	case table.ManifestDigest(m.Filed) != m.Last.Manifest, !pruned && table.StateIn(m.Filed) != m.Last.State:
		to.Manifest = m.Last.Manifest
	case !pruned && digest(m.Last, rows) != m.Last.Rows:
		to.Rows = m.Last.Rows
	}
	return from, to
}

// Last returns the last entry for each hour and for each monthly sum.
func Last(entries []table.Entry) (hours, sums map[int64]table.Entry) {
	hours, sums = make(map[int64]table.Entry), make(map[int64]table.Entry)
	for _, e := range entries {
		if e.Kind == table.SumsEntry {
			sums[e.Hour.Unix()] = e
		} else {
			hours[e.Hour.Unix()] = e
		}
	}
	return hours, sums
}

// MovedSums returns the entries that record the renaming of the monthly sums in the chains of both names. before
// contains the rows under the old name. It is empty if an interrupted run has already renamed them. after is the entry
// under the new name.
func MovedSums(last table.Entry, before [][]any, after table.Entry) (from, to table.Entry) {
	if len(before) > 0 && table.SumsDigest(before) != last.Rows {
		after.Rows = last.Rows
	}
	return Sums(last.Cluster, last.Hour, nil, nil), after
}
