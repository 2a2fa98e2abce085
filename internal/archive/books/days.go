package books

import (
	"context"
	"slices"
	"time"

	sqldb "github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// span is a part of the time of a query: whole days, of which a database has sums, or hours.
type span struct {
	daily       bool
	from, until time.Time
}

// spans divides the time of a query into its whole days and the hours before and after them, if a table has sums of days.
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

// filled reports whether a table has sums of days. A database of an earlier version does not have the table. In MySQL it is empty while a program
// adds up the hours of an earlier version, and after that failed.
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

// whole returns all days of a query, or all hours if the places of GPUs have no sums of days.
func (d *database) whole(ctx context.Context, of Query) (span, error) {
	if filled, err := d.filled(ctx, table.GPUDays); err != nil || !filled {
		return span{false, of.From, of.Until}, err
	}
	return span{true, table.Day(of.From), table.Day(of.Until.Add(24*time.Hour - 1))}, nil
}

// daily reports whether the charges of a whole day are added up in the same sums: the query does not need their hours, or needs
// parts that begin with days.
func (s Query) daily() bool {
	if !slices.Contains(s.By, hourColumn) {
		return true
	}
	return len(s.Parts) > 0 && !slices.ContainsFunc(s.Parts[1:], func(start time.Time) bool { return !start.Equal(table.Day(start)) })
}

// table returns one of two tables: the table of hours or the table of days.
func (s span) table(hours, days string) string {
	if s.daily {
		return days
	}
	return hours
}

// where returns the condition of a time.
func (s span) where() *sqldb.Statement {
	if s.daily {
		return sqldb.SQL(" where day >= ? and day < ?", s.from.Format(time.DateOnly), s.until.Format(time.DateOnly))
	}
	return sqldb.SQL(" where hour >= ? and hour < ?", s.from, s.until)
}
