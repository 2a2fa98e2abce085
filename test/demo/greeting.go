package main

import (
	"fmt"
	"io"
	"time"
)

// greet prints the addresses, and queries to start with.
func (d *demo) greet(w io.Writer) {
	fmt.Fprint(w, "\ngpuledger on simulated nodes\n\n")
	for _, n := range d.nodes {
		sc, _ := n.Simulated() // it runs
		fmt.Fprintf(w, "  cluster %s  %-8s %s\n", n.Cluster, sc.Node, n.URL())
	}
	fmt.Fprintln(w)
	for _, s := range d.servers {
		fmt.Fprintf(w, "  cluster %s  %s/alerts, the Prometheus with rules and alerts\n", s.Cluster, s.URL())
	}
	fmt.Fprintf(w, `  all clusters  http://%[1]s, a Prometheus: a data source for Grafana and dashboards/*.json

Queries, from a few seconds on:

  power of each pod in watts
    bin/promtool query instant http://%[1]s 'sum by (cluster, namespace, pod) (rate(gpuledger_container_energy_joules_total[30s]))'
  cost of each namespace in the last hour, at 0.25 a kilowatt hour
    bin/promtool query instant http://%[1]s 'sum by (cluster, namespace) (increase(gpuledger_allocation_energy_joules_total[1h])) / 3.6e6 * 0.25'
  location of each board
    bin/promtool query instant http://%[1]s 'group by (cluster, node, chassis_serial, tray_index, serial) (gpuledger_placement_info)'
  boards that were in more than one node (one is moved after %[2]s)
    bin/promtool query instant http://%[1]s 'count by (serial) (group by (serial, node) (present_over_time(gpuledger_placement_info[1h]))) > 1'

  location of a board, its stays, and boards that moved: the first one needs a serial number
    bin/gpuledger-archive where --store.url=http://%[1]s SERIAL
    bin/gpuledger-archive moves --store.url=http://%[1]s

Archive, as tables in CSV and Parquet, with a made-up history of the last hours:

  %[4]s
  statement by namespace
    bin/gpuledger-archive statement --books=%[4]s --by=namespace --since=1d
  energy and time of each pod, GPU and hour
    column -t -s, %[4]s/charges/cluster=east/date=*/charges.csv | less -S
  kWh of each namespace, with DuckDB
    duckdb -c "select cluster, namespace, reason, sum(energy_mj) / 3.6e9 as kwh from read_parquet('%[4]s/charges/*/*/*.parquet') group by all order by all"

Statements and the dashboard "Energy and cost" read full UTC hours: the first one is %[3]s, known half an hour after its end.

Ctrl-C ends everything.

`, d.listen, d.move, firstHour(time.Now()), d.archive)
}

// firstHour returns the first full UTC hour of a Prometheus that starts now: the amounts counted before its first hour are
// unknown.
func firstHour(now time.Time) string {
	begin := now.UTC().Truncate(time.Hour).Add(time.Hour)
	return begin.Format("15:04") + " to " + begin.Add(time.Hour).Format("15:04")
}
