package sampler_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

func TestSnapshot(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	w.samples[first] = []gpu.Sample{{PID: 42, SM: 0.9, Memory: 0.25}}
	w.allocations.List = []gpu.Allocation{{
		Device: gpu.DeviceName{UUID: second}, Owner: train, Resource: "nvidia.com/gpu", Sharing: gpu.SharingExclusive, Replicas: 1, Live: true,
	}}
	snap := w.ticks(w.sampler(), 3)
	if *snap.PCIGPUs != 1 || *snap.DriverGPUs != 2 || snap.Node.ProductSerial != "EX0042" || snap.Node.Name != "node-1" {
		t.Errorf("node: %+v, %d GPUs on PCI, %d in the driver; want 1, 2", snap.Node, *snap.PCIGPUs, *snap.DriverGPUs)
	}
	if len(snap.Drivers) != 1 || snap.Drivers[0].Name != "nvml" {
		t.Errorf("drivers: %+v, want nvml", snap.Drivers)
	}
	for _, name := range []stage.Name{stage.DMI, stage.PCI, stage.State} {
		if st := stageOf(snap, name); !st.Up || st.Failures != 0 {
			t.Errorf("stage %s: %+v, want up without failures", name, st)
		}
	}
	if at := w.instant().Wall.Add(-time.Second); !snap.GPUs[0].LastReading.Equal(at) {
		t.Errorf("last reading at %v, want %v", snap.GPUs[0].LastReading, at)
	}
	if began := w.instant().Wall.Add(-3 * time.Second); !snap.GPUs[0].Events.Since.Equal(began) {
		t.Errorf("errors counted since %v, want %v", snap.GPUs[0].Events.Since, began)
	}
	key := gpu.AccountKey{Owner: train}
	want := []gpu.Holder{{AccountKey: key, Sharing: gpu.SharingNone}}
	if diff := cmp.Diff(want, snap.GPUs[0].Holders); diff != "" {
		t.Errorf("holders of the used GPU (-want +got):\n%s", diff)
	}
	want = []gpu.Holder{{AccountKey: key, Resource: "nvidia.com/gpu", Sharing: gpu.SharingExclusive, Replicas: 1}}
	if diff := cmp.Diff(want, snap.GPUs[1].Holders); diff != "" {
		t.Errorf("holders of the allocated GPU (-want +got):\n%s", diff)
	}
	p := snap.GPUs[0].Processes[0]
	if *p.SM != 0.9 || *p.Memory != 0.25 || *p.MemoryUsed != 1<<30 || p.Name != "python" {
		t.Errorf("process: %+v", p)
	}
	if got := snap.GPUs[0].Book.Accounts[0].Energy[gpu.Exclusive]; got != 200_000 {
		t.Errorf("container of the process was charged %d mJ, want 200000", got)
	}
	if got := snap.GPUs[1].Book.Accounts[0].Energy[gpu.Allocated]; got != 200_000 {
		t.Errorf("holder was charged %d mJ, want 200000", got)
	}
}

// The snapshot must contain the field page even if there are no readings.
func TestFieldPage(t *testing.T) {
	w := newWorld(t)
	w.fields = &gpu.FieldPage{Labels: []string{"a"}}
	s := w.sampler()
	for _, down := range []error{nil, errors.New("no driver")} {
		w.down = down
		if snap := w.ticks(s, 1); snap.Fields != w.fields || (len(snap.Drivers) == 0) != (down != nil) {
			t.Errorf("source error %v: page %v, drivers %v", down, snap.Fields, snap.Drivers)
		}
	}
}

// The machine's identity must stay known if it cannot be read again.
func TestNodeIdentity(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	w.ticks(s, 1)
	if err := os.RemoveAll(filepath.Join(w.root, "sys")); err != nil {
		t.Fatal(err)
	}
	if snap := w.ticks(w.sampler(), 1); snap.Node != (gpu.Node{Name: "node-1"}) {
		t.Errorf("node %+v, want its name only", snap.Node)
	}
	w.now += time.Minute
	if snap := w.ticks(s, 1); snap.Node.ProductSerial != "EX0042" || snap.PCIGPUs != nil || stageOf(snap, stage.DMI).Up {
		t.Errorf("node %+v, GPUs on PCI %v; want the identity kept and the GPUs unknown", snap.Node, snap.PCIGPUs)
	}
}

// The machine's identity is read every ten seconds instead of at every tick.
func TestHostEvery(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	w.ticks(s, 1)
	w.write("sys/class/dmi/id/product_serial", "EX0043\n")
	if got := w.ticks(s, 9).Node.ProductSerial; got != "EX0042" {
		t.Errorf("serial number after nine seconds is %s, want EX0042", got)
	}
	if got := w.ticks(s, 1).Node.ProductSerial; got != "EX0043" {
		t.Errorf("serial number after ten seconds is %s, want EX0043", got)
	}
}

// The ledger must accept an increase of the energy counter that corresponds to at most 1.5 times the GPU's maximum
// power. If the counter covers more than the GPU, the limit is 4.5 times the maximum power.
func TestEnergyScope(t *testing.T) {
	tests := []struct {
		scope gpu.EnergyScope
		most  gpu.Watts
		want  gpu.Millijoules
	}{
		{gpu.ScopeGPU, 50, 0},
		{gpu.ScopeGPU, 70, 200_000},
		{gpu.ScopeModule, 18, 0},
		{gpu.ScopeModule, 23, 200_000},
		{gpu.ScopeUnknown, 18, 0},
		{gpu.ScopeUnknown, 23, 200_000},
	}
	for _, tt := range tests {
		w := newWorld(t)
		w.devices[0].EnergyScope, w.devices[0].MaxPower = tt.scope, tt.most
		if got := w.ticks(w.sampler(), 3).GPUs[0].Book.Energy; got != tt.want {
			t.Errorf("scope %s, maximum power %v W: energy of the book %d mJ, want %d", tt.scope, tt.most, got, tt.want)
		}
	}
}

func TestInstances(t *testing.T) {
	w := newWorld(t)
	w.devices[0].Partitions = halves()
	w.runs(first, 42, train)
	w.runs(first, 43, serve)
	w.places = map[uint32]string{42: "1", 43: "2"}
	w.instances = []gpu.InstanceSample{{Instance: "1", SM: 0.5}, {Instance: "2", SM: 0.25}, {Instance: "1", SM: 0.25}}
	got := make(map[gpu.AccountKey]gpu.ByMethod)
	for _, a := range w.ticks(w.sampler(), 3).GPUs[0].Book.Accounts {
		got[a.AccountKey] = a.Energy
	}
	want := map[gpu.AccountKey]gpu.ByMethod{
		{GPUInstance: "1", Owner: train}: {gpu.Shared: 150_000},
		{GPUInstance: "2", Owner: serve}: {gpu.Shared: 50_000},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
}

// If the end of the exporter interrupts a read, the read must not count as a failure. No snapshot may contain its
// result.
func TestEndDuringARead(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	before := w.ticks(s, 1)
	ctx, end := context.WithCancel(t.Context())
	end()
	w.down = ctx.Err()
	s.Tick(ctx)
	w.down = nil
	if s.Latest() != before {
		t.Error("an interrupted read published a snapshot")
	}
	if snap := w.ticks(s, 1); len(snap.Drivers) != 1 {
		t.Errorf("drivers: %+v, want one", snap.Drivers)
	}
}

// If a GPU's energy comes from another counter after a restart, the difference between the two values must not be
// charged. If only the scope of the counter becomes more precise, the ledger must treat the counter as unchanged.
func TestAnotherCounter(t *testing.T) {
	type counter struct {
		source gpu.EnergySource
		scope  gpu.EnergyScope
	}
	power, own := counter{gpu.EnergyPower, gpu.ScopeUnknown}, counter{gpu.EnergyCounter, gpu.ScopeGPU}
	board, module := counter{gpu.EnergyCounter, gpu.ScopeUnknown}, counter{gpu.EnergyCounter, gpu.ScopeModule}
	tests := map[string]struct {
		before, after counter
		resets        uint64
	}{
		"power, then the board's counter":                      {power, board, 1},
		"the GPU's counter, then the board's counter":          {own, module, 1},
		"the board's counter, then with the scope of a module": {board, module, 0},
		"the same": {own, own, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := &w.devices[0]
			d.EnergySource, d.EnergyScope = tt.before.source, tt.before.scope
			s := w.sampler()
			w.ticks(s, 2)
			d.EnergySource, d.EnergyScope = tt.after.source, tt.after.scope
			if b := w.ticks(w.restarted(s), 2).GPUs[0].Book; b.Resets != tt.resets || b.Rejected != 0 {
				t.Errorf("%d resets, %d rejected; want %d, 0", b.Resets, b.Rejected, tt.resets)
			}
		})
	}
}

// While the driver of one vendor does not respond, its GPUs must stay present. The number of GPUs that the drivers list
// must be unknown.
func TestPartial(t *testing.T) {
	w := newWorld(t)
	w.devices[0].Vendor, w.devices[1].Vendor = "other", ""
	s := w.sampler()
	w.ticks(s, 2)
	w.devices, w.partial = w.devices[1:], true
	snap := w.ticks(s, 2)
	if len(snap.GPUs) != 2 || !snap.GPUs[0].Present || snap.GPUs[0].Reading != nil || snap.GPUs[1].Reading == nil || snap.DriverGPUs != nil {
		t.Errorf("GPUs %+v, want two present and one with a reading", snap.GPUs)
	}
}

// While the driver is down, a snapshot must contain identities and books, but no readings and no processes.
func TestDriverDown(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	s := w.sampler()
	before := w.ticks(s, 3)
	w.down = errors.New("driver not loaded")
	snap := w.ticks(s, 2)
	g := snap.GPUs[0]
	if len(snap.Drivers) > 0 || snap.DriverGPUs != nil || g.Reading != nil || len(g.Processes) != 0 {
		t.Errorf("snapshot %+v, want no driver, readings and processes", snap)
	}
	if g.Serial != "1320021000017" || !g.Present || g.Book.Energy != before.GPUs[0].Book.Energy || !g.LastReading.Equal(before.GPUs[0].LastReading) {
		t.Errorf("GPU %+v, want its identity, book and last reading kept", g)
	}
}

// A GPU without a reading must stay present and keep its counters.
func TestHungDevice(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	w.ticks(s, 3)
	w.hung[second] = true
	snap := w.ticks(s, 3)
	if g := snap.GPUs[1]; !g.Present || g.Reading != nil || g.Book.Energy != 200_000 {
		t.Errorf("hung GPU: %+v, want it present with 200000 mJ", g)
	}
	if g := snap.GPUs[0]; g.Book.Energy != 500_000 {
		t.Errorf("book of the other GPU: %+v, want 500000 mJ", g.Book)
	}
}
