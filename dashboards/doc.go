// Package dashboards contains the Grafana dashboards and the tests of the dashboards. The program tools/dashboards
// writes the dashboards. The package contains no other code.
package dashboards

//go:generate go -C ../tools/dashboards run . ../../dashboards
