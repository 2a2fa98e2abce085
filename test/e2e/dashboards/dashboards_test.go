//go:build e2e

// Package dashboards_test asks every query of the dashboards of a real Prometheus that
// scrapes simulated nodes: a query must be understood, and must have an answer.
package dashboards_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/fleet"
)

// excused are the panels that need not have anything to show on these nodes, by file and
// title.
var excused = map[string][]string{
	// No full hour has passed; TestMoney checks their values.
	"energy": {"Energy of all GPUs, full hours", "Charged to pods, full hours", "Cost of the pods, full hours", "Hours counted", "Namespaces, full hours", "Workloads, full hours", "Pods, full hours"},
	// There is no reconciler, and every stage works, unless the machine is busy.
	"health": {
		"Nodes without exporter", "Nodes that should have an exporter", "What the reconciler thinks of the exporters", "Writes of node labels per hour",
		"Stages that do not work",
	},
	// Every GPU is picked, so none is beside them.
	"incident": {"Beside them"},
}

// dashboard is what the test reads of a dashboard.
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

// variable matches a variable of Grafana in a query.
var variable = regexp.MustCompile(`\$([a-zA-Z_]\w*)`)

// asked are the values of the variables; all others match everything.
func asked(sc simnode.Scenario, file, name string) string {
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

func TestPanels(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	program, address, tray := start(ctx, t)
	files, err := filepath.Glob("../../../dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %v, %v", files, err)
	}
	for _, path := range files {
		file := filepath.Base(path[:len(path)-len(".json")])
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		seen := make(map[string]bool)
		for _, p := range d.Panels {
			seen[p.Title] = true
			answers := func() (n int) {
				for _, q := range p.Targets {
					expr := variable.ReplaceAllStringFunc(q.Expr, func(name string) string { return asked(tray, file, name[1:]) })
					m, err := ask(t.Context(), address, expr)
					if err != nil {
						t.Fatalf("%s: %s: %v\n%s", file, p.Title, err, expr)
					}
					n += m
				}
				return n
			}
			if slices.Contains(excused[file], p.Title) {
				answers() // without an error
				continue
			}
			// Some need a full minute, or a pod that rests.
			err := program.Wait(ctx, func() error {
				if answers() == 0 {
					return fmt.Errorf("%s: %s: no answer", file, p.Title)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		for _, title := range excused[file] {
			if !seen[title] {
				t.Errorf("%s has no panel %s to excuse", file, title)
			}
		}
	}
}

// start runs a tray of a chassis and a node that loses a GPU, and waits until Prometheus
// has seen both for a while.
func start(ctx context.Context, t *testing.T) (program *fleet.Program, address string, tray simnode.Scenario) {
	f, err := fleet.Open(fleet.Programs{Bin: os.Getenv("GPULEDGER_E2E_BIN"), Prometheus: os.Getenv("GPULEDGER_E2E_PROMETHEUS")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	server := fleet.Prometheus{Name: "prometheus", Scrape: 2 * time.Second, Nodes: []fleet.Node{{Scenario: "gb200"}, {Scenario: "lost"}}}
	for i := range server.Nodes {
		server.Nodes[i].Address = free(t)
		if _, err := f.Boot(ctx, server.Nodes[i]); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := filepath.Abs("../../../dashboards/rules/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	server.Address, server.Rules = free(t), []string{rules}
	program, err = f.StartPrometheus(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	err = program.Wait(ctx, func() error {
		n, err := ask(ctx, server.URL(), `(gpuledger_gpu_present == 0) * on () group_left () (count(gpuledger:books_coverage:ratio) > 8)
  and on () count(rate(gpuledger_allocation_energy_joules_total[1m])) > 3`)
		if err == nil && n == 0 {
			err = fmt.Errorf("no GPU was lost yet, or not all are known")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	tray, err = server.Nodes[0].Simulated()
	if err != nil {
		t.Fatal(err)
	}
	return program, server.URL(), tray
}

func free(t *testing.T) string {
	t.Helper()
	address, err := fleet.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// ask returns how many series an instant query has.
func ask(ctx context.Context, address, expr string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/api/v1/query?"+url.Values{"query": {expr}}.Encode(), nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0, fmt.Errorf("read the answer: %w", err)
	}
	if answer.Error != "" {
		return 0, fmt.Errorf("query: %s", answer.Error)
	}
	return len(answer.Data.Result), nil
}
