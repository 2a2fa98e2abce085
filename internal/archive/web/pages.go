package web

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
)

type page struct {
	path, command, title, about string
	named                       bool // the path ends with the name of a board, node or chassis
	monthly                     bool // the path may end with a month
	nav                         bool
	// The function more returns further questions with titles. The page also answers them.
	more func(ask.Request) []question
}

type question struct {
	title string
	ask.Request
	answers *answers
}

var pages = []page{
	{path: "statement", command: "statement", title: "Statement", about: "Energy, GPU hours, money and carbon", monthly: true, nav: true, more: also("Difference to the period before", "compare", "format")},
	{path: "idle", command: "idle", title: "Idle", about: "GPUs that pods and units hold without using them", monthly: true, nav: true},
	{path: "fleet", command: "capacity", title: "Fleet", about: "GPUs by model and state on each day, and boards that failed", monthly: true, nav: true, more: also("Boards that failed", "failures", "age")},
	{path: "moves", command: "moves", title: "Moves", about: "Boards that arrived, left, returned or were swapped", monthly: true, nav: true},
	{path: "missing", command: "missing", title: "Missing", about: "Boards without a place", nav: true},
	{path: "errors", command: "errors", title: "Errors", about: "Boards with errors, the worst first", nav: true},
	{path: "hours", command: "hours", title: "Hours", about: "Hours that are filed, missing, accepted, corrected or refused", monthly: true, nav: true},
	{path: "verify", command: "verify", title: "Verify", about: "Missing hours of a month, and a comparison of its charges with the energy of its boards", monthly: true, nav: true},
	{path: "ran", command: "ran", title: "Use", about: "Pods and units, and the boards that they used"},
	{path: "board", command: "report", title: "Board", about: "All data about a board", named: true},
	{path: "where", command: "where", title: "Place", about: "The current or last place of boards", named: true},
	{path: "history", command: "history", title: "Stays", about: "The places of a board over time", named: true},
	{path: "suspect", command: "suspect", title: "Suspect", about: "Whether faults follow the board, its slot or its node", named: true},
}

// The returned function repeats the question of a page with an additional flag. If the request already contains this
// flag or an exclusive flag, it returns no question.
func also(title, flag, exclusive string) func(ask.Request) []question {
	return func(r ask.Request) []question {
		if r.Flags.Has(flag) || r.Flags.Has(exclusive) {
			return nil
		}
		r.Flags = maps.Clone(r.Flags)
		r.Flags.Set(flag, "true")
		return []question{{title: title, Request: r}}
	}
}

// request returns the question and the output format of a request.
func (p *page) request(r *http.Request, now time.Time) (question ask.Request, output string, err error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return question, "", ask.Invalid(err)
	}
	for name, all := range values {
		if len(all) == 1 && all[0] == "" {
			delete(values, name) // a form also sends empty fields
		}
	}
	output = values.Get("o")
	values.Del("o")
	question = ask.Request{Command: p.command, Flags: values}
	switch last := r.PathValue("last"); {
	case last == "" && p.monthly && p.command != "capacity" && p.command != "moves" && !timed(values):
		last = time.Date(now.Year(), now.Month()-1, 1, 0, 0, 0, 0, time.UTC).Format("2006-01")
		values.Set("month", last)
	case last == "":
	case p.named:
		question.Names = []string{last}
	case p.command == "moves":
		err = setMonth(values, last)
	default:
		values.Set("month", last)
	}
	return question, output, err
}

func timed(values url.Values) bool {
	return values.Has("month") || values.Has("from") || values.Has("to") || values.Has("since")
}

// setMonth selects a month for a command without the flag --month.
func setMonth(values url.Values, text string) error {
	month, err := time.Parse("2006-01", text)
	if err != nil {
		return invalid("%q must be a month such as 2026-10", text)
	}
	values.Set("from", month.Format(time.DateOnly))
	values.Set("to", month.AddDate(0, 1, 0).Format(time.DateOnly))
	return nil
}

func invalid(format string, args ...any) error {
	return ask.Invalid(fmt.Errorf(format, args...))
}

func (s *Site) questions(p *page, r ask.Request) []question {
	all := []question{{Request: r, answers: s.answers}}
	if p.command == "hours" && len(s.sinks) > 1 {
		all = nil
		for _, sink := range s.sinks {
			all = append(all, question{title: sink.label, Request: r, answers: sink.answers})
		}
	}
	if p.more != nil {
		for _, q := range p.more(r) {
			q.answers = s.answers
			all = append(all, q)
		}
	}
	return all
}
