package files

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Prune deletes the files of the days before a time, which must be the start of a month. It first writes the monthly
// sums of the charges in these files, and a list of the hours in these sums. Readers then use only the sums of these
// hours. Afterwards, it marks the hours as pruned in the manifest, and deletes the files. After a crash, the caller can
// repeat Prune. Prune calls the function done with the deleted rows of each table and month. A dry run only calls this
// function.
func (s *Sink) Prune(ctx context.Context, before time.Time, dry bool, done func(table.Deleted)) error {
	found, err := s.daysBefore(ctx, before)
	if err != nil {
		return err
	}
	for _, m := range table.ByMonth(found) {
		days := found[m]
		slices.SortFunc(days, time.Time.Compare)
		p := &pruning{Sink: s, cluster: m.Cluster, month: m.Month, days: slices.Compact(days), unpruned: make(map[string]bool)}
		if err := p.prune(ctx, dry, done); err != nil {
			return fmt.Errorf("cluster %s, month %s: %w", m.Cluster, m.Month.Format("2006-01"), err)
		}
	}
	return nil
}

// A day is in the result once for each table that has a folder for this day.
func (s *Sink) daysBefore(ctx context.Context, before time.Time) (map[table.ClusterMonth][]time.Time, error) {
	found := make(map[table.ClusterMonth][]time.Time)
	for _, t := range append(slices.Clone(table.Deletable), table.Hours) {
		folders, err := clustersIn(ctx, s.storage, t)
		if err != nil {
			return nil, err
		}
		for folder, cluster := range folders {
			days, err := daysIn(ctx, s.storage, t, folder)
			if err != nil {
				return nil, err
			}
			for _, day := range days {
				if m := (table.ClusterMonth{Cluster: cluster, Month: table.Month(day)}); day.Before(before) {
					found[m] = append(found[m], day)
				}
			}
		}
	}
	return found, nil
}

type pruning struct {
	*Sink
	cluster string
	month   time.Time
	days    []time.Time
	// unpruned contains the files of the manifest in which another program changed hours during the pruning.
	unpruned map[string]bool
}

func (p *pruning) prune(ctx context.Context, dry bool, done func(table.Deleted)) error {
	marked := table.Deleted{Table: table.Hours.Name, Cluster: p.cluster}
	for _, as := range formats {
		hours, err := p.format(ctx, as, dry)
		if err != nil {
			return err
		}
		if !dry && (len(hours) == 0 || marked.Rows == 0) {
			if err := p.linkSums(ctx, as, p.cluster, p.month, len(hours) > 0); err != nil {
				return fmt.Errorf("chain: %w", err)
			}
		}
		if marked.Rows == 0 && len(hours) > 0 {
			marked.Rows, marked.First, marked.Last = int64(len(hours)), slices.MinFunc(hours, time.Time.Compare), slices.MaxFunc(hours, time.Time.Compare)
		}
	}
	if marked.Rows > 0 {
		done(marked)
	}
	for _, t := range table.Deletable {
		if err := p.remove(ctx, t, dry, done); err != nil {
			return err
		}
	}
	return nil
}

// format prunes the files of one format, and returns the hours that were not pruned before.
func (p *pruning) format(ctx context.Context, as format, dry bool) (hours []time.Time, err error) {
	filed := make(map[int64][]any) // rows of the manifest by Unix time
	for _, day := range p.days {
		rows, _, err := p.read(ctx, dayFile(as, table.Hours, p.cluster, day), "")
		if err != nil {
			return nil, fmt.Errorf("hours of %s: %w", day.Format(time.DateOnly), err)
		}
		for _, row := range rows {
			if table.StateIn(row) != table.Pruned {
				hours = append(hours, row[hourColumn].(time.Time))
				filed[row[hourColumn].(time.Time).Unix()] = row
			}
		}
	}
	if len(hours) == 0 || dry {
		return hours, nil
	}
	if err := p.addMonthly(ctx, as, filed); err != nil {
		return nil, fmt.Errorf("sums: %w", err)
	}
	for _, day := range p.days {
		if err := p.mark(ctx, as, day, filed); err != nil {
			return nil, fmt.Errorf("hours of %s: %w", day.Format(time.DateOnly), err)
		}
	}
	return hours, nil
}

func (p *pruning) addMonthly(ctx context.Context, as format, filed map[int64][]any) error {
	_, err := p.rewrite(ctx, dayFile(as, table.MonthlyCharges, p.cluster, p.month), func(rows [][]any) ([][]any, error) {
		known, err := hoursOf(rows, p.month)
		if err != nil {
			return nil, err
		}
		added, err := p.sums(ctx, as, filed, known)
		switch {
		case err != nil:
			return nil, err
		case len(added) == 0:
			return nil, errUnchanged
		}
		return append(rows, added...), nil
	})
	return err
}

// hoursColumn is the index of the column "hours" in [table.MonthlyCharges].
const hoursColumn = 2

// hoursOf returns the hours in the monthly sums, in Unix seconds.
func hoursOf(rows [][]any, month time.Time) (map[int64]bool, error) {
	known, texts := make(map[int64]bool), make(map[any]bool)
	for _, row := range rows {
		if texts[row[hoursColumn]] {
			continue
		}
		texts[row[hoursColumn]] = true
		hours, err := table.ParseHours(month, row[hoursColumn].(string))
		if err != nil {
			return nil, err
		}
		for _, hour := range hours {
			known[hour.Unix()] = true
		}
	}
	return known, nil
}

func (p *pruning) sums(ctx context.Context, as format, filed map[int64][]any, except map[int64]bool) ([][]any, error) {
	all := &filedSums{Sums: table.NewSums(p.cluster, p.month), filed: maps.Clone(filed), charged: make(map[int64]int64)}
	maps.DeleteFunc(all.filed, func(at int64, _ []any) bool { return except[at] })
	for _, day := range p.days {
		gpus, err := p.rows(ctx, dayFile(as, table.GPUHours, p.cluster, day))
		if err != nil {
			return nil, err
		}
		models := table.NewModels(gpus)
		for _, t := range []table.Table{table.Charges, table.Corrections} {
			rows, err := p.rows(ctx, dayFile(as, t, p.cluster, day))
			if err != nil {
				return nil, err
			}
			all.add(t, rows, models)
		}
	}
	return all.Rows(all.hours()), nil
}

type filedSums struct {
	*table.Sums
	filed   map[int64][]any // rows of the manifest by Unix time
	charged map[int64]int64 // number of charges by Unix time of the hour
}

// A crash can leave corrections with a later revision than the manifest. add omits them. It also omits corrections if
// an administrator has removed the charges of the hour.
func (s *filedSums) add(t table.Table, rows [][]any, models *table.Models) {
	for _, row := range rows {
		at := row[hourColumn].(time.Time).Unix()
		of := s.filed[at]
		switch {
		case of == nil:
			continue
		case t.Name == table.Charges.Name:
			s.charged[at]++
		case table.Unsummed(of, s.charged[at]) || row[revisionColumn].(int64) > table.FiledIn(of).Revision:
			continue
		}
		s.Add(t, row, models)
	}
}

func (s *filedSums) hours() (hours []time.Time) {
	for at, row := range s.filed {
		if !table.Unsummed(row, s.charged[at]) {
			hours = append(hours, row[hourColumn].(time.Time))
		}
	}
	return hours
}

func (p *pruning) mark(ctx context.Context, as format, day time.Time, filed map[int64][]any) error {
	f := dayFile(as, table.Hours, p.cluster, day)
	_, err := p.rewrite(ctx, f, func(rows [][]any) ([][]any, error) {
		changed := false
		p.unpruned[f.name] = false
		for _, row := range rows {
			switch known := filed[row[hourColumn].(time.Time).Unix()]; {
			case table.StateIn(row) == table.Pruned:
			case known != nil && table.FiledIn(known) == table.FiledIn(row):
				table.SetPruned(row)
				changed = true
			default:
				p.unpruned[f.name] = true // another program filed the hour in the meantime
			}
		}
		if !changed {
			return nil, errUnchanged
		}
		return rows, nil
	})
	return err
}

// If another program has changed hours of a day, remove stops at this day.
func (p *pruning) remove(ctx context.Context, t table.Table, dry bool, done func(table.Deleted)) error {
	of := table.Deleted{Table: t.Name, Cluster: p.cluster}
	for _, day := range p.days {
		found, err := find(ctx, p.storage, dayFolder(t, p.cluster, day), false)
		if err != nil {
			return err
		}
		for _, f := range found {
			if as, ok := formatOf(f.name); ok && p.unpruned[dayFile(as, table.Hours, p.cluster, day).name] {
				return fmt.Errorf("%s: another program filed an hour of this day, run the command again", f.name)
			}
			if !dry {
				if err := p.storage.remove(ctx, f.name); err != nil {
					return err
				}
			}
			of.Add(table.Deleted{Files: 1, Bytes: f.size, First: day, Last: day.Add(23 * time.Hour)})
		}
	}
	if of.Files > 0 {
		done(of)
	}
	return nil
}
