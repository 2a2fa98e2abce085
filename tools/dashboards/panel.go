package main

import (
	"regexp"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// These are widths of panels, in a grid of 24 columns.
const full, half, third, quarter, sixth = 24, 12, 8, 6, 4

type words struct {
	title  string
	about  string
	noData string
}

// number shows the last value of a query in large digits.
func number(w words, width uint32, unit, expr string) *stat.PanelBuilder {
	return stat.NewPanelBuilder().
		Title(w.title).Description(w.about).NoValue(w.noData).
		Span(width).Height(4).
		Datasource(source).
		Unit(unit).
		GraphMode(common.BigValueGraphModeNone).
		Orientation(common.VizOrientationAuto).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		WithTarget(now("A", expr))
}

// lines shows one line for each series.
func lines(w words, width uint32, unit, expr, legend string) *timeseries.PanelBuilder {
	return timeseries.NewPanelBuilder().
		Title(w.title).Description(w.about).NoValue(w.noData).
		Span(width).Height(8).
		Datasource(source).
		Unit(unit).
		Min(0).
		FillOpacity(0).
		ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().
			ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).Calcs([]string{})).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)).
		WithTarget(over("A", expr, legend))
}

// stacked stacks the series, because their values add up.
func stacked(w words, width uint32, unit, expr, legend string) *timeseries.PanelBuilder {
	return lines(w, width, unit, expr, legend).
		FillOpacity(60).
		LineWidth(0).
		Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
}

// bands shows one band for each series, coloured by its state.
func bands(w words, width uint32, expr, legend string, states ...dashboard.ValueMapping) *statetimeline.PanelBuilder {
	return statetimeline.NewPanelBuilder().
		Title(w.title).Description(w.about).NoValue(w.noData).
		Span(width).Height(8).
		Datasource(source).
		Unit("none").
		Mappings(states).
		ShowValue(common.VisibilityModeNever).
		MergeValues(true).
		RowHeight(0.8).
		FillOpacity(80).
		PerPage(20).
		Legend(common.NewVizLegendOptionsBuilder().
			ShowLegend(false).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).Calcs([]string{})).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeSingle).Sort(common.SortOrderNone)).
		WithTarget(over("A", expr, legend))
}

// now returns an instant query for a number or a table.
func now(id, expr string) *prometheus.DataqueryBuilder {
	return query(id, expr).Instant().Format(prometheus.PromQueryFormatTable)
}

// Grafana evaluates this query at each step of the time range.
func over(id, expr, legend string) *prometheus.DataqueryBuilder {
	return query(id, expr).Range().LegendFormat(legend)
}

var ofRecord = regexp.MustCompile(`gpuledger_(board|allocation|unit_allocation)_\w+_total`)

// The record is scraped once a minute. With a shorter step, Grafana would compute rates from fewer than two samples.
func query(id, expr string) *prometheus.DataqueryBuilder {
	q := prometheus.NewDataqueryBuilder().RefId(id).Expr(expr).Datasource(source)
	if ofRecord.MatchString(expr) {
		q = q.Interval("1m")
	}
	return q
}

// from sets the colours of values: base below the first step, and a colour for each step.
func from(base string, steps ...dashboard.Threshold) cog.Builder[dashboard.ThresholdsConfig] {
	return dashboard.NewThresholdsConfigBuilder().
		Mode(dashboard.ThresholdsModeAbsolute).
		Steps(append([]dashboard.Threshold{{Color: base}}, steps...))
}

func step(value float64, color string) dashboard.Threshold {
	return dashboard.Threshold{Value: &value, Color: color}
}

func state(value, text, color string) dashboard.ValueMapping {
	return dashboard.ValueMapping{ValueMap: &dashboard.ValueMap{
		Type:    dashboard.MappingTypeValueToText,
		Options: map[string]dashboard.ValueMappingResult{value: {Text: &text, Color: &color}},
	}}
}
