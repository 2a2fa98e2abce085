package simnode_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

var start = gpu.Instant{Wall: time.Date(2026, 3, 1, 12, 0, 0, 250e6, time.UTC), Boot: 5 * time.Hour}

func after(d time.Duration) gpu.Instant {
	return gpu.Instant{Wall: start.Wall.Add(d), Boot: start.Boot + d}
}

// The directory has a short name, because the length of a socket's path is limited.
func open(t *testing.T, scenario string) *simnode.Node {
	t.Helper()
	sc, err := simnode.Lookup(scenario)
	if err != nil {
		t.Fatal(err)
	}
	return openScenario(t, sc)
}

func openScenario(t *testing.T, sc simnode.Scenario) *simnode.Node {
	t.Helper()
	dir, err := os.MkdirTemp("", "sim")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	n, err := simnode.Open(dir, sc, start)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// run steps a node once per tick. from and to are simulated times since the start.
func run(t *testing.T, n *simnode.Node, from, to, tick time.Duration) {
	t.Helper()
	for d := from + tick; d <= to; d += tick {
		if err := n.Step(after(d)); err != nil {
			t.Fatal(err)
		}
	}
}

func history(t *testing.T, n *simnode.Node) simnode.History {
	t.Helper()
	rows, err := simnode.ReadTruth(filepath.Join(n.Dir(), "truth.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

type fields map[string]string

// driverState returns the records of the driver's state file by name.
func driverState(t *testing.T, n *simnode.Node) map[string][]fields {
	t.Helper()
	path, _ := strings.CutPrefix(n.Env()[0], "GPULEDGER_FAKE_NVML_STATE=")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	records := make(map[string][]fields)
	for line := range strings.Lines(string(data)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		r := make(fields)
		for _, p := range parts[1:] {
			key, value, ok := strings.Cut(p, "=")
			if !ok {
				t.Fatalf("field %q of %q has no value", p, line)
			}
			r[key] = value
		}
		records[parts[0]] = append(records[parts[0]], r)
	}
	return records
}
