package files

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

type renaming struct {
	*Sink
	from, to string
	started  bool // set if an interrupted run may have written hours
	// last contains the last entry for each hour in the chain of the old name. sums contains the last entry for each
	// month.
	last, sums map[int64]table.Entry
	// before contains the monthly sums under the old name.
	before map[int64][][]any
	moves  map[int64]chain.Move
}

// RenameCluster changes the name of a cluster in all its rows, and returns the number of renamed hours. For each day,
// it first writes the files under the new name, with the manifest last. Then it deletes the old files. Until
// RenameCluster has finished, hours may exist under both names. A marker file records the renaming, so that a call
// after a crash can complete it.
func (s *Sink) RenameCluster(ctx context.Context, from, to string) (n int, err error) {
	r := &renaming{Sink: s, from: from, to: to}
	days, err := r.days(ctx)
	if err != nil {
		return 0, err
	}
	if err := r.readChain(ctx); err != nil {
		return 0, fmt.Errorf("chain: %w", err)
	}
	mark := path.Join("renaming", clusterFolder(from), clusterFolder(to))
	if err := r.start(ctx, mark, days); err != nil {
		return 0, err
	}
	for _, day := range days {
		hours, err := r.day(ctx, day)
		if err != nil {
			return n, fmt.Errorf("day %s: %w", day.Format(time.DateOnly), err)
		}
		n += hours
	}
	if err := r.linkMonths(ctx); err != nil {
		return n, fmt.Errorf("chain: %w", err)
	}
	return n, s.storage.remove(ctx, mark)
}

// start writes the marker file, unless an interrupted run has already written it. It first checks that no hour exists
// under both names.
func (r *renaming) start(ctx context.Context, mark string, days []time.Time) error {
	in, tag, err := r.storage.open(ctx, mark, "")
	if err != nil {
		return err
	}
	if tag != "" {
		r.started = true
		return in.Close()
	}
	for _, day := range days {
		if err := r.check(ctx, day); err != nil {
			return err
		}
	}
	if len(days) > 0 {
		_, err = r.storage.write(ctx, mark, []byte(r.to+"\n"), "")
	}
	return err
}

// days returns the days with rows in any table. Monthly sums have the first day of their month.
func (r *renaming) days(ctx context.Context) (days []time.Time, err error) {
	for _, t := range table.All {
		found, err := daysIn(ctx, r.storage, t, clusterFolder(r.from))
		if err != nil {
			return nil, err
		}
		days = append(days, found...)
	}
	slices.SortFunc(days, time.Time.Compare)
	return slices.CompactFunc(days, time.Time.Equal), nil
}

func (r *renaming) check(ctx context.Context, day time.Time) error {
	for _, as := range formats {
		rows, err := r.rows(ctx, dayFile(as, table.Hours, r.from, day))
		if err != nil {
			return err
		}
		others, err := r.rows(ctx, dayFile(as, table.Hours, r.to, day))
		if err != nil {
			return err
		}
		for _, row := range rows {
			if hour := row[hourColumn].(time.Time); len(of(others, hour)) > 0 {
				return &table.OverlapError{Cluster: r.to, Hour: hour}
			}
		}
	}
	return nil
}

func (r *renaming) day(ctx context.Context, day time.Time) (hours int, err error) {
	r.moves = make(map[int64]chain.Move)
	for _, as := range formats {
		n, err := r.format(ctx, as, day)
		if err != nil {
			return 0, err
		}
		hours = max(hours, n)
	}
	if err := r.linkDay(ctx); err != nil {
		return 0, fmt.Errorf("chain: %w", err)
	}
	for _, t := range table.Appended {
		if err := r.events(ctx, t, day); err != nil {
			return 0, err
		}
	}
	for _, t := range append([]table.Table{table.Hours}, table.All...) { // readers ignore hours that are not in the manifest, so the manifest comes first
		found, err := find(ctx, r.storage, dayFolder(t, r.from, day), false)
		if err != nil {
			return 0, err
		}
		for _, f := range found {
			if err := r.storage.remove(ctx, f.name); err != nil {
				return 0, err
			}
		}
	}
	return hours, nil
}

// format writes the hours of a day and the sums of a month under the new name. A crash can leave rows of hours that are
// missing from the manifest. format ignores these rows.
func (r *renaming) format(ctx context.Context, as format, day time.Time) (hours int, err error) {
	filed, err := r.rows(ctx, dayFile(as, table.Hours, r.from, day))
	if err != nil {
		return 0, err
	}
	data := make(map[string][][]any)
	for _, t := range append(slices.Clone(table.Data), table.Corrections) {
		rows, err := r.rows(ctx, dayFile(as, t, r.from, day))
		if err != nil {
			return 0, err
		}
		data[t.Name] = slices.DeleteFunc(rows, func(row []any) bool { return len(of(filed, row[hourColumn].(time.Time))) == 0 })
		if err := r.put(ctx, dayFile(as, t, r.to, day), filed, table.Renamed(data[t.Name], r.to)); err != nil {
			return 0, err
		}
	}
	var renamed [][]any
	for _, row := range filed {
		hour := row[hourColumn].(time.Time)
		rows := func(t table.Table) [][]any { return of(data[t.Name], hour) }
		next := table.RenamedHour(row, r.to, rows)
		renamed = append(renamed, next)
		if _, known := r.moves[hour.Unix()]; !known {
			r.moves[hour.Unix()] = chain.Move{Last: r.last[hour.Unix()], Filed: row, Renamed: next, Rows: rows}
		}
	}
	if err := r.put(ctx, dayFile(as, table.Hours, r.to, day), filed, renamed); err != nil {
		return 0, err
	}
	sums, err := r.rows(ctx, dayFile(as, table.MonthlyCharges, r.from, day))
	if err != nil || len(sums) == 0 {
		return len(filed), err
	}
	r.before[day.Unix()] = sums
	sums = table.Renamed(sums, r.to)
	_, err = r.rewrite(ctx, dayFile(as, table.MonthlyCharges, r.to, day), func(rows [][]any) ([][]any, error) {
		if slices.ContainsFunc(rows, func(row []any) bool { return same([][]any{row}, sums[:1]) }) {
			return nil, errUnchanged // an interrupted run wrote these rows
		}
		return append(rows, sums...), nil
	})
	return len(filed), err
}

func (r *renaming) put(ctx context.Context, f file, filed, rows [][]any) error {
	_, err := r.rewrite(ctx, f, func(all [][]any) ([][]any, error) {
		if len(rows) == 0 {
			return nil, errUnchanged
		}
		if f.table.Name == table.Hours.Name && !r.started {
			for _, row := range rows { // another program filed the hour after the check
				if hour := row[hourColumn].(time.Time); len(of(all, hour)) > 0 {
					return nil, &table.OverlapError{Cluster: r.to, Hour: hour}
				}
			}
		}
		all = slices.DeleteFunc(all, func(row []any) bool { return len(of(filed, row[hourColumn].(time.Time))) > 0 })
		all = append(all, rows...)
		byHour(all)
		return all, nil
	})
	return err
}

// events adds the events of a day under the new name, in the formats of the existing files. It skips events that
// already have the new name.
func (r *renaming) events(ctx context.Context, t table.Table, day time.Time) error {
	found, err := find(ctx, r.storage, dayFolder(t, r.from, day), false)
	if err != nil {
		return err
	}
	for _, f := range found {
		as, ok := formatOf(f.name)
		if !ok {
			continue
		}
		rows, err := r.rows(ctx, file{as, t, f.name})
		if err != nil {
			return err
		}
		to := *r.Sink
		to.formats = []format{as}
		if err := to.Append(ctx, t, table.Renamed(rows, r.to)); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// readChain reads the chain of the old name. If the chain is empty, it first adds entries for the hours in the
// manifest.
func (r *renaming) readChain(ctx context.Context) error {
	if _, err := r.link(ctx, r.from); err != nil {
		return err
	}
	entries, err := r.reader(r.formats[0]).Entries(ctx, r.from)
	r.last, r.sums = chain.Last(entries)
	r.before = make(map[int64][][]any)
	return err
}

// linkDay records the renamed hours of the current day in the chains of both names. It must run before the old files
// are deleted. It skips hours that an interrupted run has already recorded.
func (r *renaming) linkDay(ctx context.Context) error {
	var old, renamed []table.Entry
	for _, at := range slices.Sorted(maps.Keys(r.moves)) {
		m := r.moves[at]
		if m.Last.Kind == table.RenamedEntry {
			continue
		}
		x, y := m.Entries()
		old, renamed = append(old, x), append(renamed, y)
	}
	return r.linkBoth(ctx, old, renamed)
}

func (r *renaming) linkMonths(ctx context.Context) error {
	var old, renamed []table.Entry
	none := chain.Sums(r.from, time.Time{}, nil, nil)
	for _, at := range slices.Sorted(maps.Keys(r.sums)) {
		last := r.sums[at]
		if last.Rows == none.Rows && last.Manifest == none.Manifest {
			continue // an earlier run appended the entries of this month
		}
		after, err := r.readSums(ctx, last.Hour)
		if err != nil {
			return err
		}
		x, y := chain.MovedSums(last, r.before[at], after)
		old, renamed = append(old, x), append(renamed, y)
	}
	return r.linkBoth(ctx, old, renamed)
}

// readSums computes the chain entry for the monthly sums under the new name. It reads them in the first format with
// pruned hours.
func (r *renaming) readSums(ctx context.Context, month time.Time) (e table.Entry, err error) {
	for _, as := range append(slices.Clone(r.formats), formats...) {
		e, err = chain.ReadSums(r.to, month, chained{ctx, r.reader(as), r.to})
		if err != nil || e.Manifest != table.PrunedDigest(nil) {
			return e, err
		}
	}
	return e, nil
}

func (r *renaming) linkBoth(ctx context.Context, old, renamed []table.Entry) error {
	if len(old) == 0 {
		return nil
	}
	if _, err := r.link(ctx, r.to, renamed...); err != nil {
		return err
	}
	_, err := r.link(ctx, r.from, old...)
	return err
}
