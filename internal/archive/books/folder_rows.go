package books

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Rows implements [Source]. A file is sorted by hour, so only the rows of one hour are in memory.
func (f *folder) Rows(ctx context.Context, of Query) iter.Seq2[Row, error] {
	return sequence(func(each func(Row) error) error {
		var sameDay []filedDay // one day of all clusters
		flush := func() error {
			err := f.rowsOfDay(ctx, of, sameDay, each)
			sameDay = nil
			return err
		}
		err := f.days(ctx, of, func(day filedDay) error {
			if len(sameDay) > 0 && !day.Date.Equal(sameDay[0].Date) {
				if err := flush(); err != nil {
					return err
				}
			}
			sameDay = append(sameDay, day)
			return nil
		})
		if err != nil {
			return err
		}
		return flush()
	})
}

// compareRows sorts by hour, and then by the first scrape in the hour.
func compareRows(a, b Row) int {
	return cmp.Or(a.Hour.Compare(b.Hour), a.First.Compare(b.First))
}

func (f *folder) rowsOfDay(ctx context.Context, of Query, days []filedDay, each func(Row) error) error {
	m := make(merge, len(days))
	for i, day := range days {
		next, stop := iter.Pull2(f.rowsByHour(ctx, of, day))
		defer stop()
		m[i].next = next
	}
	for hour, err := m.advance(time.Time{}); err != nil || !hour.IsZero(); hour, err = m.advance(hour) {
		if err != nil {
			return err
		}
		if err := callEach(m.rows(hour), each); err != nil {
			return err
		}
	}
	return nil
}

type merge []struct {
	next func() ([]Row, error, bool)
	rows []Row // rows of the cluster's next hour; empty at the end
}

// advance reads the next hour of each cluster whose current hour is the given hour. The first call has the hour zero
// and reads the first hour of each cluster. advance returns the earliest current hour, or zero at the end.
func (m merge) advance(hour time.Time) (first time.Time, err error) {
	for i := range m {
		c := &m[i]
		if hour.IsZero() || len(c.rows) > 0 && c.rows[0].Hour.Equal(hour) {
			if c.rows, err, _ = c.next(); err != nil {
				return first, err
			}
		}
		if len(c.rows) > 0 && (first.IsZero() || c.rows[0].Hour.Before(first)) {
			first = c.rows[0].Hour
		}
	}
	return first, nil
}

func (m merge) rows(hour time.Time) (all []Row) {
	for _, c := range m {
		if len(c.rows) > 0 && c.rows[0].Hour.Equal(hour) {
			all = append(all, c.rows...)
		}
	}
	slices.SortStableFunc(all, compareRows)
	return all
}

// rowsByHour returns the rows of one hour after another. The slice is valid until the next hour is read.
func (f *folder) rowsByHour(ctx context.Context, of Query, day filedDay) iter.Seq2[[]Row, error] {
	fields := of.gpuFields()
	columns := namesOf(fields)
	at, matches := slices.Index(columns, hourColumn), of.filter(columns)
	return func(yield func([]Row, error) bool) {
		var rows []Row
		var failed error
		stopped := false
		err := f.reader.Read(ctx, day.Of(table.GPUHours), columns, func(row []table.Cell) {
			if stopped || failed != nil || day.hours[row[at].Int] == nil || !matches(row) {
				return
			}
			hour := row[at].Time()
			if len(rows) > 0 && !rows[0].Hour.Equal(hour) {
				if hour.Before(rows[0].Hour) {
					failed = fmt.Errorf("%s: the rows of table %s, cluster %s, day %s must be sorted by hour", f.path, table.GPUHours.Name, day.Cluster, day.Date.Format(time.DateOnly))
					return
				}
				stopped = !yield(rows, nil)
				rows = rows[:0]
			}
			rows = append(rows, Row{GPU: scan(fields, row)})
		})
		switch err = cmp.Or(failed, err); {
		case stopped:
		case err != nil:
			yield(nil, err)
		case len(rows) > 0:
			yield(rows, nil)
		}
	}
}
