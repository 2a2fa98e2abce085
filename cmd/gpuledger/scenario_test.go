//go:build realtime

package main_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/internal/status"
	"github.com/gpuledger/gpuledger/test/exposition"
)

// TestScenarios runs the real binary on every simulated node in real time. The energy on the pages must match the
// counters of the driver and the true energy of each container.
func TestScenarios(t *testing.T) {
	for _, sc := range simnode.Scenarios() {
		if sc.Name == "lost" {
			// TestLost covers this scenario, because it waits for each change before the next event.
			continue
		}
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			testScenario(t, sc.Name)
		})
	}
}

func testScenario(t *testing.T, scenario string) {
	n := newNode(t, scenario)
	e := start(t, n, unhurried)
	s, p := settled(e)
	checkBalance(t, p)
	checkRecord(t, e)
	if scenario == "gb200-module" { // each GPU is charged only a part of the energy that its counter counts
		checkNothingLeft(t, p)
		checkModules(t, n, s, p)
		return
	}
	spans := checkCounters(t, allReadings(t, n, scenario), s, p)
	switch scenario {
	case "dgx-h100", "gb200":
		checkNothingLeft(t, p)
		checkTruth(t, n, p, spans)
	case "mi300x", "mixed":
		checkNothingLeft(t, p)
		checkWho(t, n, p)
		checkPods(t, scenario, p)
		checkTruth(t, n, p, undivided(t, scenario, spans))
	// The scenario slurm is omitted, because its job is requeued and does not run for one second. This is more than 1 %
	// of the 15 seconds.
	case "slurm-v1", "workstation":
		checkTruth(t, n, p, spans)
	case "churn":
		checkChurn(e)
	case "timeslice", "accounting", "mps", "mig", "mig-a100", "dra", "no-hostpid", "hog", "vulkan":
		checkWho(t, n, p)
		checkPods(t, scenario, p)
	}
}

func undivided(t *testing.T, scenario string, spans map[string]span) map[string]span {
	t.Helper()
	sc, err := simnode.Lookup(scenario)
	if err != nil {
		t.Fatal(err)
	}
	whole := maps.Clone(spans)
	for _, g := range sc.GPUs {
		if g.MIG != nil {
			delete(whole, g.UUID)
		}
	}
	return whole
}

// settled scrapes after fifteen seconds, when ten seconds of energy are counted for every GPU. It returns the page and
// the status from the same snapshot.
func settled(e *exporter) (s status.Page, p page) {
	e.t.Helper()
	<-time.After(15 * time.Second)
	eventually(e.t, "every book covers ten seconds and every GPU responds", func() bool {
		var bodies [][]byte
		s, bodies = e.atOneMoment("/metrics")
		p = e.parse(bodies[0])
		return len(s.GPUs) > 0 && !slices.ContainsFunc(s.GPUs, func(g status.GPU) bool {
			return !g.Answers || g.Energy == nil || g.Energy.To.Sub(g.Energy.From) < 10*time.Second
		}) && !slices.ContainsFunc(s.Stages, func(s status.Stage) bool {
			return !s.Up && (s.Name == string(stage.Driver) || s.Name == string(stage.AMDGPU) || s.Name == string(stage.PodResources))
		})
	})
	return s, p
}

// At least ten pods must have accounts. A pod that begins and ends while the machine is paused has no account.
func checkChurn(e *exporter) {
	e.t.Helper()
	e.scrapeUntil("ten pods have accounts", func(p page) bool {
		pods := make(map[string]bool)
		for _, m := range p["gpuledger_container_energy_joules_total"].GetMetric() {
			pods[exposition.Labels(m)["pod_uid"]] = true
		}
		return len(pods) >= 10
	})
}

// The energy of each GPU must be charged to exactly the containers that used it.
func checkWho(t *testing.T, n *simnode.Node, p page) {
	t.Helper()
	rows := truth(t, n)
	for _, g := range rows[len(rows)-1].GPUs {
		want, got := make(map[gpu.Owner]bool), make(map[gpu.Owner]bool)
		for _, c := range g.Containers {
			if c.Energy > 0 {
				want[c.Owner] = true
			}
		}
		for _, m := range p.Matches("gpuledger_container_energy_joules_total", map[string]string{"UUID": g.UUID}) {
			if l := exposition.Labels(m); exposition.Value(m) > 0 {
				got[gpu.Owner{Kind: gpu.OwnerPod, Scope: l["namespace"], Name: l["pod"], UID: l["pod_uid"], Part: l["container"]}] = true
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: charged (-truth +page):\n%s", g.UUID, diff)
		}
	}
}

// checkPods checks the properties that are specific to each scenario with shared GPUs.
func checkPods(t *testing.T, scenario string, p page) {
	t.Helper()
	count := func(name string, want map[string]string) int { return len(p.Matches(name, want)) }
	energy := func(method string) gpu.Millijoules {
		return p.Millijoules("gpuledger_container_energy_joules_total", map[string]string{"method": method})
	}
	expect := func(what string, ok bool) {
		if !ok {
			t.Errorf("not true: %s", what)
		}
	}
	strays, unused := p.Sum("gpuledger_gpu_processes_without_allocation", nil), p.Sum("gpuledger_gpu_allocations_without_process", nil)
	reserved := p.Millijoules("gpuledger_container_energy_joules_total", map[string]string{"pod": "reserved-0"})
	switch scenario {
	case "timeslice", "accounting":
		expect("six containers share by time-slicing", count("gpuledger_container_gpu_info", map[string]string{"sharing": "time-slicing"}) == 6)
		expect("one of the six containers holds two replicas", count("gpuledger_container_gpu_replicas", nil) == 6 && p.Sum("gpuledger_container_gpu_replicas", nil) == 7)
		expect("energy is shared", energy("shared") > 0 && energy("exclusive") == 0)
	case "mps":
		expect("clients are charged only for holding the GPU, because the samples name the server", energy("allocated") > 0 && energy("shared") == 0)
		expect("the server has no account", count("gpuledger_container_energy_joules_total", map[string]string{"namespace": "kube-system"}) == 0)
	case "mig":
		expect("there are three MIG devices", count("gpuledger_mig_info", nil) == 3)
		expect("three pods hold instances", count("gpuledger_container_gpu_info", map[string]string{"sharing": "mig"}) == 3)
		expect("energy on instances is shared", energy("shared") > 0)
		expect("an idle instance beside busy instances is charged less than a tenth of their energy", 10*reserved < energy("shared"))
		expect("no pod uses a GPU without an allocation", strays == 0)
	case "mig-a100":
		expect("all energy of instances has the method allocated", energy("allocated") > 0 && energy("shared")+energy("exclusive") == 0)
		expect("an idle instance is charged for its slices", 5*reserved > 2*energy("allocated")-1000 && 5*reserved < 2*energy("allocated")+1000)
		expect("the energy of free slices is unattributed with the reason idle", p.Millijoules("gpuledger_unattributed_energy_joules_total", map[string]string{"reason": "idle"}) > 0)
	case "dra":
		expect("every claim has a name", count("gpuledger_container_gpu_info", map[string]string{"claim": ""}) == 0)
		expect("DRA allocated a MIG device", count("gpuledger_container_gpu_info", map[string]string{"sharing": "mig"}) > 0)
		expect("no pod uses a GPU without an allocation", strays == 0)
	case "mi300x":
		expect("there are eight partitions", count("gpuledger_mig_info", map[string]string{"GPU_I_PROFILE": "CPX"}) == 8)
		expect("four pods hold partitions", count("gpuledger_container_gpu_info", map[string]string{"sharing": "mig"}) == 4)
		expect("energy on partitions is shared", energy("shared") > 0)
		expect("an idle partition is charged less than an eighth of the shared energy", 8*reserved < energy("shared"))
		expect("no pod uses a GPU without an allocation", strays == 0)
	case "mixed":
		expect("both vendors are read", count("gpuledger_gpu_info", map[string]string{"vendor": "NVIDIA"}) == 2 && count("gpuledger_gpu_info", map[string]string{"vendor": "AMD"}) == 2)
		expect("both drivers are named", count("gpuledger_driver_info", nil) == 2)
	case "vulkan":
		expect("the graphics program and the ROCm program share the energy", energy("shared") > 0)
		expect("two processes use the GPU without an allocation", strays == 2)
	case "hog":
		expect("one process uses a GPU without an allocation", strays == 1)
		expect("one allocation has no process", unused == 1)
		expect("the pod without an allocation is shown", count("gpuledger_container_gpu_info", map[string]string{"sharing": "none"}) == 1)
	case "no-hostpid":
		expect("the stage host_pids is down", p.Sum("gpuledger_stage_up", map[string]string{"stage": "host_pids"}) == 0)
		expect("energy is charged only for holding", energy("allocated") > 0 && energy("exclusive")+energy("shared") == 0)
	}
}
