package main_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/test/exposition"
)

// A way is how the exporter comes by its readings.
type way struct {
	name  string
	flags func(n *simnode.Node) []string
	// counters are the values of the counter that the books are made of.
	counters func(t *testing.T, n *simnode.Node) map[string][]gpu.Millijoules
}

var ways = []way{
	{"nvml", func(*simnode.Node) []string { return nil }, readCounters},
	{"dcgm", func(n *simnode.Node) []string { return n.EngineFlags(client) }, engineCounters},
}

// TestScenarios runs the real binary on every simulated node in real time, and
// holds what it serves against the driver's counter and against the truth.
func TestScenarios(t *testing.T) {
	for _, sc := range simnode.Scenarios() {
		for _, w := range ways {
			t.Run(sc.Name+"/"+w.name, func(t *testing.T) {
				t.Parallel()
				testScenario(t, sc.Name, w)
			})
		}
	}
}

func testScenario(t *testing.T, scenario string, w way) {
	n := newNode(t, scenario)
	e := start(t, n, w.flags(n)...)
	if scenario == "lost" {
		testLost(t, n, e, w)
		return
	}
	if scenario == "gb200" {
		w.counters = readCounters // its GPUs have a counter of their own, which DCGM has not
	}
	p := settled(e, 15)
	if by := p.Matches("gpuledger_driver_info", map[string]string{"source": w.name}); len(by) != 1 {
		t.Errorf("%s does not serve", w.name)
	}
	checkBalance(t, p)
	checkRecord(t, e)
	spans := checkCounters(t, w.counters(t, n), p)
	switch scenario {
	case "dgx-h100", "gb200":
		checkNothingLeft(t, p)
		checkTruth(t, n, p, spans)
	case "gb200-module":
		checkNothingLeft(t, p)
		checkModuleTruth(t, n, p, spans)
	case "churn":
		checkChurn(t, p)
	case "timeslice", "accounting", "mps", "mig-a100", "dra", "no-hostpid":
		checkWho(t, n, p)
		checkPods(t, scenario, p)
	case "mig", "hog": // by their activity they pay all, the floor of idle holders too
		checkPods(t, scenario, p)
	}
}

// settled scrapes when every GPU's book covers the given number of seconds.
func settled(e *exporter, seconds int) page {
	began := time.Now()
	return e.scrapeUntil("the books cover some time", func(p page) bool {
		return len(p.UUIDs()) > 0 && time.Since(began) > time.Duration(seconds)*time.Second
	})
}

// A span is the stretch of a GPU's counter that its book covers.
type span struct{ from, to gpu.Millijoules }

// latest is how many readings may have followed the one a page was settled up to:
// the settlement's delay, and that of a loaded machine before the log was read.
const latest = 12

// checkCounters checks that every book holds exactly the difference of two values
// that the driver gave out: one of its first and one of its latest.
func checkCounters(t *testing.T, counters map[string][]gpu.Millijoules, p page) map[string]span {
	t.Helper()
	spans := make(map[string]span)
	for uuid, read := range counters {
		energy := p.Millijoules("gpuledger_gpu_energy_joules_total", map[string]string{"UUID": uuid})
		for _, from := range read[:min(2, len(read))] {
			for _, to := range read[max(0, len(read)-latest):] {
				if to-from == energy {
					spans[uuid] = span{from, to}
				}
			}
		}
		if _, ok := spans[uuid]; !ok {
			t.Errorf("%s: the book holds %d mJ, which no two readings differ by: %d", uuid, energy, read)
		}
	}
	if len(spans) != len(p.UUIDs()) {
		t.Errorf("%d books for %d GPUs", len(spans), len(p.UUIDs()))
	}
	return spans
}

// checkNothingLeft: on a quiet node every joule has an owner, or nobody was there.
func checkNothingLeft(t *testing.T, p page) {
	t.Helper()
	for _, reason := range []string{"gap", "unmapped", "unknown"} {
		if mJ := p.Millijoules("gpuledger_unattributed_energy_joules_total", map[string]string{"reason": reason}); mJ != 0 {
			t.Errorf("%d mJ are unattributed for reason %s", mJ, reason)
		}
	}
}

// tolerance is how far an account may be from the truth, as a share of the energy
// of its board.
const tolerance = 0.01

func checkTruth(t *testing.T, n *simnode.Node, p page, spans map[string]span) {
	t.Helper()
	history := truth(t, n)
	accounts := 0
	for uuid, s := range spans {
		from, to := history.Find(uuid, s.from), history.Find(uuid, s.to)
		if from == nil || to == nil {
			t.Errorf("%s: counter %d or %d is not in the truth", uuid, s.from, s.to)
			continue
		}
		used := to.GPU(uuid).Since(from.GPU(uuid))
		for container, want := range used {
			got := p.Millijoules("gpuledger_container_energy_joules_total", byContainer(uuid, container))
			compare(t, fmt.Sprintf("%s on %s", container.Pod, uuid), got, want, s.to-s.from)
			accounts++
		}
		for _, m := range p.Matches("gpuledger_container_energy_joules_total", map[string]string{"UUID": uuid}) {
			l := exposition.Labels(m)
			if _, ok := used[gpu.Container{Namespace: l["namespace"], Pod: l["pod"], PodUID: l["pod_uid"], Container: l["container"]}]; !ok {
				t.Errorf("%s: %s has an account and was never there", uuid, l["pod"])
			}
		}
	}
	if accounts == 0 {
		t.Error("nothing was compared with the truth")
	}
}

// checkModuleTruth compares boards whose counter covers both of their GPUs: the
// energy of a board is the maximum over its GPUs, never their sum.
func checkModuleTruth(t *testing.T, n *simnode.Node, p page, spans map[string]span) {
	t.Helper()
	if got := p.Sum("gpuledger_gpu_energy_source_info", map[string]string{"scope": "module"}); int(got) != len(spans) {
		t.Errorf("%v of %d GPUs say that their counter covers a module", got, len(spans))
	}
	history := truth(t, n)
	for uuid, s := range spans {
		from, to := history.Find(uuid, s.from), history.Find(uuid, s.to)
		if from == nil || to == nil {
			t.Errorf("%s: counter %d or %d is not in the truth", uuid, s.from, s.to)
			continue
		}
		serial := to.GPU(uuid).Serial
		before := moduleOf(from, serial)
		for _, c := range moduleOf(to, serial).Containers {
			want := c.Energy
			for _, b := range before.Containers {
				if b.Container == c.Container {
					want -= b.Energy
				}
			}
			got := p.Millijoules("gpuledger_container_energy_joules_total", byContainer(uuid, c.Container))
			compare(t, fmt.Sprintf("%s on board %s", c.Pod, serial), got, want, s.to-s.from)
		}
	}
}

func moduleOf(row *simnode.Truth, serial string) simnode.ModuleTruth {
	i := slices.IndexFunc(row.Modules, func(m simnode.ModuleTruth) bool { return m.Serial == serial })
	return row.Modules[i]
}

func byContainer(uuid string, c gpu.Container) map[string]string {
	return map[string]string{"UUID": uuid, "namespace": c.Namespace, "pod": c.Pod, "pod_uid": c.PodUID, "container": c.Container}
}

func compare(t *testing.T, who string, got, want, board gpu.Millijoules) {
	t.Helper()
	if off := float64(got-want) / float64(board); off < -tolerance || off > tolerance {
		t.Errorf("%s: charged %d mJ, true are %d mJ: off by %.2f %% of the board", who, got, want, 100*off)
	}
}

func truth(t *testing.T, n *simnode.Node) simnode.History {
	t.Helper()
	h, err := simnode.ReadTruth(filepath.Join(n.Dir(), "truth.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// checkChurn: many pods came and went, and each has an account of its own.
func checkChurn(t *testing.T, p page) {
	t.Helper()
	pods := make(map[string]bool)
	for _, m := range p["gpuledger_container_energy_joules_total"].GetMetric() {
		pods[exposition.Labels(m)["pod_uid"]] = true
	}
	if len(pods) < 10 {
		t.Errorf("%d pods have accounts after 15 seconds with new pods every second", len(pods))
	}
}

// testLost: a GPU falls off the bus, and then the driver is loaded again. Nothing
// changes but what is said of the dead GPU, the counters' reset, and the driver's
// own numbering.
func testLost(t *testing.T, n *simnode.Node, e *exporter, w way) {
	stages := float64(len(stage.Names) - 1) // a kubelet need not have the Pods API
	if w.name == "nvml" {
		stages -= 2 // nor a node a host engine
	}
	before := e.scrapeUntil("every book has begun", func(p page) bool {
		energy := p["gpuledger_gpu_energy_joules_total"].GetMetric()
		return p.Sum("gpuledger_gpu_present", nil) == 8 && len(energy) == 8 &&
			p.Sum("gpuledger_stage_up", nil) >= stages &&
			!slices.ContainsFunc(energy, func(m *dto.Metric) bool { return exposition.Value(m) == 0 })
	})
	lost := e.scrapeUntil("a GPU is lost", func(p page) bool {
		return p.Sum("gpuledger_gpu_present", nil) == 7 && p.Sum("gpuledger_gpu_xid_errors_total", nil) == 1
	})
	dead := map[string]string{}
	for _, m := range lost["gpuledger_gpu_present"].GetMetric() {
		if exposition.Value(m) == 0 {
			dead["UUID"] = exposition.Labels(m)["UUID"]
		}
	}
	if lost.Sum("gpuledger_gpu_xid_last_timestamp_seconds", map[string]string{"UUID": dead["UUID"], "xid": "79"}) == 0 {
		t.Error("the dead GPU's XID 79 is missing")
	}
	checkBalance(t, lost)
	othersSame(t, before, lost, dead["UUID"], false)

	after := e.scrapeUntil("the driver is loaded again", func(p page) bool {
		return p.Sum("gpuledger_gpu_energy_resets_total", nil) == 7
	})
	checkBalance(t, after)
	checkRecord(t, e)
	othersSame(t, before, after, dead["UUID"], true)
	if after.Sum("gpuledger_driver_gpus", nil) != 7 || after.Sum("gpuledger_pci_gpus", nil) != 8 {
		t.Error("the driver's count or the PCI bus's is wrong")
	}
	if diff := cmp.Diff(deadInfo(before, dead), deadInfo(after, dead)); diff != "" {
		t.Errorf("what is said of the dead GPU changed (-before +after):\n%s", diff)
	}
	if a, b := after.Sum("gpuledger_gpu_energy_joules_total", dead), lost.Sum("gpuledger_gpu_energy_joules_total", dead); a != b {
		t.Errorf("the dead GPU's counter moved from %v to %v", b, a)
	}
	checkResets(t, w.counters(t, n), after, dead["UUID"])
}

func deadInfo(p page, dead map[string]string) []map[string]string {
	var out []map[string]string
	for _, m := range p.Matches("gpuledger_gpu_info", dead) {
		out = append(out, exposition.Labels(m))
	}
	if len(out) != 1 || out[0]["serial"] == "" {
		return []map[string]string{{"error": fmt.Sprint("serial not readable: ", out)}}
	}
	return out
}

// othersSame checks that no series but the dead GPU's was renamed, left or came. The
// driver's index is an attribute of gpuledger_gpu_info alone; after a reload it is
// what it is.
func othersSame(t *testing.T, before, after page, dead string, renumbered bool) {
	t.Helper()
	others := func(p page) []string {
		if renumbered {
			for _, m := range p["gpuledger_gpu_info"].GetMetric() {
				for _, l := range m.Label {
					if l.GetName() == "gpu" || l.GetName() == "device" {
						l.Value = new("")
					}
				}
			}
		}
		return slices.DeleteFunc(p.Series(), func(s string) bool { return strings.Contains(s, dead) })
	}
	was, is := others(before), others(after)
	for _, s := range was {
		if !slices.Contains(is, s) {
			t.Errorf("series left: %s", s)
		}
	}
	for _, s := range is {
		if !slices.Contains(was, s) {
			t.Errorf("series came: %s", s)
		}
	}
}

// checkResets: what a book holds after a reload is what the counter gained before
// and after, without what it lost by starting anew.
func checkResets(t *testing.T, counters map[string][]gpu.Millijoules, p page, dead string) {
	t.Helper()
	for uuid, read := range counters {
		if uuid == dead {
			continue
		}
		reset := slices.IndexFunc(read, func(v gpu.Millijoules) bool { return v < read[0] })
		if reset < 2 {
			t.Errorf("%s: the counter did not start anew: %d", uuid, read)
			continue
		}
		old, fresh := read[:reset], read[reset:]
		energy := p.Millijoules("gpuledger_gpu_energy_joules_total", map[string]string{"UUID": uuid})
		found := false
		for _, first := range old[:2] {
			for _, base := range fresh[:min(2, len(fresh))] {
				for _, to := range fresh[max(0, len(fresh)-latest):] {
					found = found || energy == old[len(old)-1]-first+to-base
				}
			}
		}
		if !found {
			t.Errorf("%s: the book holds %d mJ, which does not follow from the readings %d", uuid, energy, read)
		}
	}
}

// checkWho: every container that truly used a GPU is charged for it, and nobody else.
func checkWho(t *testing.T, n *simnode.Node, p page) {
	t.Helper()
	rows := truth(t, n)
	for _, g := range rows[len(rows)-1].GPUs {
		want, got := make(map[gpu.Container]bool), make(map[gpu.Container]bool)
		for _, c := range g.Containers {
			if c.Energy > 0 {
				want[c.Container] = true
			}
		}
		for _, m := range p.Matches("gpuledger_container_energy_joules_total", map[string]string{"UUID": g.UUID}) {
			if l := exposition.Labels(m); exposition.Value(m) > 0 {
				got[gpu.Container{Namespace: l["namespace"], Pod: l["pod"], PodUID: l["pod_uid"], Container: l["container"]}] = true
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: charged (-truth +page):\n%s", g.UUID, diff)
		}
	}
}

// checkPods holds what is special about the scenarios of shared GPUs.
func checkPods(t *testing.T, scenario string, p page) {
	t.Helper()
	count := func(name string, want map[string]string) int { return len(p.Matches(name, want)) }
	energy := func(method string) gpu.Millijoules {
		return p.Millijoules("gpuledger_container_energy_joules_total", map[string]string{"method": method})
	}
	expect := func(what string, ok bool) {
		if !ok {
			t.Errorf("not so: %s", what)
		}
	}
	strays, unused := p.Sum("gpuledger_gpu_processes_without_allocation", nil), p.Sum("gpuledger_gpu_allocations_without_process", nil)
	reserved := p.Millijoules("gpuledger_container_energy_joules_total", map[string]string{"pod": "reserved-0"})
	switch scenario {
	case "timeslice", "accounting":
		expect("six containers share by time-slicing", count("gpuledger_container_gpu_info", map[string]string{"sharing": "time-slicing"}) == 6)
		expect("one of them holds two replicas", count("gpuledger_container_gpu_replicas", nil) == 6 && p.Sum("gpuledger_container_gpu_replicas", nil) == 7)
		expect("energy is shared", energy("shared") > 0 && energy("exclusive") == 0)
	case "mps":
		expect("clients are charged for holding: the samples name the server", energy("allocated") > 0 && energy("shared") == 0)
		expect("the server has no account", count("gpuledger_container_energy_joules_total", map[string]string{"namespace": "kube-system"}) == 0)
	case "mig":
		expect("three MIG devices", count("gpuledger_mig_info", nil) == 3)
		expect("three pods on instances", count("gpuledger_container_gpu_info", map[string]string{"sharing": "mig"}) == 3)
		expect("energy on instances is shared", energy("shared") > 0)
		expect("an idle instance beside busy ones pays next to nothing", 10*reserved < energy("shared"))
		expect("nobody uses what he was not given", strays == 0)
	case "mig-a100":
		expect("nothing on an instance is called measured", energy("allocated") > 0 && energy("shared")+energy("exclusive") == 0)
		expect("an instance without work pays for its slices", 5*reserved > 2*energy("allocated")-1000 && 5*reserved < 2*energy("allocated")+1000)
		expect("free slices are idle", p.Millijoules("gpuledger_unattributed_energy_joules_total", map[string]string{"reason": "idle"}) > 0)
	case "dra":
		expect("claims have names", count("gpuledger_container_gpu_info", map[string]string{"claim": ""}) == 0)
		expect("a MIG device by DRA", count("gpuledger_container_gpu_info", map[string]string{"sharing": "mig"}) > 0)
		expect("nobody uses what he was not given", strays == 0)
	case "hog":
		expect("one process on a GPU that its pod was not given", strays == 1)
		expect("one allocation without a process", unused == 1)
		expect("the hog is seen", count("gpuledger_container_gpu_info", map[string]string{"sharing": "none"}) == 1)
	case "no-hostpid":
		expect("the stage says so", p.Sum("gpuledger_stage_up", map[string]string{"stage": "host_pids"}) == 0)
		expect("energy is charged for holding only", energy("allocated") > 0 && energy("exclusive")+energy("shared") == 0)
	}
}
