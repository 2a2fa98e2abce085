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

// ageColumns are the columns of boards by age.
var ageColumns = []print.Column{
	{Name: "model", Title: "MODEL"},
	{Name: "age_months", Title: "AGE IN MONTHS", Kind: print.Count},
	{Name: "boards", Title: "BOARDS", Kind: print.Count},
	{Name: "board_years", Title: "BOARD YEARS", Kind: print.Number},
	{Name: "lost", Title: "LOST", Kind: print.Count},
	{Name: "replaced", Title: "REPLACED", Kind: print.Count},
	{Name: "failures_per_board_year", Title: "PER BOARD YEAR", Kind: print.Number},
}

// ageStep is the number of months that one row covers.
const ageStep = 3

// year is the mean length of a year.
const year = 8766 * time.Hour

// modelAge is a model and an age of boards, in months.
type modelAge struct {
	model  string
	months int
}

// aged contains the boards that have an age at the end of the selected time, the time that boards
// spent at this age, and their failures.
type aged struct {
	boards   map[string]bool
	time     time.Duration
	failures map[string]map[string]bool // boards and times by event
}

// agedBoards are the boards by model and age.
type agedBoards map[modelAge]*aged

// at returns the entry of a model and an age in months.
func (a agedBoards) at(model string, months int) *aged {
	key := modelAge{model, months - months%ageStep}
	if a[key] == nil {
		a[key] = &aged{boards: make(map[string]bool), failures: map[string]map[string]bool{lost: {}, replaced: {}}}
	}
	return a[key]
}

// add adds the stays of boards. The age of each board begins at the given moment.
func (a agedBoards) add(all []*Stay, begin map[string]time.Time) {
	counted := make(map[string]time.Time) // boards with several GPUs count once
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

// rows returns the rows of ages in the order of models.
func (a agedBoards) rows() (rows [][]any) {
	for _, key := range slices.SortedFunc(maps.Keys(a), func(a, b modelAge) int {
		return cmp.Or(cmp.Compare(a.model, b.model), cmp.Compare(a.months, b.months))
	}) {
		x := a[key]
		years := float64(x.time) / float64(year)
		left, swapped := int64(len(x.failures[lost])), int64(len(x.failures[replaced]))
		row := []any{key.model, int64(key.months), int64(len(x.boards)), rounded(years), left, swapped, nil}
		if years > 0 {
			row[len(row)-1] = rounded(float64(left+swapped) / years)
		}
		rows = append(rows, row)
	}
	return rows
}

// ages returns the number of boards of each age, and the rate at which they were lost or replaced.
func (q *question) ages(ctx context.Context) (print.Answer, error) {
	a := print.Answer{Columns: ageColumns}
	of := q.period()
	if q.Books != "" && !q.since && q.From.IsZero() {
		of.From = time.Unix(0, 0).UTC() // from the first hour of the archive
	}
	of.Places = true
	all, err := stays(ctx, q.source, of)
	if err != nil {
		return a, err
	}
	begin, unknown, invalid := q.begins(all)
	boards := make(agedBoards)
	boards.add(all, begin)
	a.Rows = boards.rows()
	a.Notices = ageNotices(unknown, invalid)
	return a, nil
}

// ageNotices returns notices about the numbers of boards without a purchase date and with an invalid one.
func ageNotices(unknown, invalid int) (notices []string) {
	if unknown > 0 {
		notices = append(notices, fmt.Sprintf("%d boards have no purchase date in --assets: their age begins at their first hour in the books", unknown))
	}
	if invalid > 0 {
		notices = append(notices, fmt.Sprintf("%d boards have an invalid purchase date in --assets, or one after their first hour: it must be a date such as 2026-11-01", invalid))
	}
	return notices
}

// begins returns the moment at which each board has age zero: its purchase, else its first hour. It
// counts boards without a purchase date, and boards with an invalid date.
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

// monthsBetween returns the number of complete months between two moments.
func monthsBetween(from, to time.Time) int {
	months := (to.Year()-from.Year())*12 + int(to.Month()-from.Month())
	if from.AddDate(0, months, 0).After(to) {
		months--
	}
	return max(months, 0)
}
