//go:build e2e

// Package dashboards_test runs every query of the dashboards on a real Prometheus that scrapes
// simulated nodes. Each query must be valid and return a result.
package dashboards_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/fleet"
	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// excused lists the panels that may be empty on these nodes, by file and title.
var excused = map[string][]string{
	// No full hour has passed; TestMoney checks their values.
	"energy": {"Energy of all GPUs, full hours", "Charged to pods, full hours", "Cost of the pods, full hours", "Hours counted", "Namespaces, full hours", "Workloads, full hours", "Pods, full hours", "Units, full hours"},
	// There is no reconciler and no archive, and every stage works, unless the machine is busy.
	"health": {
		"Nodes without exporter", "Nodes that should have an exporter", "States of the inventories", "Writes of node labels per hour",
		"Failed stages", "Hours behind in the archive", "Hours refused by the archive",
	},
	// No full hour has passed; TestFleet checks their values.
	"fleet": {"GPUs free at the peak", "Allocated share", "GPUs present and allocated", "Boards to return or inspect", "Failures by model", "Failures by slot", "Power by use"},
	// No full hour has passed; TestStatement checks their values.
	"statement": {"Energy of all boards", "Unattributed", "Cost of pods and units", "Hours counted", "Teams", "Namespaces", "Users of units"},
	// The node has no units; TestLife checks their values.
	"gpu-life": {"Units"},
	// Every GPU is selected, so there is no other GPU beside them.
	"incident": {"GPUs beside them"},
}

// dashboard is the part of a dashboard that the tests read.
type dashboard struct {
	Templating struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		}
	}
	Panels []struct {
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

// variable matches a Grafana variable in a query.
var variable = regexp.MustCompile(`\$([a-zA-Z_]\w*)`)

// selected returns the value of a Grafana variable. Variables without a value match everything.
func selected(sc simnode.Scenario, file, name string) string {
	switch {
	case name == "__rate_interval":
		return "1m"
	case name == "__range":
		return "5m"
	case name == "__range_s":
		return "300"
	case name == "__interval":
		return "2s"
	case name == "price" || name == "pue":
		return "1.5"
	case name == "chassis_serial":
		return sc.GPUs[0].Place.Chassis
	case name == "serial" && file == "gpu-life":
		return sc.GPUs[0].Serial
	}
	return ".*"
}

// TestPanels checks that all queries of all panels are valid, and that each panel returns a result
// unless it is excused.
func TestPanels(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	server, address, tray := start(ctx, t)
	files, err := filepath.Glob("../../../dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards %v: %v, want at least one", files, err)
	}
	for _, path := range files {
		file := filepath.Base(path[:len(path)-len(".json")])
		d := read(t, path)
		seen := make(map[string]bool)
		for _, p := range d.Panels {
			seen[p.Title] = true
			answers := func() (n int) {
				for _, q := range p.Targets {
					expr := variable.ReplaceAllStringFunc(q.Expr, func(name string) string { return selected(tray, file, name[1:]) })
					samples, err := prometheus.Query(t.Context(), address, expr, time.Now())
					if err != nil {
						t.Fatalf("%s: %s: %v\n%s", file, p.Title, err, expr)
					}
					n += len(samples)
				}
				return n
			}
			if slices.Contains(excused[file], p.Title) {
				answers() // must not return an error
				continue
			}
			// Some panels need a full minute of data, or an idle pod.
			err := server.Wait(ctx, func() error {
				if answers() == 0 {
					return fmt.Errorf("%s: %s: no result", file, p.Title)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		for _, title := range excused[file] {
			if !seen[title] {
				t.Errorf("dashboard %s has no panel %s, which is excused", file, title)
			}
		}
	}
}

// start runs a tray of a chassis, a node that loses a GPU and a node of Slurm, and waits until
// Prometheus has scraped them for a while.
func start(ctx context.Context, t *testing.T) (running *program.Program, address string, tray simnode.Scenario) {
	t.Helper()
	f := fleet.OpenFor(t)
	server := fleet.Prometheus{Name: "prometheus", Scrape: 2 * time.Second, Nodes: []fleet.Node{{Scenario: "gb200"}, {Scenario: "lost"}, {Scenario: "slurm"}}}
	_, err := f.BootAll(ctx, server.Nodes)
	check(t, err)
	rules, err := filepath.Abs("../../../dashboards/rules/*.yaml")
	check(t, err)
	server.Address, server.Rules = program.AddressFor(t), []string{rules}
	running, err = f.StartPrometheus(ctx, server)
	check(t, err)
	err = running.Wait(ctx, func() error {
		lost, err := prometheus.Query(ctx, server.URL(), `(gpuledger_gpu_present == 0) * on () group_left () (count(gpuledger:books_coverage:ratio) > 8)
  and on () count(rate(gpuledger_allocation_energy_joules_total[1m])) > 3
  and on () count(rate(gpuledger_unit_energy_joules_total[1m])) > 3`, time.Now())
		if err == nil && len(lost) == 0 {
			err = fmt.Errorf("no GPU is lost yet, or some GPUs are not scraped yet")
		}
		return err
	})
	check(t, err)
	tray, err = server.Nodes[0].Simulated()
	check(t, err)
	return running, server.URL(), tray
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
