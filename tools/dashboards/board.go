package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// schemaVersion is the schema version of Grafana 10. Later versions of Grafana migrate such dashboards.
const schemaVersion = 39

// Alerts and bookmarks use the UIDs of the dashboards.
const (
	uidIncident = "gpuledger-incident"
	uidChassis  = "gpuledger-chassis"
	uidLife     = "gpuledger-gpu-life"
	uidEnergy   = "gpuledger-energy"
	uidHealth   = "gpuledger-health"
	uidFleet    = "gpuledger-fleet"

	uidStatement = "gpuledger-statement"
)

// All dashboards have this tag. The links at the top of a dashboard use it.
const tag = "gpuledger"

// every is the value of a variable without a selection. It also matches a missing label.
const every = ".*"

// source is the data source that the variable selects.
var source = common.DataSourceRef{Type: ptr("prometheus"), Uid: ptr("${datasource}")}

func ptr[T any](v T) *T { return &v }

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

func variable(name, label, query string) *dashboard.QueryVariableBuilder {
	return one(name, label, query).
		IncludeAll(true).
		AllValue(every).
		Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{String: ptr("All")},
			Value: dashboard.StringOrArrayOfString{String: ptr("$__all")},
		})
}

func one(name, label, query string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).
		Label(label).
		Datasource(source).
		Query(dashboard.StringOrMap{Map: map[string]any{"query": query, "refId": "variable"}}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortNaturalAsc)
}

func text(name, label, value string) *dashboard.TextBoxVariableBuilder {
	return dashboard.NewTextBoxVariableBuilder(name).
		Label(label).
		DefaultValue(dashboard.StringOrMap{String: &value}).
		Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{String: &value},
			Value: dashboard.StringOrArrayOfString{String: &value},
		})
}
