package files

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// renaming gives a cluster another name.
type renaming struct {
	*Sink
	from, to string
	started  bool // written by an interrupted run
}

// RenameCluster gives the rows of a cluster another name, and returns the number of its hours. It
// writes the files of a day under the new name, the manifest last, and then deletes the old files.
// Until it ends, hours may exist under both names. A marker file records this, so the call can be
// repeated after a crash.
func (s *Sink) RenameCluster(ctx context.Context, from, to string) (n int, err error) {
	r := &renaming{Sink: s, from: from, to: to}
	days, err := r.days(ctx)
	if err != nil {
		return 0, err
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
	return n, s.storage.remove(ctx, mark)
}

// start writes the marker file, unless an interrupted run already did. It first checks that no hour
// exists under both names.
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

// days returns the days of the cluster in any table. Sums are on the first day of their month.
func (r *renaming) days(ctx context.Context) (days []time.Time, err error) {
	for _, t := range table.All {
		found, err := r.Sink.days(ctx, t, clusterFolder(r.from))
		if err != nil {
			return nil, err
		}
		days = append(days, found...)
	}
	slices.SortFunc(days, time.Time.Compare)
	return slices.CompactFunc(days, time.Time.Equal), nil
}

// check returns an error if both clusters contain the same hour of a day.
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

// day renames a day, and returns the number of its hours.
func (r *renaming) day(ctx context.Context, day time.Time) (hours int, err error) {
	for _, as := range formats {
		n, err := r.format(ctx, as, day)
		if err != nil {
			return 0, err
		}
		hours = max(hours, n)
	}
	for _, t := range table.Appended {
		if err := r.events(ctx, t, day); err != nil {
			return 0, err
		}
	}
	for _, t := range append([]table.Table{table.Hours}, table.All...) { // the manifest first, because readers ignore hours that it lacks
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

// format writes the hours of a day and the sums of a month under the new name. It ignores rows of
// hours that are not in the manifest, which a crash left.
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
		renamed = append(renamed, table.RenamedHour(row, r.to, func(t table.Table) [][]any { return of(data[t.Name], row[hourColumn].(time.Time)) }))
	}
	if err := r.put(ctx, dayFile(as, table.Hours, r.to, day), filed, renamed); err != nil {
		return 0, err
	}
	sums, err := r.rows(ctx, dayFile(as, table.MonthlyCharges, r.from, day))
	if err != nil || len(sums) == 0 {
		return len(filed), err
	}
	sums = table.Renamed(sums, r.to)
	_, err = r.rewrite(ctx, dayFile(as, table.MonthlyCharges, r.to, day), func(rows [][]any) ([][]any, error) {
		if slices.ContainsFunc(rows, func(row []any) bool { return same([][]any{row}, sums[:1]) }) {
			return nil, errUnchanged // an interrupted run wrote them
		}
		return append(rows, sums...), nil
	})
	return len(filed), err
}

// put replaces the rows of filed hours in a file of the new name.
func (r *renaming) put(ctx context.Context, f file, filed, rows [][]any) error {
	_, err := r.rewrite(ctx, f, func(all [][]any) ([][]any, error) {
		if len(rows) == 0 {
			return nil, errUnchanged
		}
		if f.table.Name == table.Hours.Name && !r.started {
			for _, row := range rows { // the hour was filed since the check
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

// events adds the events of a day under the new name, in the format of each file. It skips events that are already
// there.
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
