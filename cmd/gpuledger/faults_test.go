//go:build realtime

package main_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

const everyGPU = "*"

// TestDriverFaults makes each driver call in turn hang or return late. During the fault, the other GPUs must be read,
// and the accounts of each GPU must add up to the energy of its board. After the fault, every GPU must be read again
// without a restart of the exporter. The tests of internal/app cover the faults that need no real time.
func TestDriverFaults(t *testing.T) {
	seed := seeded(t)
	for _, scenario := range []string{"dgx-h100", "mig"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			n := newNode(t, scenario)
			e := start(t, n, "--tick=200ms", callTimeout)
			all := uuids(t, scenario)
			e.scrapeUntil("every book has begun", allCharged(all))
			for _, fault := range driverFaults(all[0]) {
				fault.Do = []string{"hang", tooLate}[random.IntN(2)]
				if err := n.SetFaults(fault); err != nil {
					t.Fatal(err)
				}
				e.testOthers(all, fault)
				if err := n.ClearFaults(); err != nil {
					t.Fatal(err)
				}
			}
			e.scrapeUntil("all GPUs are read again", gauges(len(all)))
			s, bodies := e.atOneMoment("/metrics")
			p := e.parse(bodies[0])
			checkBalance(t, p)
			checkCounters(t, driverReadings(t, n), s, p)
		})
	}
}

// tooLate delays a call beyond the timeout.
const (
	callTimeout = "--nvml.call-timeout=1s"
	tooLate     = "delay:1500"
)

// A fault in a call for a single GPU affects only the given GPU. Reading a GPU, identifying a GPU and opening the
// driver each need several calls. For each of these operations, there are faults for the first call, for some calls in
// the middle, and for the last call.
func driverFaults(one string) []simnode.Fault {
	return []simnode.Fault{
		{GPU: one, Call: "nvmlDeviceGetUUID"},
		{GPU: one, Call: "nvmlDeviceGetTotalEnergyConsumption"},
		{GPU: one, Call: "nvmlDeviceGetPowerUsage"},
		{GPU: one, Call: "nvmlDeviceGetComputeRunningProcesses"},
		{GPU: one, Call: "nvmlDeviceGetProcessUtilization"},
		{GPU: one, Call: "nvmlDeviceGetMigMode"},
		{GPU: one, Call: "nvmlGpmMetricsGet"},
		{GPU: everyGPU, Call: "nvmlDeviceGetCount"},
		{GPU: everyGPU, Call: "nvmlEventSetWait"},
		{GPU: everyGPU, Call: "nvmlSystemGetDriverVersion"},
	}
}

func allCharged(uuids []string) func(page) bool {
	return func(p page) bool {
		return !slices.ContainsFunc(uuids, func(uuid string) bool {
			return p.Millijoules("gpuledger_gpu_energy_joules_total", map[string]string{"UUID": uuid}) == 0
		})
	}
}

// testOthers waits until all GPUs except the faulty GPU have been read again during the fault.
func (e *exporter) testOthers(all []string, fault simnode.Fault) {
	e.t.Helper()
	const name = "gpuledger_gpu_last_reading_timestamp_seconds"
	before := e.scrape()
	p := e.scrapeUntil("the other GPUs are read while "+fault.Call+" has the fault "+fault.Do, func(p page) bool {
		return !slices.ContainsFunc(all, func(uuid string) bool {
			of := map[string]string{"UUID": uuid}
			return uuid != fault.GPU && p.Sum(name, of)-before.Sum(name, of) < 0.3
		})
	})
	checkBalance(e.t, p)
}
