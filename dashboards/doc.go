// Package dashboards contains the Grafana dashboards, which the program tools/dashboards writes, and their tests. It
// contains no other code.
package dashboards

//go:generate go -C ../tools/dashboards run -trimpath . ../../dashboards
