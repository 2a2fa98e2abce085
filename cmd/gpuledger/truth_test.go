//go:build realtime

package main_test

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/internal/status"
	"github.com/gpuledger/gpuledger/test/exposition"
)

// A span is the range of counter values in which the exporter counted the energy of a GPU.
type span struct{ from, to gpu.Millijoules }

// The energy of every GPU must be exactly the difference between two values from the driver: the value at the start of
// the counting, and the value at the last charge.
func checkCounters(t *testing.T, readings map[string][]reading, s status.Page, p page) map[string]span {
	t.Helper()
	spans := make(map[string]span)
	for uuid, read := range readings {
		book := bookOf(t, s, uuid)
		energy := p.Millijoules("gpuledger_gpu_energy_joules_total", map[string]string{"UUID": uuid})
		nearest := time.Duration(math.MaxInt64)
		for _, from := range around(read, book.From) {
			for _, to := range around(read, book.To) {
				if off := from.offBy(book.From) + to.offBy(book.To); to.energy-from.energy == energy && off < nearest {
					spans[uuid], nearest = span{from.energy, to.energy}, off
				}
			}
		}
		if _, ok := spans[uuid]; !ok {
			t.Errorf("%s: the book from %v to %v holds %d mJ, which is not the difference between any two of the readings %v", uuid, book.From, book.To, energy, read)
		}
	}
	if len(spans) != len(p.UUIDs()) {
		t.Errorf("%d books for %d GPUs", len(spans), len(p.UUIDs()))
	}
	return spans
}

func bookOf(t *testing.T, s status.Page, uuid string) status.Energy {
	t.Helper()
	i := slices.IndexFunc(s.GPUs, func(g status.GPU) bool { return g.UUID == uuid })
	if i < 0 || s.GPUs[i].Energy == nil {
		t.Fatalf("%s has no book", uuid)
	}
	return *s.GPUs[i].Energy
}

// On a quiet node, idle must be the only reason for unattributed energy.
func checkNothingLeft(t *testing.T, p page) {
	t.Helper()
	for _, reason := range []string{"gap", "unmapped", "unknown"} {
		if mJ := p.Millijoules("gpuledger_unattributed_energy_joules_total", map[string]string{"reason": reason}); mJ != 0 {
			t.Errorf("%d mJ are unattributed with the reason %s", mJ, reason)
		}
	}
}

// tolerance is the maximum error of an account that is the only account on its GPU, as a share of the board's energy.
const tolerance = 0.01

// twoSamples is the share of two samples in a board's energy of ten seconds. At each end of the period, one process may
// have one sample more than another process.
const twoSamples = 2.0 / 72

func checkTruth(t *testing.T, n *simnode.Node, p page, spans map[string]span) {
	t.Helper()
	history := truth(t, n)
	accounts := 0
	for uuid, s := range spans {
		from, to := history.Find(uuid, s.from), history.Find(uuid, s.to)
		if from == nil || to == nil {
			t.Errorf("%s: the truth has no row with the counter value %d or %d", uuid, s.from, s.to)
			continue
		}
		used := to.GPU(uuid).Since(from.GPU(uuid))
		limit := tolerance
		if len(used) > 1 {
			limit += twoSamples
		}
		for container, want := range used {
			got := bill(p, uuid, container)
			compare(t, fmt.Sprintf("%s on %s", container.Name, uuid), got, want, s.to-s.from, limit)
			accounts++
		}
		for _, m := range p.Matches("gpuledger_container_energy_joules_total", map[string]string{"UUID": uuid}) {
			l := exposition.Labels(m)
			if _, ok := used[gpu.Owner{Kind: gpu.OwnerPod, Scope: l["namespace"], Name: l["pod"], UID: l["pod_uid"], Part: l["container"]}]; !ok {
				t.Errorf("%s: %s has an account, but did not use the GPU", uuid, l["pod"])
			}
		}
	}
	if accounts == 0 {
		t.Error("no account was compared with the truth")
	}
}

// The driver of a machine with modules counts only the energy of whole modules, so checkCounters cannot be used.
func checkModules(t *testing.T, n *simnode.Node, s status.Page, p page) {
	t.Helper()
	if got := p.Sum("gpuledger_gpu_energy_source_info", map[string]string{"scope": "module", "source": "divided"}); int(got) != len(s.GPUs) {
		t.Errorf("%v of %d GPUs are marked as a part of their module's energy", got, len(s.GPUs))
	}
	history := truth(t, n)
	at := func(when time.Time) *simnode.Truth {
		i, _ := slices.BinarySearchFunc(history, when.UnixNano(), func(row simnode.Truth, ns int64) int { return cmp.Compare(row.Time, ns) })
		return &history[min(i, len(history)-1)]
	}
	for _, g := range s.GPUs {
		book := bookOf(t, s, g.UUID)
		want := at(book.To).GPU(g.UUID).Energy - at(book.From).GPU(g.UUID).Energy
		got := p.Millijoules("gpuledger_gpu_energy_joules_total", map[string]string{"UUID": g.UUID})
		// The counter is updated ten times a second. Its value may be a tenth of a second old at the start and at the
		// end of the ten seconds.
		if off := float64(got-want) / float64(want); math.Abs(off) > 0.04 {
			t.Errorf("%s is charged %d mJ, but used %d mJ: off by %.1f %%", g.UUID, got, want, 100*off)
		}
	}
}

func bill(p page, uuid string, o gpu.Owner) gpu.Millijoules {
	if o.Kind == gpu.OwnerUnit {
		return p.Millijoules("gpuledger_unit_energy_joules_total", map[string]string{"UUID": uuid, "manager": o.Scope, "unit": o.Name})
	}
	return p.Millijoules("gpuledger_container_energy_joules_total", byContainer(uuid, o))
}

func byContainer(uuid string, c gpu.Owner) map[string]string {
	return map[string]string{"UUID": uuid, "namespace": c.Scope, "pod": c.Name, "pod_uid": c.UID, "container": c.Part}
}

func compare(t *testing.T, who string, got, want, board gpu.Millijoules, limit float64) {
	t.Helper()
	if off := float64(got-want) / float64(board); math.Abs(off) > limit {
		t.Errorf("%s is charged %d mJ, want %d mJ: off by %.2f %% of the board's energy", who, got, want, 100*off)
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
