package chain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Source is an archive that Check compares with its chains.
type Source interface {
	// Filled returns the days with rows in any table, by cluster. The day of a monthly sum is the first day of its
	// month. If a cluster has only a chain, its list is empty.
	Filled(ctx context.Context) (map[string][]time.Time, error)
	// Entries returns the chain of a cluster, sorted by sequence number.
	Entries(ctx context.Context, cluster string) ([]table.Entry, error)
	// Between returns the rows of a table in [from, until) for one cluster.
	Between(ctx context.Context, t table.Table, cluster string, from, until time.Time) ([][]any, error)
}

// Problem is a difference between an archive and a chain.
type Problem struct {
	Cluster string
	// Hour is the start of the hour that differs. It is zero if the hour is unknown.
	Hour time.Time
	Text string
}

func (p Problem) String() string {
	if p.Hour.IsZero() {
		return fmt.Sprintf("cluster %s: %s", p.Cluster, p.Text)
	}
	return fmt.Sprintf("cluster %s, hour %s: %s", p.Cluster, p.Hour.UTC().Format("2006-01-02T15"), p.Text)
}

// Report is the result of the comparison for one cluster.
type Report struct {
	Cluster string
	Hours   int // hours that were compared
	Signed  int // entries with a valid signature
	Head    table.Entry
	// Published is the sequence number of the newest published checkpoint in the chain. It is 0 if there is none.
	Published int64
	Problems  []Problem
}

// Check contains the options of a comparison.
type Check struct {
	// Keys contains the valid keys in the order of their use. If it is nil, signatures are not checked.
	Keys Keys
	// From and Until limit the hours that are compared. Zero means no limit.
	From, Until time.Time
	// Published contains checkpoints that were published earlier.
	Published []Checkpoint
}

// Verify compares an archive with its chains.
func (c Check) Verify(ctx context.Context, s Source) (reports []Report, err error) {
	days, err := s.Filled(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range c.Published {
		days[p.Cluster] = append(days[p.Cluster], nil...) // the cluster may have lost all its rows
	}
	for _, cluster := range slices.Sorted(maps.Keys(days)) {
		v := &verification{Check: c, source: s, report: Report{Cluster: cluster}}
		if err := v.cluster(ctx, days[cluster]); err != nil {
			return nil, fmt.Errorf("cluster %s: %w", cluster, err)
		}
		reports = append(reports, v.report)
	}
	return reports, nil
}

type verification struct {
	Check
	source Source
	report Report
	// last contains the last entry for each hour. sums contains the last entry for the sums of each month.
	last, sums map[int64]table.Entry
}

func (v *verification) problem(hour time.Time, format string, values ...any) {
	v.report.Problems = append(v.report.Problems, Problem{v.report.Cluster, hour, fmt.Sprintf(format, values...)})
}

func (v *verification) cluster(ctx context.Context, days []time.Time) error {
	entries, err := v.source.Entries(ctx, v.report.Cluster)
	if err != nil {
		return err
	}
	v.entries(entries)
	v.published(entries)
	v.last, v.sums = Last(entries)
	all := make(map[time.Time]bool)
	for _, e := range entries {
		all[table.Day(e.Hour)] = true
	}
	for _, day := range days {
		all[day.UTC()] = true
	}
	for _, day := range slices.SortedFunc(maps.Keys(all), time.Time.Compare) {
		if !v.From.IsZero() && !day.AddDate(0, 0, 1).After(v.From) || !v.Until.IsZero() && !day.Before(v.Until) {
			continue
		}
		if err := v.day(ctx, day); err != nil {
			return fmt.Errorf("day %s: %w", day.Format(time.DateOnly), err)
		}
	}
	return v.months(ctx, all)
}

func (v *verification) entries(all []table.Entry) {
	var last table.Entry
	key := 0
	for _, e := range all {
		switch {
		case e.Sequence != last.Sequence+1:
			v.problem(e.Hour, "entry %d follows entry %d: entries were removed or added", e.Sequence, last.Sequence)
		case e.Previous != last.Hash:
			v.problem(e.Hour, "entry %d does not follow from entry %d: one of them was changed", e.Sequence, last.Sequence)
		case e.Hash != e.Digest():
			v.problem(e.Hour, "entry %d was changed", e.Sequence)
		case e.Cluster != v.report.Cluster:
			v.problem(e.Hour, "entry %d is from the chain of cluster %q", e.Sequence, e.Cluster)
		}
		last = e
		if v.Keys == nil {
			continue
		}
		i, valid := v.Keys.signed(e)
		switch {
		case valid && i < key:
			v.problem(e.Hour, "entry %d is signed by an old key after a newer key", e.Sequence)
		case valid:
			key = i
			v.report.Signed++
		default:
			v.problem(e.Hour, "entry %d has no valid signature from the given keys", e.Sequence)
		}
	}
	if len(all) == 0 {
		v.problem(time.Time{}, "there is no chain: it was removed, or no hour was filed with --chain.key yet")
	}
	v.report.Head = last
}

type hour map[string][][]any

func (v *verification) day(ctx context.Context, day time.Time) error {
	hours := make(map[time.Time]hour)
	for at := day; at.Before(day.AddDate(0, 0, 1)); at = at.Add(time.Hour) {
		if _, known := v.last[at.Unix()]; known {
			hours[at] = make(hour)
		}
	}
	for _, t := range append(slices.Clone(table.Chained), table.Hours) {
		rows, err := v.source.Between(ctx, t, v.report.Cluster, day, day.AddDate(0, 0, 1))
		if err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
		for _, row := range rows {
			at := row[1].(time.Time).UTC()
			if row[0] != v.report.Cluster || !table.Day(at).Equal(day) {
				v.problem(day, "rows of cluster %q and hour %s are stored in place of the hour's own rows in %s", row[0], at.Format("2006-01-02T15"), t.Name)
				break
			}
			if hours[at] == nil {
				hours[at] = make(hour)
			}
			hours[at][t.Name] = append(hours[at][t.Name], row)
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(hours), time.Time.Compare) {
		if (v.From.IsZero() || !at.Before(v.From)) && (v.Until.IsZero() || at.Before(v.Until)) {
			v.report.Hours++
			v.hour(at, hours[at])
		}
	}
	return v.daySums(ctx, day, hours)
}

func (v *verification) hour(at time.Time, rows hour) {
	e, known := v.last[at.Unix()]
	filed := rows[table.Hours.Name]
	switch {
	case !known:
		v.problem(at, "the hour has rows but no entry in the chain: rows were inserted, or entries were removed")
	case e.Kind == table.RenamedEntry:
		if len(rows) > 0 {
			v.problem(at, "the cluster of the hour was renamed, but the hour still has rows")
		}
	case len(filed) == 0:
		v.problem(at, "the hour is in the chain, but not in the table hours")
	case len(filed) > 1:
		v.problem(at, "the hour has %d rows in the table hours", len(filed))
	case table.ManifestDigest(filed[0]) != e.Manifest:
		v.problem(at, "the row of the hour in the table hours was changed")
	case table.StateIn(filed[0]) == table.Pruned:
		v.pruned(at, e, rows)
	case table.StateIn(filed[0]) != e.State:
		v.problem(at, "the state of the hour in the table hours was changed from %s to %s", e.State, table.StateIn(filed[0]))
	case digest(e, rows) != e.Rows:
		v.problem(at, "the rows of the hour were changed")
	}
}

// digest computes the digest of an hour's rows, with the method for the kind of the entry.
func digest(e table.Entry, rows hour) string {
	of := func(t table.Table) [][]any { return rows[t.Name] }
	if e.Kind != table.AdoptedEntry {
		return table.RowsDigest(of)
	}
	if len(of(table.Corrections)) > 0 {
		return "" // an adopted hour has no corrections
	}
	return table.AdoptedDigest(of)
}

// pruned compares a pruned hour with the chain. The entry for the hour, or a later entry for the monthly sums, must
// record the pruning.
func (v *verification) pruned(at time.Time, e table.Entry, rows hour) {
	if sums, ok := v.sums[table.Month(at).Unix()]; !ok || e.State != table.Pruned && sums.Sequence < e.Sequence {
		v.problem(at, "the hour was marked as pruned, but no entry in the chain records this")
	}
	if len(rows) > 1 {
		v.problem(at, "the hour is pruned, but still has rows")
	}
}

func (v *verification) months(ctx context.Context, days map[time.Time]bool) error {
	months := make(map[time.Time]bool)
	for day := range days {
		months[table.Month(day)] = true
	}
	for _, month := range slices.SortedFunc(maps.Keys(months), time.Time.Compare) {
		end := month.AddDate(0, 1, 0)
		if !v.From.IsZero() && !end.After(v.From) || !v.Until.IsZero() && !month.Before(v.Until) {
			continue
		}
		sums, err := v.source.Between(ctx, table.MonthlyCharges, v.report.Cluster, month, end)
		if err != nil {
			return fmt.Errorf("table %s: %w", table.MonthlyCharges.Name, err)
		}
		filed, err := v.source.Between(ctx, table.Hours, v.report.Cluster, month, end)
		if err != nil {
			return fmt.Errorf("table %s: %w", table.Hours.Name, err)
		}
		found := Sums(v.report.Cluster, month, sums, filed)
		want, known := v.sums[month.Unix()]
		if !known {
			want = Sums(v.report.Cluster, month, nil, nil)
		}
		switch {
		case found.Rows != want.Rows:
			v.problem(month, "the sums of the month in monthly_charges were changed")
		case found.Manifest != want.Manifest:
			v.problem(month, "the pruned hours of the month were changed")
		}
	}
	return nil
}

// otherArchive is another possible reason for a difference from the published checkpoints.
const otherArchive = ", or another archive publishes checkpoints under the same names: set --chain.name in each archive"

func (v *verification) published(all []table.Entry) {
	for _, p := range v.Published {
		if p.Cluster != v.report.Cluster {
			continue
		}
		_, valid := v.Keys.signed(p.entry())
		switch {
		case v.Keys != nil && !valid:
			v.problem(time.Time{}, "the published checkpoint %d has no valid signature from the given keys"+otherArchive, p.Sequence)
		case p.Sequence < 1 || p.Sequence > int64(len(all)):
			v.problem(time.Time{}, "checkpoint %d was published, but the chain ends at entry %d: entries were removed"+otherArchive, p.Sequence, len(all))
		case all[p.Sequence-1].Hash != p.Hash:
			v.problem(all[p.Sequence-1].Hour, "entry %d differs from its published checkpoint: the chain was replaced"+otherArchive, p.Sequence)
		default:
			v.report.Published = max(v.report.Published, p.Sequence)
		}
	}
}
