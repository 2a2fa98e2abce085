package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// annotated is a dashboard with annotations. Those of the SDK lack the fields of Prometheus.
type annotated struct {
	dashboard.Dashboard
	Annotations annotations `json:"annotations"`
}

type annotations struct {
	List []annotation `json:"list"`
}

// annotation marks the samples of a query on all panels with a time axis. Grafana asks it at each step, which is $__interval.
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

// events returns the annotations of a dashboard: boards that moved or were lost, of the boards that it shows. Each event is
// one sample, at the first step after it.
func events(name string) annotations {
	// A board moved if it is in a node now and was in none a step ago, nor in this one on the day before, but in another.
	const (
		moved = `group by (cluster, node, serial) (
  gpuledger_placement_info{cluster=~"$cluster"SELECTED}
  unless on (cluster, node, UUID) gpuledger_placement_info offset $__interval
  unless on (cluster, node, UUID) last_over_time(gpuledger:placement_info:present1h[1d] offset $__interval)
  and on (UUID) last_over_time(gpuledger:placement_info:present1h[1d] offset $__interval)
)`
		lost = `group by (cluster, node, serial) (
  gpuledger_board_losses_total{cluster=~"$cluster"} > gpuledger_board_losses_total offset $__interval
  and on (cluster, node, UUID) last_over_time(gpuledger_placement_info{cluster=~"$cluster"SELECTED}[10m] offset $__interval)
)`
	)
	selected, step := map[string]string{
		"incident": `, node=~"$node"`, "health": `, node=~"$node"`, "gpu-life": `, serial=~"$serial", UUID=~"$UUID"`, "chassis": `, chassis_serial=~"$chassis_serial"`,
	}[name], "1m"
	if selected == "" {
		step = "1h" // of the whole fleet, over months
	}
	list := []annotation{
		{Name: "Moved boards", IconColor: "blue", Expr: fill(moved, "SELECTED", selected), TitleFormat: "moved"},
		{Name: "Lost GPUs", IconColor: "red", Expr: fill(lost, "SELECTED", selected), TitleFormat: "lost"},
	}
	for i := range list {
		a := &list[i]
		a.Datasource, a.Enable, a.Step, a.TextFormat, a.TagKeys = source, true, step, "board {{serial}}, node {{node}}", "node,serial"
	}
	return annotations{list}
}
