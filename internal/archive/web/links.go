package web

import (
	"maps"
	"net/url"
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/print"
)

// linker finds the pages for links in the cells of a table.
type linker struct {
	at     map[string]int // index of each column by name
	period url.Values     // period of the table, as flags for the command "ran"
}

func newLinker(columns []print.Column, period url.Values) linker {
	return linker{newTable(print.Answer{Columns: columns}).at, period}
}

// periodOf returns the period of a question as flags of the command "ran".
func periodOf(r ask.Request) url.Values {
	period := make(url.Values)
	for _, name := range []string{"from", "to", "since", "of-cluster", "tz"} {
		if r.Flags.Has(name) {
			period[name] = r.Flags[name]
		}
	}
	if r.Flags.Has("month") {
		_ = setMonth(period, r.Flags.Get("month")) // the question had an answer, so the month is valid
	}
	return period
}

// text returns "" if the table has no such column, or if the cell is empty.
func (l linker) text(row []string, column string) string {
	i, ok := l.at[column]
	if !ok || row[i] == "-" {
		return ""
	}
	return row[i]
}

// page returns "" if a cell has no link.
func (l linker) page(column string, row []string) string {
	text := l.text(row, column)
	if text == "" {
		return ""
	}
	switch column {
	case "serial", "replaced_by", "previous_serial":
		return "board/" + url.PathEscape(text)
	case "node", "chassis_serial", "previous_node":
		return "where/" + url.PathEscape(text)
	case "pod":
		return l.uses("pod", l.text(row, "namespace"), text)
	case "unit":
		return l.uses("unit", l.text(row, "manager"), text)
	}
	return ""
}

// The page shows the boards that a pod or unit used in each hour.
func (l linker) uses(flag, within, name string) string {
	if within == "" {
		return ""
	}
	values := url.Values{flag: {within + "/" + name}}
	maps.Copy(values, l.period)
	return "ran?" + values.Encode()
}

// explanation is a command that explains charges. It must run on the node.
type explanation struct{ Node, Command string }

const maxExplanations = 5

// explanations returns commands that explain the charges of pods and units. Only the node has the data for these
// commands, and only for some time.
func explanations(a print.Answer) (all []explanation) {
	t := newTable(a)
	if !t.has("node", "uuid", "namespace", "pod", "manager", "unit") {
		return nil
	}
	for _, row := range t.Rows {
		owner := t.text(row, "namespace") + "/" + t.text(row, "pod")
		if unit := t.text(row, "unit"); unit != "" {
			owner = t.text(row, "manager") + "/" + unit
		}
		e := explanation{t.text(row, "node"), "gpuledger explain --gpu=" + ask.Quoted(t.text(row, "uuid")) + " --owner=" + ask.Quoted(owner) + " --since=1h"}
		if !slices.Contains(all, e) && len(all) < maxExplanations {
			all = append(all, e)
		}
	}
	return all
}
