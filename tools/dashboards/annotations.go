package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// annotated has its own type of annotations, because the type in the SDK lacks the fields for Prometheus.
type annotated struct {
	dashboard.Dashboard
	Annotations annotations `json:"annotations"`
}

type annotations struct {
	List []annotation `json:"list"`
}

// annotation marks the samples of a query on all panels with a time axis. Grafana evaluates the query at each step. The
// length of a step is $__interval.
type annotation struct {
	Name        string               `json:"name"`
	Datasource  common.DataSourceRef `json:"datasource"`
	Enable      bool                 `json:"enable"`
	IconColor   string               `json:"iconColor"`
	Expr        string               `json:"expr"`
	Step        string               `json:"step"`
	TitleFormat string               `json:"titleFormat"`
	TextFormat  string               `json:"textFormat"`
	TagKeys     string               `json:"tagKeys"`
}

// events marks moves and losses of the boards on a dashboard. Each event is one sample, at the first step after the
// event.
func events(name string) annotations {
	// A board has moved if it is in a node now, was not in this node one step ago, and was in a different node before.
	const (
		moved = `group by (cluster, node, serial) (
  gpuledger_placement_info{cluster=~"$cluster"SELECTED}
  unless on (cluster, node, UUID) gpuledger_placement_info offset $__interval
  unless on (cluster, node, UUID) HERE
  and on (UUID) SEEN
)`
		// For the whole fleet, the query reads the nodes of all boards on the previous day. Therefore it does not mark
		// a board that returns to its node within a day.
		day = `last_over_time(gpuledger:placement_info:present1h[1d] offset $__interval)`
		// For selected boards, the query reads the hours in which the boards were in each node. It uses the last node,
		// as the alert GPULedgerGPUMoved does. It may not mark a board that returns within two hours.
		hours = `max_over_time(timestamp(last_over_time(gpuledger:placement_info:present1h[1h]))[1d:1h] offset $__interval)`
		last  = `(` + hours + ` == on (UUID) group_left () max by (UUID) (` + hours + `))`
		lost  = `group by (cluster, node, serial) (
  gpuledger_board_losses_total{cluster=~"$cluster"} > gpuledger_board_losses_total offset $__interval
  and on (cluster, node, UUID) last_over_time(gpuledger_placement_info{cluster=~"$cluster"SELECTED}[10m] offset $__interval)
)`
	)
	selected, step := map[string]string{
		"incident": `, node=~"$node"`, "health": `, node=~"$node"`, "gpu-life": `, serial=~"$serial", UUID=~"$UUID"`, "chassis": `, chassis_serial=~"$chassis_serial"`,
	}[name], "1m"
	here, seen := last, hours
	if selected == "" {
		step, here, seen = "1h", day, day // a larger step, because the time range is months
	}
	list := []annotation{
		{Name: "Moved boards", IconColor: "blue", Expr: fill(moved, "SELECTED", selected, "HERE", here, "SEEN", seen), TitleFormat: "moved"},
		{Name: "Lost GPUs", IconColor: "red", Expr: fill(lost, "SELECTED", selected), TitleFormat: "lost"},
	}
	for i := range list {
		a := &list[i]
		a.Datasource, a.Enable, a.Step, a.TextFormat, a.TagKeys = source, true, step, "board {{serial}}, node {{node}}", "node,serial"
	}
	return annotations{list}
}
