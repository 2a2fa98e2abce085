package books

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	sqldb "github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// span is a part of the period. The database has sums for the days of a daily span. Any other span is read by hour.
type span struct {
	daily       bool
	from, until time.Time
}

// spans divides the period into the whole days, the hours before them and the hours after them. If the table contains
// no daily sums, spans does not divide the period.
func (d *database) spans(ctx context.Context, of Query, days table.Table) ([]span, error) {
	hours := span{false, of.From, of.Until}
	first, end := table.Day(of.From.Add(24*time.Hour-1)), table.Day(of.Until)
	if !first.Before(end) || !of.daily() {
		return []span{hours}, nil
	}
	if filled, err := d.filled(ctx, days); err != nil || !filled {
		return []span{hours}, err
	}
	all := []span{{false, of.From, first}, {true, first, end}, {false, end, of.Until}}
	return slices.DeleteFunc(all, func(s span) bool { return !s.from.Before(s.until) }), nil
}

// filled reports whether a table contains daily sums. A database from an earlier version may lack the table. In MySQL,
// the table is empty until the program has added up the hours of the earlier version.
func (d *database) filled(ctx context.Context, days table.Table) (found bool, err error) {
	if !d.known[days.Name+".day"] {
		return false, nil
	}
	err = d.rows(ctx, sqldb.SQL("select 1 from {"+days.Name+"} limit 1"), []table.Column{{Type: table.Int}}, func([]table.Cell) error {
		found = true
		return nil
	})
	return found, err
}

// whole extends the period of a query to whole days, because daily sums cannot answer for a part of a day. If there are
// no daily sums of places, it does not change the period.
func (d *database) whole(ctx context.Context, of Query) (span, error) {
	if filled, err := d.filled(ctx, table.GPUDays); err != nil || !filled {
		return span{false, of.From, of.Until}, err
	}
	return span{true, table.Day(of.From), table.Day(of.Until.Add(24*time.Hour - 1))}, nil
}

// daily reports whether all charges of a day belong to the same sums. This is false if the query groups by hour, or if
// one of its parts does not begin at midnight UTC.
func (s Query) daily() bool {
	if !slices.Contains(s.By, hourColumn) {
		return true
	}
	return len(s.Parts) > 0 && !slices.ContainsFunc(s.Parts[1:], func(start time.Time) bool { return !start.Equal(table.Day(start)) })
}

func (s span) table(hours, days string) string {
	if s.daily {
		return days
	}
	return hours
}

func (s span) where() *sqldb.Statement {
	if s.daily {
		return sqldb.SQL(" where day >= ? and day < ?", s.from.Format(time.DateOnly), s.until.Format(time.DateOnly))
	}
	return sqldb.SQL(" where hour >= ? and hour < ?", s.from, s.until)
}

// places reads whole days from daily sums. A row then covers the consecutive hours of a GPU in one place. If a GPU was
// in several clusters during these days, its hours are read, because daily sums do not contain their order.
func (d *database) places(ctx context.Context, of Query, each func(Row) error) error {
	of.By = nil
	parts, err := d.spans(ctx, of, table.GPUDays)
	if err != nil {
		return err
	}
	for _, part := range parts {
		in := of
		in.From, in.Until = part.from, part.until
		if part.daily {
			several, err := d.inSeveral(ctx, of, part)
			if err != nil {
				return err
			}
			if err := d.placesOfDays(ctx, of.condition(part), several, each); err != nil {
				return err
			}
			if len(several) == 0 {
				continue
			}
			in.Where = maps.Clone(of.Where)
			if in.Where == nil {
				in.Where = make(map[string][]string)
			}
			in.Where["uuid"] = several
		}
		if err := d.gpus(ctx, in, each); err != nil {
			return err
		}
	}
	return nil
}

func (d *database) inSeveral(ctx context.Context, of Query, part span) (uuids []string, err error) {
	s := sqldb.SQL("select uuid from {gpu_days}").Join(of.condition(part)).Add(" group by uuid having count(distinct cluster) > 1")
	err = d.rows(ctx, s, columnsOf(table.GPUDays, []string{"uuid"}), func(row []table.Cell) error {
		uuids = append(uuids, row[0].Text)
		return nil
	})
	return uuids, err
}

func (d *database) placesOfDays(ctx context.Context, where *sqldb.Statement, except []string, each func(Row) error) error {
	names := namesOf(table.PlaceFields)
	names[slices.Index(names, hourColumn)] = "first_hour"
	names = append(names, "last_hour")
	s := sqldb.SQL("select " + strings.Join(names, ", ") + " from {gpu_days}").Join(where)
	if len(except) > 0 {
		s.Add(" and uuid not in (?)", except)
	}
	s.Add(" order by first_hour, first_seen")
	return d.rows(ctx, s, columnsOf(table.GPUDays, names), func(row []table.Cell) error {
		last := len(row) - 1
		return each(Row{GPU: scan(table.PlaceFields, row), LastHour: row[last].Time()})
	})
}
