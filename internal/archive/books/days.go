package books

import (
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

// spans divides the time of a query into its whole days and the hours before and after them. A database of an earlier version has no
// days.
func (d *database) spans(of Query) []span {
	hours := span{false, of.From, of.Until}
	first, end := table.Day(of.From.Add(24*time.Hour-1)), table.Day(of.Until)
	if !d.summedDays() || !first.Before(end) || !of.daily() {
		return []span{hours}
	}
	all := []span{{false, of.From, first}, {true, first, end}, {false, end, of.Until}}
	return slices.DeleteFunc(all, func(s span) bool { return !s.from.Before(s.until) })
}

// summedDays reports whether the database has sums of days.
func (d *database) summedDays() bool { return d.known[table.Days.Name+".day"] }

// whole returns all days of a query, or all hours if the database has no days.
func (d *database) whole(of Query) span {
	if !d.summedDays() {
		return span{false, of.From, of.Until}
	}
	return span{true, table.Day(of.From), table.Day(of.Until.Add(24*time.Hour - 1))}
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
