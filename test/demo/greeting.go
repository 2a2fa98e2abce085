package main

import (
	"fmt"
	"io"
)

func (d *demo) greet(w io.Writer) {
	fmt.Fprint(w, "\ngpuledger on simulated nodes\n\n")
	serial := ""
	for _, n := range d.nodes {
		sc, _ := n.Simulated() // no error, because the node already runs this scenario
		serial = sc.GPUs[2].Serial
		fmt.Fprintf(w, "  cluster %s  %-8s %s\n", n.Cluster, sc.Node, n.URL())
	}
	fmt.Fprintf(w, `
  Prometheus with the record since the start of last month, rules and alerts: http://%[1]s/alerts
  It is a data source for Grafana and dashboards/*.json.

Questions as web pages (docs/web.md):

  statement of last month        http://%[6]s/statement
  the life of a board            http://%[6]s/board/%[4]s

Questions on the command line (docs/ask.md has more):

  export GPULEDGER_CONFIG=%[2]s
  who owes what for last month
    bin/gpuledger-archive statement --by=team
  boards that moved, were lost or replaced; one more is moved after %[3]s
    bin/gpuledger-archive moves --since=30d
  boards in no place
    bin/gpuledger-archive missing
  the life of a board
    bin/gpuledger-archive report %[4]s
  are the books of last month complete?
    bin/gpuledger-archive verify

Queries:

  power of each pod in watts
    bin/promtool query instant http://%[1]s 'sum by (cluster, namespace, pod) (rate(gpuledger_container_energy_joules_total[30s]))'
  boards that were in more than one node
    bin/promtool query instant http://%[1]s 'count by (serial) (group by (serial, node) (present_over_time(gpuledger:placement_info:present1h[30d]))) > 1'

The archive files the last two days in CSV and Parquet:

  %[5]s
  energy and time of each pod, GPU and hour
    column -t -s, %[5]s/charges/cluster=east/date=*/charges.csv | less -S
  kWh of each namespace, with DuckDB
    duckdb -c "select cluster, namespace, reason, sum(energy_mj) / 3.6e9 as kwh from read_parquet('%[5]s/charges/*/*/*.parquet') group by all order by all"

Ctrl-C ends everything.

`, d.listen, d.config, d.move, serial, d.archive, d.pages)
}
