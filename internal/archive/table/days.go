package table

import (
	"slices"
	"time"
)

const dayHelp = "day in UTC"

const dayColumn = "day"

// Days and GPUDays contain daily sums, so that queries about long periods read few rows. A daily sum always equals the
// sum of its hours. Only databases have these tables.
var (
	Days = Table{
		Name: "days",
		Help: "the sum of the charges and corrections on one GPU and one day, for one pod or unit, or for one reason of unattributed energy. If an attribute such as the team changes, the charges are in separate rows. The hours of a day that has not ended are also in separate rows",
		Columns: slices.Concat(
			[]Column{{Name: "cluster", Type: Text, Help: clusterHelp}, {Name: dayColumn, Type: Date, Help: dayHelp}},
			ofType(Charges, Text),
			[]Column{
				{Name: "hours", Type: Int, Help: "number of charges in the sum, without corrections; equals the number of hours"},
				{Name: "first_hour", Type: Time, Help: "first hour in the sum"},
				{Name: "last_hour", Type: Time, Help: "last hour in the sum"},
			},
			ofType(Charges, Int),
			[]Column{
				{Name: "began", Type: Time, Help: "start of the use as in charges, or start of the first hour"},
				{Name: "ended", Type: Time, Help: "end of the use as in charges, or end of the last hour"},
			},
			ofType(Charges, OptionalInt),
		),
		Key: []string{"cluster", dayColumn},
	}
	GPUDays = Table{
		Name: "gpu_days",
		Help: "consecutive hours of a day in which a GPU was in one place. When the day has ended, a GPU that was in one place all day has one row",
		Columns: slices.Concat(
			[]Column{{Name: "cluster", Type: Text, Help: clusterHelp}, {Name: dayColumn, Type: Date, Help: dayHelp}},
			columnsOf(slices.DeleteFunc(slices.Clone(place), func(f Field[GPU]) bool { return f.Type != Text }), 0),
			[]Column{
				{Name: "hours", Type: Int, Help: "number of hours"},
				{Name: "first_hour", Type: Time, Help: "first hour"},
				{Name: "last_hour", Type: Time, Help: "last hour"},
				{Name: "first_seen", Type: Time, Help: "first scrape with the GPU present"},
				{Name: "last_seen", Type: Time, Help: "last scrape with the GPU present"},
				{Name: "scrapes", Type: Int, Help: "scrapes with the GPU present. Hours without such a scrape are in separate rows"},
				{Name: "energy_mj", Type: Int, Help: "energy of the board in millijoules"},
			},
		),
		Key: []string{"cluster", dayColumn},
	}
)

// Summaries contains the tables of daily sums.
var Summaries = []Table{Days, GPUDays}

// Of returns the names of the columns with the given type.
func (t Table) Of(kind Type) []string {
	t.Columns = slices.DeleteFunc(slices.Clone(t.Columns), func(c Column) bool { return c.Type != kind })
	return t.Names()
}

// ofType omits the first column, the cluster.
func ofType(t Table, kind Type) []Column {
	return slices.DeleteFunc(slices.Clone(t.Columns[1:]), func(c Column) bool { return c.Type != kind })
}

// From returns the tables that a table of daily sums adds up.
func (t Table) From() []Table {
	if t.Name == Days.Name {
		return []Table{Charges, Corrections}
	}
	return []Table{GPUHours}
}

// DayRows converts each row of an hour to a row of daily sums. The day is still empty.
func (t Table) DayRows(from Table, rows [][]any) (days [][]any) {
	columns := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		columns[i] = from.index(c.Name)
	}
	for _, row := range rows {
		day := make([]any, len(t.Columns))
		for i, c := range t.Columns {
			if columns[i] >= 0 {
				day[i] = row[columns[i]]
			}
			day[i] = inDay(c.Name, from, row[1].(time.Time), day[i])
		}
		days = append(days, day)
	}
	return days
}

func inDay(column string, from Table, hour time.Time, value any) any {
	at, _ := value.(time.Time)
	switch {
	case column == dayColumn:
		return ""
	case column == hoursColumn && from.Name == Corrections.Name:
		return int64(0)
	case column == hoursColumn:
		return int64(1)
	case column == "first_hour", column == "last_hour", column == "began" && at.IsZero():
		return hour
	case column == "ended" && at.IsZero():
		return hour.Add(time.Hour)
	}
	return value
}
