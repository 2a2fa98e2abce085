//go:build realtime

package main_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

// TestDriverFaults lets one call after the other fail, hang or lie on one GPU, every
// call that the exporter has made. The others are read at every tick, the books
// balance, and in the end they hold what the boards counted, without a restart.
func TestDriverFaults(t *testing.T) {
	seed := seeded(t)
	for _, scenario := range []string{"dgx-h100", "mig"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			n := newNode(t, scenario)
			e := start(t, n, "--tick=200ms", "--nvml.call-timeout=100ms")
			all := e.scrapeUntil("every book has begun", func(p page) bool {
				return len(p.UUIDs()) > 0 && len(p["gpuledger_gpu_energy_joules_total"].GetMetric()) == len(p.UUIDs())
			})
			one := all.UUIDs()[0]
			for _, call := range slices.Sorted(maps.Keys(about(t, n))) {
				fault := simnode.Fault{GPU: one, Call: call, Do: faultsOfOne[random.IntN(len(faultsOfOne))]}
				if !about(t, n)[call] {
					fault.GPU, fault.Do = "*", faultsOfAll[random.IntN(len(faultsOfAll))]
				}
				if err := n.SetFaults(fault); err != nil {
					t.Fatal(err)
				}
				e.testOthers(one, fault)
				if err := n.ClearFaults(); err != nil {
					t.Fatal(err)
				}
			}
			p := e.scrapeUntil("all are read again", gauges(len(all.UUIDs())))
			checkBalance(t, p)
			checkBoards(t, n, p, one)
		})
	}
}

// The faults that a call about one GPU may have, and one about none. A call ignores
// those that make no sense to it.
var (
	faultsOfOne = []string{"fail:1", "fail:3", "fail:15", "fail:999", "hang", "blank", "drop", "delay:150"}
	faultsOfAll = []string{"fail:1", "fail:3", "fail:999", "hang", "delay:150"}
)

// about lists the calls that were made, and whether they are about a GPU.
func about(t *testing.T, n *simnode.Node) map[string]bool {
	t.Helper()
	calls := make(map[string]bool)
	for _, line := range driverLog(t, n) {
		fields := strings.Split(line, "\t")
		calls[fields[1]] = fields[2] != "-"
	}
	return calls
}

// testOthers: all GPUs but one are read some times more.
func (e *exporter) testOthers(one string, fault simnode.Fault) {
	e.t.Helper()
	const name = "gpuledger_gpu_last_reading_timestamp_seconds"
	before := e.scrape()
	p := e.scrapeUntil("the others are read, with "+fault.Call+" on one GPU: "+fault.Do, func(p page) bool {
		return !slices.ContainsFunc(before.UUIDs(), func(uuid string) bool {
			of := map[string]string{"UUID": uuid}
			return uuid != one && p.Sum(name, of)-before.Sum(name, of) < 0.3
		})
	})
	checkBalance(e.t, p)
}

// earliest is how many readings may come before the one that opens a book: the exporter
// looks at what the driver can before its first tick, and that may come late.
const earliest = 4

// checkBoards: the books hold what the boards counted since one of their first
// readings; that of the GPU whose counter lied holds no more.
func checkBoards(t *testing.T, n *simnode.Node, p page, liar string) {
	t.Helper()
	for uuid, read := range readCounters(t, n) {
		energy := p.Millijoules("gpuledger_gpu_energy_joules_total", map[string]string{"UUID": uuid})
		if uuid == liar {
			if most := slices.Max(read) - read[0]; energy > most {
				t.Errorf("%s: the book holds %d mJ, the board counted %d", uuid, energy, most)
			}
			continue
		}
		counted := func(to gpu.Millijoules) bool {
			return slices.ContainsFunc(read[:earliest], func(from gpu.Millijoules) bool { return to-from == energy })
		}
		if len(read) < earliest || !slices.ContainsFunc(read[2:], counted) {
			t.Errorf("%s: the book holds %d mJ, which the board did not count: %d", uuid, energy, read)
		}
	}
}
