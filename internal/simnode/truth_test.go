package simnode_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

func TestTruthBalances(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	for _, sc := range simnode.Scenarios() {
		t.Run(sc.Name, func(t *testing.T) {
			n := open(t, sc.Name)
			length := 30 * time.Second
			if sc.Name == "churn" {
				length = 90 * time.Second // long enough for accounts to retire
			}
			run(t, n, 0, length, time.Second)
			rows := history(t, n)
			if want := int(length/(100*time.Millisecond)) + 1; len(rows) != want {
				t.Fatalf("%d rows, want %d", len(rows), want)
			}
			for i := range rows {
				checkRow(t, &rows[i])
				if i > 0 {
					checkRise(t, &rows[i-1], &rows[i])
				}
			}
		})
	}
}

func checkRow(t *testing.T, row *simnode.Truth) {
	t.Helper()
	boards := make(map[string]gpu.Millijoules)
	for i := range row.GPUs {
		g := &row.GPUs[i]
		boards[g.Serial] += g.Energy
		if g.Sum() != g.Energy {
			t.Fatalf("boot %d, %s: the parts sum to %d mJ, but the board used %d mJ", row.Boot, g.UUID, g.Sum(), g.Energy)
		}
		checkProcesses(t, g)
	}
	for _, m := range row.Modules {
		if m.Energy != boards[m.Serial] {
			t.Fatalf("module %s has %d mJ, but its GPUs have %d mJ", m.Serial, m.Energy, boards[m.Serial])
		}
	}
}

func checkProcesses(t *testing.T, g *simnode.GPUTruth) {
	t.Helper()
	used := make(map[gpu.Owner]gpu.Millijoules)
	for _, p := range g.Processes {
		used[p.Owner] += p.Energy
	}
	for _, c := range g.Containers {
		if used[c.Owner] > c.Energy {
			t.Fatalf("%v: the processes used %d mJ, but the container only %d mJ", c.Owner, used[c.Owner], c.Energy)
		}
	}
}

// No value may decrease, except counters at a reload of the driver.
func checkRise(t *testing.T, before, row *simnode.Truth) {
	t.Helper()
	for i := range row.GPUs {
		was, is := &before.GPUs[i], &row.GPUs[i]
		if was.Counter != nil && is.Counter != nil && *is.Counter < *was.Counter {
			t.Fatalf("boot %d, %s: counter fell from %d to %d", row.Boot, is.UUID, *was.Counter, *is.Counter)
		}
		if is.Energy < was.Energy || is.Idle < was.Idle || is.Retired < was.Retired {
			t.Fatalf("boot %d, %s: energy fell", row.Boot, is.UUID)
		}
		for c, e := range is.Since(was) {
			if e < 0 {
				t.Fatalf("boot %d, %v: energy fell by %d", row.Boot, c, -e)
			}
		}
	}
}

func TestTruthIsPlausible(t *testing.T) {
	n := open(t, "dgx-h100")
	run(t, n, 0, 30*time.Second, time.Second)
	rows := history(t, n)
	var idle int
	for i := range rows[0].GPUs {
		last := &rows[len(rows)-1].GPUs[i]
		watts := last.Energy.Joules() / 30
		if watts < 60 || watts > 700 {
			t.Errorf("%s drew %.0f W, want 60 to 700", last.UUID, watts)
		}
		if last.Idle == last.Energy {
			idle++
		}
	}
	if idle != 1 {
		t.Errorf("%d GPUs were idle, want 1", idle)
	}
}

// The truth must contain a row for every counter value that the driver reports.
func TestCounterHasRow(t *testing.T) {
	for _, tt := range []struct{ scenario, field string }{
		{"dgx-h100", "energy"}, {"gb200", "energy_gpu"}, {"gb200-module", "energy_module"},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			n := open(t, tt.scenario)
			run(t, n, 0, 3*time.Second, 100*time.Millisecond)
			rows := history(t, n)
			for _, g := range driverState(t, n)["gpu"] {
				counter, err := strconv.ParseInt(g[tt.field], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				row := rows.Find(g["uuid"], gpu.Millijoules(counter))
				if row == nil || row.Boot != int64(start.Boot+3*time.Second) {
					t.Errorf("%s: the counter value %d is in row %v, want the last row", g["uuid"], counter, row)
				}
			}
		})
	}
}

// The GPUs of a module must report one counter, which increases by the energy of both GPUs.
func TestModuleCounter(t *testing.T) {
	n := open(t, "gb200-module")
	run(t, n, 0, 10*time.Second, time.Second)
	rows := history(t, n)
	first, last := &rows[0], &rows[len(rows)-1]
	if len(last.Modules) != 2 {
		t.Fatalf("%d modules, want 2", len(last.Modules))
	}
	for _, m := range last.Modules {
		gpus := 0
		for i, g := range last.GPUs {
			if g.Serial != m.Serial {
				continue
			}
			gpus++
			if rise := *g.Counter - *first.GPUs[i].Counter; rise != m.Energy {
				t.Errorf("%s: the counter increased by %d mJ, but module %s used %d mJ", g.UUID, rise, m.Serial, m.Energy)
			}
		}
		if gpus != 2 {
			t.Errorf("module %s has %d GPUs, want 2", m.Serial, gpus)
		}
		if len(m.Containers) != 1 || m.Containers[0].Energy != m.Energy {
			t.Errorf("module %s has containers %v, want one with all its energy", m.Serial, m.Containers)
		}
	}
	for _, g := range driverState(t, n)["gpu"] {
		if _, ok := g["energy_gpu"]; ok {
			t.Errorf("%s has a counter of its own", g["uuid"])
		}
	}
}

// The result must depend only on the scenario and the time. It must not depend on when Step is called.
func TestStepIsDeterministic(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	for _, sc := range simnode.Scenarios() {
		t.Run(sc.Name, func(t *testing.T) {
			slow, fast := open(t, sc.Name), open(t, sc.Name)
			run(t, slow, 0, 21*time.Second, 500*time.Millisecond)
			run(t, fast, 0, 21*time.Second, 21*time.Second)
			for _, file := range []string{"truth.jsonl", "truth.json", "driver/state.tsv"} {
				if diff := cmp.Diff(content(t, slow, file), content(t, fast, file)); diff != "" {
					t.Errorf("%s differs (-slow +fast):\n%s", file, diff)
				}
			}
		})
	}
}

func content(t *testing.T, n *simnode.Node, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(n.Dir(), file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestStepNeverGoesBack(t *testing.T) {
	n := open(t, "idle")
	run(t, n, 0, time.Second, time.Second)
	for _, d := range []time.Duration{999 * time.Millisecond, -time.Hour, 1099 * time.Millisecond} {
		if err := n.Step(after(d)); err != nil {
			t.Fatal(err)
		}
	}
	if rows := history(t, n); len(rows) != 11 {
		t.Errorf("%d rows after one second, want 11", len(rows))
	}
}

func TestTruthRotates(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	n := open(t, "gb200")
	older := filepath.Join(n.Dir(), "truth.1.jsonl")
	var d time.Duration
	for ; d < 12*time.Hour; d += 5 * time.Minute {
		if _, err := os.Stat(older); err == nil {
			break
		}
		run(t, n, d, d+5*time.Minute, 5*time.Minute)
	}
	old, err := simnode.ReadTruth(older)
	if err != nil {
		t.Fatal(err)
	}
	rows := append(old, history(t, n)...)
	if want := int(d/(100*time.Millisecond)) + 1; len(rows) != want {
		t.Errorf("%d rows in both files, want %d", len(rows), want)
	}
	newest, err := simnode.ReadTruth(filepath.Join(n.Dir(), "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows[len(rows)-1:], newest); diff != "" {
		t.Errorf("newest row (-history +newest):\n%s", diff)
	}
}

func TestReadTruthLeavesOutUnfinishedRow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "truth.jsonl")
	if err := os.WriteFile(path, []byte("{\"boot_ns\":1}\n{\"boot_ns\":2}\n{\"boot_ns\":3,\"gp"), 0o600); err != nil {
		t.Fatal(err)
	}
	rows, err := simnode.ReadTruth(path)
	if err != nil || len(rows) != 2 || rows[1].Boot != 2 {
		t.Errorf("ReadTruth = %v, %v, want two rows", rows, err)
	}
}

// The sparse history must contain every hundredth row of the history, without processes.
func TestTruthSparse(t *testing.T) {
	n := open(t, "timeslice")
	run(t, n, 0, 31*time.Second, time.Second)
	all := history(t, n)
	got, err := simnode.ReadTruth(filepath.Join(n.Dir(), "truth-10s.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var want simnode.History
	for i := 0; i < len(all); i += 100 {
		for j := range all[i].GPUs {
			all[i].GPUs[j].Processes = nil
		}
		want = append(want, all[i])
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 4 {
		t.Errorf("sparse history of %d rows (-every hundredth row +file):\n%s", len(got), diff)
	}
}

// Two processes on the GPU draw 500 W each for 40 % of the time. A container with two replicas must hold the GPU only
// once.
func TestTruthHeld(t *testing.T) {
	sc, err := simnode.Lookup("timeslice")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(sc.Pods, func(p simnode.Pod) bool { return p.Name == "notebook-bob" })
	sc.Pods[i].From, sc.Pods[i].Until = 4*time.Second, 9*time.Second
	n := openScenario(t, sc)
	run(t, n, 0, 20*time.Second, time.Second)
	all := history(t, n)
	last := all[len(all)-1]
	held := make(map[string]int64)
	for _, g := range last.GPUs {
		for _, c := range g.Containers {
			held[c.Name] = c.Held
		}
	}
	want := map[string]int64{"notebook-ada": 20_000, "notebook-bob": 5000, "tuner": 20_000, "evaluator": 20_000, "twin-a": 20_000, "twin-b": 20_000}
	if diff := cmp.Diff(want, held); diff != "" {
		t.Errorf("held time in ms (-want +got):\n%s", diff)
	}
	if want := int64(1000 * (sc.GPUs[1].Floor + 2*500*40/100)); last.GPUs[1].Peak != want {
		t.Errorf("the highest power is %d mW, want %d", last.GPUs[1].Peak, want)
	}
}
