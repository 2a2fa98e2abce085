package web

import (
	"maps"
	"net/url"
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/print"
)

// linker finds the pages for the cells of a table.
type linker struct {
	at     map[string]int // index of each column by name
	period url.Values     // the period of the table as flags of the page "uses"
}

func newLinker(columns []print.Column, period url.Values) linker {
	return linker{newTable(print.Answer{Columns: columns}).at, period}
}

// periodOf returns the period of a question as flags of the page "uses".
func periodOf(r ask.Request) url.Values {
	period := make(url.Values)
	for _, name := range []string{"from", "to", "since", "of-cluster", "tz"} {
		if r.Flags.Has(name) {
			period[name] = r.Flags[name]
		}
	}
	if r.Flags.Has("month") {
		_ = setMonth(period, r.Flags.Get("month")) // the month is valid, because the question was answered
	}
	return period
}

// text returns the value of a column. It returns "" if the value is missing.
func (l linker) text(row []string, column string) string {
	i, ok := l.at[column]
	if !ok || row[i] == "-" {
		return ""
	}
	return row[i]
}

// page returns the page for a cell. It returns "" if there is no such page.
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

// uses returns the page with the boards that a pod or unit used in each hour.
func (l linker) uses(flag, within, name string) string {
	if within == "" {
		return ""
	}
	values := url.Values{flag: {within + "/" + name}}
	maps.Copy(values, l.period)
	return "ran?" + values.Encode()
}

// explanation is a command on a node.
type explanation struct{ Node, Command string }

// maxExplanations is the maximum number of commands on a page.
const maxExplanations = 5

// explanations returns commands that explain uses of boards, by node. A node keeps the data for them only for some
// time.
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
