package main_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/exposition"
)

// A span is the stretch of a GPU's counter that its book covers.
type span struct{ from, to gpu.Millijoules }

// earliest is how many readings may come before the one that opens a book: the exporter
// looks at what the driver can before its first tick, and that may come late.
const earliest = 4

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
		for _, from := range read[:min(earliest, len(read))] {
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

// checkTruth compares every account with what its container truly used.
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
