//go:build e2e

// Package dashboards_test checks the values in the dashboards with a real Prometheus that contains an invented history.
// The test of the demo checks that every panel has data.
package dashboards_test

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

type dashboard struct {
	Templating struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		}
	}
	Annotations struct{ List []struct{ Name, Expr string } }
	Panels      []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

func read(t *testing.T, path string) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(path)
	check(t, err)
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return d
}

var variable = regexp.MustCompile(`\$([a-zA-Z_]\w*)`)

// selected returns the value of a Grafana variable. A variable without a value matches everything.
func selected(sc simnode.Scenario, file, name string) string {
	switch {
	case name == "__rate_interval":
		return "1m"
	case name == "__range":
		return "5m"
	case name == "__range_s":
		return "300"
	case name == "__interval":
		return "1m"
	case name == "price" || name == "pue":
		return "1.5"
	case name == "chassis_serial":
		return sc.GPUs[0].Place.Chassis
	case name == "serial" && file == "gpu-life":
		return sc.GPUs[0].Serial
	}
	return ".*"
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
