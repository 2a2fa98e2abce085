package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// schemaVersion is that of Grafana 10; later ones migrate a file when they load it.
const schemaVersion = 39

// The dashboards' uids, which are public: alerts and bookmarks name them.
const (
	uidIncident = "gpuledger-incident"
	uidChassis  = "gpuledger-chassis"
	uidLife     = "gpuledger-gpu-life"
	uidEnergy   = "gpuledger-energy"
	uidHealth   = "gpuledger-health"
	uidFleet    = "gpuledger-fleet"
)

// tag marks the dashboards, and makes the links between them at the top.
const tag = "gpuledger"

// every is the value of a variable for which nothing was chosen. It matches a label
// that is not there, too.
const every = ".*"

// source is the data source that the variable names.
var source = common.DataSourceRef{Type: ptr("prometheus"), Uid: ptr("${datasource}")}

func ptr[T any](v T) *T { return &v }

// board starts a dashboard with what all have: data source and cluster come first.
func board(uid, title, description, from string) *dashboard.DashboardBuilder {
	return dashboard.NewDashboardBuilder(title).
		Uid(uid).
		Description(description).
		Tags([]string{tag}).
		Readonly().
		Time(from, "now").
		Refresh("1m").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("gpuledger").
			Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{tag}).IncludeVars(true).KeepTime(true)).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(variable("cluster", "Cluster", `label_values(gpuledger_gpu_info, cluster)`))
}

// variable is one of whose values one is chosen, or none.
func variable(name, label, query string) *dashboard.QueryVariableBuilder {
	return one(name, label, query).
		IncludeAll(true).
		AllValue(every).
		Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{String: ptr("All")},
			Value: dashboard.StringOrArrayOfString{String: ptr("$__all")},
		})
}

// one is a variable of whose values exactly one is chosen.
func one(name, label, query string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).
		Label(label).
		Datasource(source).
		Query(dashboard.StringOrMap{Map: map[string]any{"query": query, "refId": "variable"}}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortNaturalAsc)
}

// text is a variable that is typed in.
func text(name, label, value string) *dashboard.TextBoxVariableBuilder {
	return dashboard.NewTextBoxVariableBuilder(name).
		Label(label).
		DefaultValue(dashboard.StringOrMap{String: &value}).
		Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{String: &value},
			Value: dashboard.StringOrArrayOfString{String: &value},
		})
}
