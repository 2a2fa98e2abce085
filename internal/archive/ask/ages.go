package ask

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/print"
)

var ageColumns = columns[*aged]{
	{"model", "MODEL", print.Text, func(a *aged) any { return a.model }},
	{"age_months", "AGE IN MONTHS", print.Count, func(a *aged) any { return int64(a.months) }},
	{"boards", "BOARDS", print.Count, func(a *aged) any { return int64(len(a.boards)) }},
	{"board_years", "BOARD YEARS", print.Number, func(a *aged) any { return rounded(a.years()) }},
	{"lost", "LOST", print.Count, func(a *aged) any { return int64(len(a.failures[lost])) }},
	{"replaced", "REPLACED", print.Count, func(a *aged) any { return int64(len(a.failures[replaced])) }},
	{"failures_per_board_year", "PER BOARD YEAR", print.Number, (*aged).rate},
}

// ageStep is the length of the age range that one row covers, in months.
const ageStep = 3

// year is the mean length of a year.
const year = 8766 * time.Hour

type modelAge struct {
	model  string
	months int
}

// aged counts the boards of one model and age. boards contains the boards that have this age at the end of the selected
// time. time is the sum of the times in which boards had this age.
type aged struct {
	modelAge
	boards   map[string]bool
	time     time.Duration
	failures map[string]map[string]bool // board and time of each failure, by cause (lost or replaced)
}

type agedBoards map[modelAge]*aged

func (a agedBoards) at(model string, months int) *aged {
	key := modelAge{model, months - months%ageStep}
	if a[key] == nil {
		a[key] = &aged{modelAge: key, boards: make(map[string]bool), failures: map[string]map[string]bool{lost: {}, replaced: {}}}
	}
	return a[key]
}

// begin contains the time at which the age of each board begins.
func (a agedBoards) add(all []*Stay, begin map[string]time.Time) {
	counted := make(map[string]time.Time) // end of each board's counted time, because a board may have several GPUs
	for _, s := range all {
		board := boardOf(s)
		from, end := later(s.Hour, counted[board]), s.LastHour.Add(time.Hour)
		counted[board] = later(counted[board], end)
		for from.Before(end) {
			months := monthsBetween(begin[board], from)
			next := earlier(end, begin[board].AddDate(0, months-months%ageStep+ageStep, 0))
			a.at(s.Model, months).time += next.Sub(from)
			from = next
		}
		last := monthsBetween(begin[board], s.LastHour)
		switch s.End {
		case "":
			a.at(s.Model, last).boards[board] = true
		case lost, replaced:
			a.at(s.Model, last).failures[s.End][board+s.LastHour.String()] = true
		}
	}
}

func (a *aged) years() float64 { return float64(a.time) / float64(year) }

// rate returns the number of failures per board and year. It returns nil if no board had this age.
func (a *aged) rate() any {
	if a.time == 0 {
		return nil
	}
	return rounded(float64(len(a.failures[lost])+len(a.failures[replaced])) / a.years())
}

func (q *question) ages(ctx context.Context) (print.Answer, error) {
	of := q.period()
	if q.Books != "" && !q.since && q.From.IsZero() {
		of.From = time.Unix(0, 0).UTC() // ages begin at the first hour of the archive
	}
	of.Places = true
	all, err := stays(ctx, q.source, of)
	if err != nil {
		return print.Answer{}, err
	}
	begin, unknown, invalid := q.begins(all)
	boards := make(agedBoards)
	boards.add(all, begin)
	a := ageColumns.answer(slices.SortedFunc(maps.Values(boards), func(a, b *aged) int {
		return cmp.Or(cmp.Compare(a.model, b.model), cmp.Compare(a.months, b.months))
	})...)
	a.Notices = ageNotices(unknown, invalid)
	return a, nil
}

func ageNotices(unknown, invalid int) (notices []string) {
	if unknown > 0 {
		notices = append(notices, fmt.Sprintf("%d boards have no purchase date in --assets: their age begins at their first hour in the books", unknown))
	}
	if invalid > 0 {
		notices = append(notices, fmt.Sprintf("%d boards have an invalid purchase date in --assets, or a date after their first hour: set a date such as 2026-11-01", invalid))
	}
	return notices
}

// begins returns the date of purchase of each board. If this date is unknown, it returns the first hour of the board.
// The ages of boards begin at these times. unknown is the number of boards without a date of purchase, and invalid is
// the number of boards with an invalid date.
func (q *question) begins(all []*Stay) (begin map[string]time.Time, unknown, invalid int) {
	begin = make(map[string]time.Time)
	for _, s := range all {
		board := boardOf(s)
		if _, known := begin[board]; known {
			continue
		}
		begin[board] = s.Hour
		purchase, err := q.assets.Of(s.Serial).Purchase()
		switch {
		case err == nil && purchase.IsZero():
			unknown++
		case err != nil || purchase.After(s.Hour):
			invalid++
		default:
			begin[board] = purchase
		}
	}
	return begin, unknown, invalid
}

func monthsBetween(from, to time.Time) int {
	months := (to.Year()-from.Year())*12 + int(to.Month()-from.Month())
	if from.AddDate(0, months, 0).After(to) {
		months--
	}
	return max(months, 0)
}
