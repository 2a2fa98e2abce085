package main

import (
	"fmt"
	"io"
)

// greet says where everything is and what can be asked.
func (d *demo) greet(w io.Writer) {
	fmt.Fprint(w, "\ngpuledger on simulated nodes\n\n")
	for _, n := range d.nodes {
		sc, _ := n.Simulated() // it runs
		fmt.Fprintf(w, "  cluster %s  %-8s %s\n", n.Cluster, sc.Node, n.URL())
	}
	fmt.Fprintf(w, `
  all clusters          http://%[1]s, a Prometheus: a data source for Grafana and dashboards/*.json

Ask it, a few seconds from now:

  what each pod draws, in watts
    bin/promtool query instant http://%[1]s 'sum by (cluster, namespace, pod) (rate(gpuledger_container_energy_joules_total[30s]))'
  where each board is
    bin/promtool query instant http://%[1]s 'group by (cluster, node, chassis_serial, tray_index, serial) (gpuledger_placement_info)'
  which board was in more than one node (one is moved after %[2]s)
    bin/promtool query instant http://%[1]s 'count by (serial) (group by (serial, node) (present_over_time(gpuledger_placement_info[1h]))) > 1'

Ctrl-C ends everything.

`, d.listen, d.move)
}
