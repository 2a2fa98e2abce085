package app_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

// TestProfiledOwners compares a pod's tensor and memory activity with the simulated GPUs. GPUs 0 to 3 of dgx-h100
// belong to one pod, with constant loads of 97, 97, 96 and 98 %. The driver reports a third of the load as tensor
// activity and half of the load as memory activity, both in whole percents. Samples are ten seconds apart. After a
// restart of the exporter, the activity must continue.
func TestProfiledOwners(t *testing.T) {
	sc, err := simnode.Lookup("dgx-h100")
	if err != nil {
		t.Fatal(err)
	}
	b := benchOf(t, sc, false, "--collector.profiling")
	b.run(55)
	dram := []float64{0.48, 0.48, 0.48, 0.49}
	before := make([]gpu.Profiled, len(dram))
	for i, g := range b.gpus() {
		var sum time.Duration
		for _, a := range g.Book.Accounts {
			sum += a.Profiled.Tensor
		}
		if all := g.Reading.Profile.Seconds[gpu.TensorActive]; sum.Seconds() > *all+1e-9 {
			t.Errorf("GPU %d: its owners have %v of tensor activity, but the GPU has only %v s", i, sum, *all)
		}
		if i >= len(dram) {
			continue
		}
		if len(g.Book.Accounts) != 1 {
			t.Fatalf("GPU %d has the accounts %+v", i, g.Book.Accounts)
		}
		p := g.Book.Accounts[0].Profiled
		before[i] = p
		if p.Time < 30*time.Second || p.Time > g.Book.Accounts[0].Allocated {
			t.Errorf("GPU %d: its owner has %v of profiled time and held the GPU for %v", i, p.Time, g.Book.Accounts[0].Allocated)
		}
		if seconds := p.Time.Seconds(); math.Abs(p.Tensor.Seconds()-0.32*seconds) > 1e-6 || math.Abs(p.DRAM.Seconds()-dram[i]*seconds) > 1e-6 {
			t.Errorf("GPU %d: %+v, want 32 %% of the time for the tensor cores and %v for the memory", i, p, dram[i])
		}
	}
	b.stop()
	b.start()
	b.run(25)
	for i := range before {
		now := b.gpus()[i].Book.Accounts[0].Profiled
		if now.Time <= before[i].Time || now.Tensor <= before[i].Tensor || now.DRAM <= before[i].DRAM {
			t.Errorf("GPU %d after a restart: %+v, before %+v", i, now, before[i])
		}
	}
}

// TestProfiledInstances compares the activity of pods on MIG instances with the simulated loads. One instance has a
// load of 70 % until 20 s. Then an instance with the same id and a load of 85 % replaces it. A third instance has no
// load. In the fake driver, the tensor cores of an instance are active for a quarter of the time in which the
// instance's multiprocessors are active. The instance's memory is active for half of that time.
func TestProfiledInstances(t *testing.T) {
	sc, err := simnode.Lookup("mig")
	if err != nil {
		t.Fatal(err)
	}
	b := benchOf(t, sc, false, "--collector.profiling")
	b.run(45)
	loads := map[string]float64{"small-0": 0.70, "smaller-0": 0.85, "reserved-0": 0}
	for _, a := range b.gpus()[0].Book.Accounts {
		load, isConstant := loads[a.Name]
		if !isConstant {
			continue
		}
		delete(loads, a.Name)
		seconds := a.Profiled.Time.Seconds()
		if seconds < 10 || a.Profiled.Time > a.Allocated {
			t.Errorf("%s: profiled for %v of the %v that it held an instance", a.Name, a.Profiled.Time, a.Allocated)
		}
		if math.Abs(a.Profiled.Tensor.Seconds()-load*seconds/4) > 1e-6 || math.Abs(a.Profiled.DRAM.Seconds()-load*seconds/2) > 1e-6 {
			t.Errorf("%s: %+v, want a quarter and a half of %v", a.Name, a.Profiled, load)
		}
	}
	if len(loads) > 0 {
		t.Errorf("no account of %v", loads)
	}
	if page := b.page(); !strings.Contains(page, "\ngpuledger_mig_tensor_active_seconds_total{GPU_I_ID=\"2\"") {
		t.Error("no series of an instance")
	}
}

// TestProfiledAbsent checks that owners have no activity series in three cases: profiling is disabled, several pods
// share the GPU, or the GPU is older than Hopper. For a pod that is alone on a Hopper GPU with profiling, the
// series must exist.
func TestProfiledAbsent(t *testing.T) {
	const owner, whole = `gpuledger_container_gpu_tensor_active_seconds_total{`, `gpuledger_gpu_tensor_active_seconds_total{`
	const record = `gpuledger_allocation_tensor_active_seconds_total{`
	for _, tt := range []struct {
		scenario, flags string
		owner, gpu      bool
	}{
		{"dgx-h100", "--collector.profiling", true, true},
		{"dgx-h100", "--collector.profiling=false", false, false},
		{"timeslice", "--collector.profiling", false, true},
		{"mig-a100", "--collector.profiling", false, false},
	} {
		t.Run(tt.scenario+" "+tt.flags, func(t *testing.T) {
			sc, err := simnode.Lookup(tt.scenario)
			if err != nil {
				t.Fatal(err)
			}
			b := benchOf(t, sc, false, tt.flags)
			b.run(35)
			page := b.page()
			if strings.Contains(page, "\n"+owner) != tt.owner || strings.Contains(b.record(), "\n"+record) != tt.owner || strings.Contains(page, "\n"+whole) != tt.gpu {
				t.Errorf("series of owners: page %v, record %v, want %v; of GPUs: %v, want %v", strings.Contains(page, owner), strings.Contains(b.record(), record), tt.owner, strings.Contains(page, whole), tt.gpu)
			}
		})
	}
}

// TestProfileHangs makes the GPM calls hang on all GPUs. Later, the calls return that they are not supported, and then
// impossible values. During the faults, the energy of every GPU must be read and charged. The activity must be absent
// at first, and must continue after the faults.
func TestProfileHangs(t *testing.T) {
	sc, err := simnode.Lookup("dgx-h100")
	if err != nil {
		t.Fatal(err)
	}
	b := benchOf(t, sc, false, "--collector.profiling", "--nvml.call-timeout=4s")
	const tensor = "\ngpuledger_gpu_tensor_active_seconds_total{"
	series := func() int { return strings.Count(b.page(), tensor) }
	b.run(25)
	if n := series(); n != 8 {
		t.Fatalf("%d GPUs have activity", n)
	}
	before := b.gpus()[0].Book.Accounts[0].Profiled
	for _, do := range []string{"hang", "fail:3", "blank"} {
		call := map[bool]string{true: "nvmlGpmSampleGet", false: "nvmlGpmMetricsGet"}[do == "hang"]
		b.fault(simnode.Fault{GPU: "*", Call: call, Do: do})
		b.run(11)
		energy := b.gpus()[0].Book.Sum()
		b.run(30)
		b.checkRead(do, "")
		if n, now := series(), b.gpus()[0].Book.Sum(); n != 0 || now <= energy {
			t.Errorf("%s: %d GPUs have activity, the book has %d mJ, before %d mJ", do, n, now, energy)
		}
		b.fault()
		b.advance(10 * time.Minute) // the exporter retries ten minutes after an error
		b.run(35)
		now := b.gpus()[0].Book.Accounts[0].Profiled
		if n := series(); n != 8 || now.Tensor <= before.Tensor || now.Time-before.Time > 76*time.Second {
			t.Errorf("after %s: %d GPUs have activity, the owner has %+v, before %+v", do, n, now, before)
		}
		before = now
	}
}
