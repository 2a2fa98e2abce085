// Package dashboards is the folder of the Grafana dashboards, which tools/dashboards
// writes. It holds their tests and no code.
package dashboards

//go:generate go -C ../tools/dashboards run . ../../dashboards
