// Package dashboards contains the Grafana dashboards, which tools/dashboards writes, and the tests of the
// dashboards. It contains no other code.
package dashboards

//go:generate go -C ../tools/dashboards run . ../../dashboards
