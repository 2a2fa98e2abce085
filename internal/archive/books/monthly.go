package books

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	sqldb "github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// months returns the range of the whole months in the period of a query. end is the first month after this range.
func (s Query) months() (first, end time.Time) {
	first, end = table.Month(s.From), table.Month(s.Until)
	if first.Before(s.From) {
		first = first.AddDate(0, 1, 0)
	}
	return first, end
}

// Whole reports whether the query includes the whole month that contains the hour.
func (s Query) Whole(hour time.Time) bool {
	first, end := s.months()
	month := table.Month(hour)
	return !month.Before(first) && month.Before(end)
}

// sumTexts returns the text columns of the query. If the monthly sums lack one of them, it returns false.
func (s Query) sumTexts() (names []string, ok bool) {
	names = []string{"cluster"}
	for _, name := range s.By {
		if c, err := table.MonthlyCharges.Column(name); err == nil && c.Type == table.Text {
			names = append(names, name)
		}
	}
	for name := range s.Where {
		if _, err := table.MonthlyCharges.Column(name); err != nil {
			return nil, false
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), true
}

// mark marks an hour as pruned if a monthly sum includes the hour. If no sum includes a pruned hour with energy, its
// rows were removed by hand, and mark marks it as lost.
func (h *Hour) mark(summed map[int64]bool) {
	if summed[h.Hour.Unix()] {
		h.State = table.Pruned
	} else if h.State == table.Pruned {
		h.Lost = h.Energy != 0
	}
}

// addHours adds the hours of a month, as Unix seconds. The text is a value of the column hours in
// [table.MonthlyCharges].
func addHours(to map[int64]bool, month time.Time, text string) error {
	hours, err := table.ParseHours(month, text)
	for _, hour := range hours {
		to[hour.Unix()] = true
	}
	return err
}

func (d *database) sums(ctx context.Context, of Query, all *sums) error {
	names, ok := of.sumTexts()
	first, end := of.months()
	if !of.Sums || !ok || !first.Before(end) {
		return nil
	}
	s := sqldb.SQL("select month, " + strings.Join(names, ", "))
	for _, a := range table.Amounts {
		s.Add(", " + d.sum(table.MonthlyCharges, a.Column))
	}
	s.Add(" from {monthly_charges} where month >= ? and month < ?", first, end).Join(of.names()).Add(" group by month, " + strings.Join(names, ", "))
	columns := columnsOf(table.MonthlyCharges, slices.Concat([]string{"month"}, names, namesOf(table.Amounts)))
	return d.rows(ctx, s, columns, func(row []table.Cell) error {
		all.addRow(row[0].Time(), names, row[1:])
		return nil
	})
}

// summed returns the hours that monthly sums include, as Unix seconds by cluster.
func (d *database) summed(ctx context.Context, of Query) (map[string]map[int64]bool, error) {
	if !d.known[table.MonthlyCharges.Name+".hours"] {
		return nil, nil // an earlier version created the database
	}
	names := []string{"cluster", "month", "hours"}
	s := sqldb.SQL("select distinct cluster, month, hours from {monthly_charges} where month >= ? and month < ?", table.Month(of.From), of.Until)
	found := make(map[string]map[int64]bool)
	err := d.rows(ctx, s, columnsOf(table.MonthlyCharges, names), func(row []table.Cell) error {
		if found[row[0].Text] == nil {
			found[row[0].Text] = make(map[int64]bool)
		}
		return addHours(found[row[0].Text], row[1].Time(), row[2].Text)
	})
	return found, err
}

func (s *sums) addRow(month time.Time, names []string, row []table.Cell) {
	c := scan(append(fieldsOf(table.ChargeField, names), table.Amounts...), row)
	c.Hour = month
	s.add(&c)
}

func (f *folder) sums(ctx context.Context, of Query, all *sums) error {
	names, ok := of.sumTexts()
	if !of.Sums || !ok {
		return nil
	}
	days, err := f.reader.Days(ctx)
	if err != nil {
		return err
	}
	done := make(map[table.ClusterMonth]bool)
	for _, day := range days {
		m := table.ClusterMonth{Cluster: day.Cluster, Month: table.Month(day.Date)}
		if done[m] || !of.Whole(m.Month) || !of.matches("cluster", day.Cluster) {
			continue
		}
		done[m] = true
		columns := slices.Concat(names, namesOf(table.Amounts))
		matches := of.filter(columns)
		err := f.reader.Read(ctx, files.Day{Cluster: m.Cluster, Date: m.Month}.Of(table.MonthlyCharges), columns, func(row []table.Cell) {
			if matches(row) {
				all.addRow(m.Month, names, row)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// summed returns the hours that the sums of a month include, as Unix seconds.
func (f *folder) summed(ctx context.Context, m table.ClusterMonth) (map[int64]bool, error) {
	found := make(map[int64]bool)
	last, failed := "", error(nil)
	err := f.reader.Read(ctx, files.Day{Cluster: m.Cluster, Date: m.Month}.Of(table.MonthlyCharges), []string{"hours"}, func(row []table.Cell) {
		if row[0].Text != last && failed == nil {
			last = row[0].Text
			failed = addHours(found, m.Month, last)
		}
	})
	return found, errors.Join(err, failed)
}
