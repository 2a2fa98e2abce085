package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/table"
)

const emptyCell = "-"

type column struct {
	// field is the name of a label, or "Value". A table with several queries has the fields "Value #A", and so on.
	field string
	title string
	unit  string
	link  string
	// states maps values to strings.
	states []dashboard.ValueMapping
	width  int
}

// rows shows the results of instant queries as one table, joined by their common labels.
func rows(w words, width uint32, columns []column, exprs ...string) *table.PanelBuilder {
	p := table.NewPanelBuilder().
		Title(w.title).Description(w.about).NoValue(w.noData).
		Span(width).Height(8).
		Datasource(source).
		Unit("none").
		Filterable(true).
		CellHeight(common.TableCellHeightSm)
	for i, expr := range exprs {
		p.WithTarget(now(string(rune('A'+i)), expr))
	}
	if len(exprs) > 1 {
		p.WithTransformation(transformation("merge", map[string]any{}))
	}
	names := make([]string, len(columns))
	order := make(map[string]int, len(columns))
	titles := make(map[string]string, len(columns))
	for i, c := range columns {
		names[i], order[c.field], titles[c.field] = c.field, i, c.title
		p.OverrideByName(c.title, c.properties())
	}
	return p.
		WithTransformation(transformation("filterFieldsByName", map[string]any{"include": map[string]any{"names": names}})).
		WithTransformation(transformation("organize", map[string]any{"indexByName": order, "renameByName": titles}))
}

func transformation(id string, options map[string]any) dashboard.DataTransformerConfig {
	return dashboard.DataTransformerConfig{Id: id, Options: options}
}

func (c column) properties() []dashboard.DynamicConfigValue {
	var ps []dashboard.DynamicConfigValue
	set := func(id string, value any) { ps = append(ps, dashboard.DynamicConfigValue{Id: id, Value: value}) }
	set("noValue", emptyCell) // otherwise an empty cell shows the text for an empty panel
	if c.unit != "" {
		set("unit", c.unit)
	}
	if c.width != 0 {
		set("custom.width", c.width)
	}
	if c.link != "" {
		set("links", []map[string]any{{"title": "Open " + c.title, "url": c.link}})
	}
	if c.states != nil {
		set("mappings", c.states)
		set("custom.cellOptions", map[string]any{"type": "color-text"})
	}
	return ps
}

func ascending(title string) []cog.Builder[common.TableSortByFieldState] {
	return []cog.Builder[common.TableSortByFieldState]{common.NewTableSortByFieldStateBuilder().DisplayName(title)}
}

func descending(title string) []cog.Builder[common.TableSortByFieldState] {
	return []cog.Builder[common.TableSortByFieldState]{common.NewTableSortByFieldStateBuilder().DisplayName(title).Desc(true)}
}
