package sampler_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/host"
	"github.com/gpuledger/gpuledger/internal/ledger"
	"github.com/gpuledger/gpuledger/internal/sampler"
	"github.com/gpuledger/gpuledger/internal/stage"
)

const (
	first  = "GPU-5d2f9a60-0000-4000-8000-000000000001"
	second = "GPU-5d2f9a60-0000-4000-8000-000000000002"
)

var train = gpu.Container{Namespace: "ml", Pod: "train-0", PodUID: "uid-train", Container: "main"}

// world is everything a sampler looks at: both its source and its mapper. Each of
// its GPUs draws 100 W.
type world struct {
	t           *testing.T
	root        string
	now         time.Duration
	devices     []gpu.Device
	hung        map[string]bool
	processes   map[uint32]gpu.Process // alive
	owners      map[gpu.ProcessID]gpu.Owner
	contexts    map[string][]uint32
	samples     map[string][]gpu.Sample
	still       bool            // the samples tell nothing new
	mps         map[uint32]bool // clients of MPS
	allocations gpu.Allocations
	xids        []gpu.XID
	down        error
	private     bool // a PID namespace of its own
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, root: t.TempDir(), now: time.Hour, hung: map[string]bool{},
		processes: map[uint32]gpu.Process{}, owners: map[gpu.ProcessID]gpu.Owner{}, contexts: map[string][]uint32{}, samples: map[string][]gpu.Sample{},
		allocations: gpu.Allocations{Known: true},
	}
	for i, uuid := range []string{first, second} {
		w.devices = append(w.devices, gpu.Device{
			UUID: uuid, Index: i, PCIBusID: []string{"00000000:1B:00.0", "00000000:43:00.0"}[i],
			Serial: []string{"1320021000017", "1320021000034"}[i], MaxPower: 700,
			EnergySource: gpu.EnergyCounter, EnergyScope: gpu.ScopeGPU,
		})
	}
	w.write("proc/sys/kernel/random/boot_id", "boot-1\n")
	w.write("sys/class/dmi/id/product_serial", "EX0042\n")
	w.write("sys/bus/pci/devices/0000:1b:00.0/vendor", "0x10de\n")
	w.write("sys/bus/pci/devices/0000:1b:00.0/class", "0x030200\n")
	return w
}

func (w *world) write(name, content string) {
	path := filepath.Join(w.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) instant() gpu.Instant {
	return gpu.Instant{Wall: time.Unix(1_800_000_000, 0).Add(w.now), Boot: w.now}
}

func (w *world) Read(context.Context) (gpu.Report, error) {
	if w.down != nil {
		return gpu.Report{}, w.down
	}
	r := gpu.Report{Driver: gpu.Driver{Source: "nvml"}, Devices: w.devices, XIDs: w.xids}
	w.xids = nil
	for _, d := range w.devices {
		if w.hung[d.UUID] {
			continue
		}
		reading := gpu.Reading{
			UUID: d.UUID, At: w.instant(), Energy: new(gpu.Millijoules(w.now.Milliseconds() * 100)),
			Utilization: new(1.0), ContextsKnown: true, Samples: w.samples[d.UUID], SamplesKnown: true,
		}
		for _, pid := range w.contexts[d.UUID] {
			reading.Contexts = append(reading.Contexts, gpu.Context{PID: pid, MPS: w.mps[pid], MemoryUsed: new(uint64(1 << 30))})
		}
		reading.Sampled = gpu.Span{From: reading.At.Boot - time.Second, To: reading.At.Boot}
		if w.still {
			reading.Sampled.To, reading.Samples = reading.Sampled.From, nil
		}
		for i := range reading.Samples {
			reading.Samples[i].Span = reading.Sampled
		}
		r.Readings = append(r.Readings, reading)
	}
	return r, nil
}

func (w *world) Process(pid uint32) (gpu.Process, bool) {
	p, alive := w.processes[pid]
	return p, alive
}

func (w *world) Owner(id gpu.ProcessID) gpu.Owner { return w.owners[id] }

func (w *world) Allocations() gpu.Allocations { return w.allocations }

func (w *world) SeesHost() bool { return !w.private }

// runs puts a process of a container on a GPU.
func (w *world) runs(uuid string, pid uint32, c gpu.Container) {
	w.processes[pid] = gpu.Process{
		ID: gpu.ProcessID{PID: pid, Start: 7}, Name: "python", Owner: gpu.Owner{Kind: gpu.OwnerContainer, Container: c},
	}
	w.owners[w.processes[pid].ID] = w.processes[pid].Owner
	w.contexts[uuid] = append(w.contexts[uuid], pid)
}

func (w *world) sampler() *sampler.Sampler {
	log := slog.New(slog.DiscardHandler)
	return sampler.New(sampler.Config{
		Source: w, Mapper: w, NodeName: "node-1",
		Host:      host.Host{ProcFS: filepath.Join(w.root, "proc"), SysFS: filepath.Join(w.root, "sys")},
		StatePath: filepath.Join(w.root, "state"),
		Ledger:    ledger.Config{Tick: time.Second, Retention: 5 * time.Minute, MaxProcesses: 100},
		Now:       w.instant, Stages: stage.New(log, w.instant),
	})
}

// ticks lets seconds pass, one tick each, and returns the last snapshot.
func (w *world) ticks(s *sampler.Sampler, n int) *gpu.Snapshot {
	w.t.Helper()
	for range n {
		s.Tick(w.t.Context())
		w.now += time.Second
	}
	snap := s.Latest()
	for _, g := range snap.GPUs {
		if g.Book != nil && g.Book.Energy != g.Book.Sum() {
			w.t.Fatalf("%s is out of balance: %+v", g.UUID, g.Book)
		}
	}
	return snap
}

func stageOf(s *gpu.Snapshot, name stage.Name) gpu.Stage {
	for _, st := range s.Stages {
		if st.Name == string(name) {
			return st
		}
	}
	return gpu.Stage{}
}

func TestSnapshot(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	w.samples[first] = []gpu.Sample{{PID: 42, SM: 0.9, Memory: 0.25}}
	w.allocations.List = []gpu.Allocation{{
		Device: gpu.DeviceName{UUID: second}, Container: train, Resource: "nvidia.com/gpu", Sharing: gpu.SharingExclusive, Replicas: 1, Live: true,
	}}
	snap := w.ticks(w.sampler(), 3)
	if *snap.PCIGPUs != 1 || *snap.DriverGPUs != 2 || snap.Node.ProductSerial != "EX0042" || snap.Node.Name != "node-1" {
		t.Errorf("node: %+v, %d on PCI, %d in the driver", snap.Node, *snap.PCIGPUs, *snap.DriverGPUs)
	}
	key := gpu.AccountKey{Container: train}
	want := []gpu.Holder{{AccountKey: key, Sharing: gpu.SharingNone}}
	if diff := cmp.Diff(want, snap.GPUs[0].Holders); diff != "" {
		t.Errorf("uses without holding (-want +got):\n%s", diff)
	}
	want = []gpu.Holder{{AccountKey: key, Resource: "nvidia.com/gpu", Sharing: gpu.SharingExclusive, Replicas: 1}}
	if diff := cmp.Diff(want, snap.GPUs[1].Holders); diff != "" {
		t.Errorf("holds without using (-want +got):\n%s", diff)
	}
	p := snap.GPUs[0].Processes[0]
	if *p.SM != 0.9 || *p.Memory != 0.25 || *p.MemoryUsed != 1<<30 || p.Name != "python" {
		t.Errorf("process: %+v", p)
	}
	if got := snap.GPUs[0].Book.Containers[0].Energy[gpu.Exclusive]; got != 200_000 {
		t.Errorf("the process's container was charged %d mJ, want 200000", got)
	}
	if got := snap.GPUs[1].Book.Containers[0].Energy[gpu.Allocated]; got != 200_000 {
		t.Errorf("the holder was charged %d mJ, want 200000", got)
	}
}

// TestNothingNew: a process did not rest because the driver has nothing new to say of
// it.
func TestNothingNew(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	s := w.sampler()
	w.ticks(s, 2)
	w.still = true
	if p := w.ticks(s, 1).GPUs[0].Processes[0]; p.SM != nil || p.Memory != nil {
		t.Errorf("process: %+v", p)
	}
}

// TestLost: a GPU that is gone keeps its identity until another answers in its
// place, and the others are not touched.
func TestLost(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	w.ticks(s, 2)
	w.xids = []gpu.XID{{UUID: second, Code: 79, At: w.instant().Wall}}
	all := w.devices
	w.devices = all[:1]
	lost := w.ticks(s, 3).GPUs[1]
	if lost.Present || lost.Serial != "1320021000034" || lost.Reading != nil || lost.Book == nil || lost.XIDs.Count != 1 {
		t.Errorf("lost GPU: %+v", lost)
	}
	s = w.restarted(s)
	if s := w.ticks(s, 1); len(s.GPUs) != 2 || s.GPUs[1].Serial != "1320021000034" || s.GPUs[1].XIDs.Count != 1 {
		t.Errorf("after a restart: %+v", s.GPUs)
	}
	w.devices = all
	if g := w.ticks(s, 1).GPUs[1]; !g.Present {
		t.Errorf("returned, but: %+v", g)
	}
	other := all[1]
	other.UUID, other.Serial = "GPU-5d2f9a60-0000-4000-8000-000000000003", "1320021000051"
	w.devices = []gpu.Device{all[0], other}
	if snap := w.ticks(s, 1); len(snap.GPUs) != 3 || snap.GPUs[1].Present || snap.GPUs[1].Book == nil {
		t.Errorf("right after the board was replaced: %+v", snap.GPUs)
	}
	w.now += 6 * time.Minute
	if snap := w.ticks(s, 1); len(snap.GPUs) != 2 || snap.GPUs[1].Serial != "1320021000051" {
		t.Errorf("after the retention time: %+v", snap.GPUs)
	}
}

// TestRetention: the book of a lost GPU is shown for the retention time, that of a
// GPU that only hangs for as long as it does.
func TestRetention(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	all := w.devices
	w.ticks(s, 2)
	w.hung[first] = true
	w.devices = all[:1]
	w.ticks(s, 1)
	w.now += 4 * time.Minute
	if snap := w.ticks(s, 1); snap.GPUs[0].Book == nil || snap.GPUs[1].Book == nil {
		t.Error("a book is hidden within the retention time")
	}
	w.now += 2 * time.Minute
	snap := w.ticks(s, 1)
	if snap.GPUs[0].Book == nil || snap.GPUs[1].Book != nil || snap.GPUs[1].Serial == "" {
		t.Errorf("after the retention time: %+v", snap.GPUs)
	}
	w.devices = all
	if snap := w.ticks(s, 2); snap.GPUs[1].Book == nil || snap.GPUs[1].Book.Energy < 1_000_000 {
		t.Errorf("the GPU came back: %+v", snap.GPUs[1].Book)
	}
}

// TestSerials: a serial number that is learnt late, or changes, is news and says when;
// one that is not told any more is kept, also by the next exporter.
func TestSerials(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	tick := func(serial, chassis string) (g gpu.GPU, began time.Time) {
		w.devices[0].Serial, w.devices[0].Platform.ChassisSerial = serial, chassis
		began = w.instant().Wall
		return w.ticks(s, 1).GPUs[0], began
	}
	if g, _ := tick("", "N/A"); !g.Renamed.IsZero() {
		t.Errorf("at first sight: renamed at %v", g.Renamed)
	}
	if g, at := tick("1320021000017", "N/A"); g.Serial != "1320021000017" || !g.Renamed.Equal(at) {
		t.Errorf("learnt: serial %q, renamed at %v, want %v", g.Serial, g.Renamed, at)
	}
	g, at := tick("1320021000017", "1820000000042")
	if !g.Renamed.Equal(at) {
		t.Errorf("the chassis learnt: renamed at %v, want %v", g.Renamed, at)
	}
	forgotten := func(when string) {
		for _, serial := range []string{"", "N/A", "1320021000017"} {
			if g, _ := tick(serial, ""); g.Serial != "1320021000017" || g.Platform.ChassisSerial != "1820000000042" || !g.Renamed.Equal(at) {
				t.Errorf("%s, the driver says %q: serial %q, chassis %q, renamed at %v", when, serial, g.Serial, g.Platform.ChassisSerial, g.Renamed)
			}
		}
	}
	forgotten("known before")
	s = w.restarted(s)
	forgotten("restarted")
	if g, at := tick("1320021000099", ""); g.Serial != "1320021000099" || !g.Renamed.Equal(at) {
		t.Errorf("changed: serial %q, renamed at %v, want %v", g.Serial, g.Renamed, at)
	}
}

// TestNoAddress: a GPU without a PCI address replaces nobody.
func TestNoAddress(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	all := w.devices
	all[0].PCIBusID, all[1].PCIBusID = "", ""
	w.ticks(s, 2)
	w.devices = all[:1]
	w.now += 10 * time.Minute
	if snap := w.ticks(s, 2); len(snap.GPUs) != 2 {
		t.Errorf("GPUs: %+v", snap.GPUs)
	}
}

// restarted returns a sampler that follows s, whose state directory is freed as it
// is when a process ends.
// TestRestart: the books go on.
// TestTwoExporters: the second one shows the GPUs and charges nothing, until the
// first one ends. Then it goes on where that one was.
// TestUnwritable: without a state directory the exporter charges all the same.
// TestLateDirectory: a good file that cannot be opened at once is continued.
// TestStateRemoved: if somebody removes the directory, it is made and taken again.
// If it is another exporter's by then, this one charges no more.
// TestNodeIdentity: what was read of the machine stays if it cannot be read again.
func TestNodeIdentity(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	w.ticks(s, 1)
	if err := os.RemoveAll(filepath.Join(w.root, "sys")); err != nil {
		t.Fatal(err)
	}
	w.now += time.Minute
	if snap := w.ticks(s, 1); snap.Node.ProductSerial != "EX0042" || snap.PCIGPUs != nil || stageOf(snap, stage.DMI).Up {
		t.Errorf("node %+v, GPUs on PCI %v", snap.Node, snap.PCIGPUs)
	}
}

// TestHostEvery: the machine itself is read again after ten seconds, and not at
// every tick.
func TestHostEvery(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	w.ticks(s, 1)
	w.write("sys/class/dmi/id/product_serial", "EX0043\n")
	if got := w.ticks(s, 9).Node.ProductSerial; got != "EX0042" {
		t.Errorf("the serial number is %s after nine seconds, want EX0042", got)
	}
	if got := w.ticks(s, 1).Node.ProductSerial; got != "EX0043" {
		t.Errorf("the serial number is %s after ten seconds, want EX0043", got)
	}
}

// TestEnergyScope: a counter that covers more than its GPU may count three times
// what the GPU can draw.
func TestEnergyScope(t *testing.T) {
	want := map[gpu.EnergyScope]gpu.Millijoules{gpu.ScopeGPU: 0, gpu.ScopeModule: 200_000, gpu.ScopeUnknown: 200_000}
	for scope, want := range want {
		w := newWorld(t)
		w.devices[0].EnergyScope, w.devices[0].MaxPower = scope, 50
		if got := w.ticks(w.sampler(), 3).GPUs[0].Book.Energy; got != want {
			t.Errorf("scope %s: the book says %d mJ, want %d", scope, got, want)
		}
	}
}

// TestDeadHolder: an allocation of a pod that is not known, or not known to live,
// makes no holder.
func TestDeadHolder(t *testing.T) {
	w := newWorld(t)
	unknown := train
	unknown.PodUID = ""
	w.allocations.List = []gpu.Allocation{
		{UUID: first, Container: train, Sharing: gpu.SharingExclusive, Replicas: 1},
		{UUID: first, Container: unknown, Sharing: gpu.SharingExclusive, Replicas: 1, Live: true},
	}
	if got := w.ticks(w.sampler(), 1).GPUs[0].Holders; len(got) != 0 {
		t.Errorf("holders: %+v", got)
	}
}

// TestLateOwner: a process is shown with the latest word on whose it is.
func TestLateOwner(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	p := w.processes[42]
	p.Owner = gpu.Owner{}
	w.processes[42] = p
	if got := w.ticks(w.sampler(), 1).GPUs[0].Processes[0].Owner; got != w.owners[p.ID] {
		t.Errorf("owner %+v, want %+v", got, w.owners[p.ID])
	}
}

// TestSaveBeforePublish: what a restart would not find is never shown. The state
// file is made into a folder that can be neither replaced nor removed.
// TestCorruptState: a file that cannot be continued means clean books.
// TestDriverDown: nothing live is shown, and nothing is forgotten.
func TestDriverDown(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	s := w.sampler()
	before := w.ticks(s, 3)
	w.down = errors.New("driver not loaded")
	snap := w.ticks(s, 2)
	g := snap.GPUs[0]
	if snap.Driver != nil || snap.DriverGPUs != nil || g.Reading != nil || len(g.Processes) != 0 || stageOf(snap, stage.Driver).Up {
		t.Errorf("shows a driver that is down: %+v", snap)
	}
	if g.Serial != "1320021000017" || !g.Present || g.Book.Energy != before.GPUs[0].Book.Energy || !g.LastReading.Equal(before.GPUs[0].LastReading) {
		t.Errorf("forgot a GPU: %+v", g)
	}
}

// TestHungDevice: a GPU without a reading stays present, and its counters stand.
func TestHungDevice(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	w.ticks(s, 3)
	w.hung[second] = true
	snap := w.ticks(s, 3)
	if g := snap.GPUs[1]; !g.Present || g.Reading != nil || g.Book.Energy != 200_000 {
		t.Errorf("hung GPU: %+v", g)
	}
	if g := snap.GPUs[0]; g.Book.Energy != 500_000 {
		t.Errorf("the other GPU: %+v", g.Book)
	}
}

// TestVanished: a process that ended is known from before; one that nobody saw
// alive is unmapped.
func TestVanished(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	s := w.sampler()
	w.ticks(s, 2)
	ended := w.processes[42]
	w.contexts[first], w.processes = nil, map[uint32]gpu.Process{}
	w.samples[first] = []gpu.Sample{{PID: 42, SM: 1}}
	w.samples[second] = []gpu.Sample{{PID: 43, SM: 1}}
	snap := w.ticks(s, 1)
	if got := snap.GPUs[0].Book.Containers[0].Energy[gpu.Exclusive]; got != 200_000 {
		t.Errorf("the ended process %+v was charged %d mJ, want 200000", ended, got)
	}
	if got := snap.GPUs[1].Book.Unattributed[gpu.Unmapped]; got != 100_000 {
		t.Errorf("the unknown process was charged %d mJ, want 100000", got)
	}
}

// TestMemory: a process that ended is remembered for a minute, longer than the
// driver may go on naming it.
func TestMemory(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	s := w.sampler()
	w.ticks(s, 1)
	w.contexts[first], w.processes = nil, map[uint32]gpu.Process{}
	w.ticks(s, 59)
	w.samples[first] = []gpu.Sample{{PID: 42, SM: 1}}
	book := w.ticks(s, 2).GPUs[0].Book
	if got := book.Containers[0].Energy[gpu.Exclusive]; got != 300_000 || book.Unattributed[gpu.Unmapped] != 0 {
		t.Errorf("its container was charged %d mJ, want 300000: %+v", got, book)
	}
	if got := w.ticks(s, 1).GPUs[0].Book.Unattributed[gpu.Unmapped]; got != 100_000 {
		t.Errorf("after a minute %d mJ are unmapped, want 100000", got)
	}
}

// TestReusedPID: samples are of the past, so they mean the process that was on the
// GPU rather than one that got its PID since, until that one is there itself.
func TestReusedPID(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	s := w.sampler()
	w.ticks(s, 1)
	other := gpu.Process{ID: gpu.ProcessID{PID: 42, Start: 8}, Owner: gpu.Owner{Kind: gpu.OwnerHost}}
	w.contexts[first], w.processes[42], w.owners[other.ID] = nil, other, other.Owner
	w.ticks(s, 1)
	w.samples[first] = []gpu.Sample{{PID: 42, SM: 1}}
	book := w.ticks(s, 1).GPUs[0].Book
	if got := book.Containers[0].Energy[gpu.Exclusive]; got != 200_000 {
		t.Errorf("the process that was on the GPU was charged %d mJ, want 200000: %+v", got, book)
	}
	w.contexts[first] = []uint32{42}
	if got := w.ticks(s, 1).GPUs[0].Book.Unattributed[gpu.Host]; got != 100_000 {
		t.Errorf("the process that is on it was charged %d mJ, want 100000", got)
	}
}

// TestReusedPIDLater: a process that left long before a sample is not meant if another one
// has its PID.
func TestReusedPIDLater(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	s := w.sampler()
	w.ticks(s, 2)
	other := gpu.Process{ID: gpu.ProcessID{PID: 42, Start: 8}, Owner: gpu.Owner{Kind: gpu.OwnerHost}}
	w.contexts[first], w.processes[42], w.owners[other.ID] = nil, other, other.Owner
	w.ticks(s, 20)
	w.samples[first] = []gpu.Sample{{PID: 42, SM: 1}}
	if book := w.ticks(s, 1).GPUs[0].Book; book.Unattributed[gpu.Host] != 100_000 {
		t.Errorf("the process that has the PID was charged %d mJ, want 100000: %+v", book.Unattributed[gpu.Host], book)
	}
}

// TestMPS: the server is no owner while a client is there, and its samples are no
// signal of anybody's activity.
func TestMPS(t *testing.T) {
	w := newWorld(t)
	w.gives(first, train)
	w.gives(first, serve)
	w.allocations.List[0].Replicas = 2
	w.runs(first, 42, train)
	w.runs(first, 43, serve)
	w.mps = map[uint32]bool{42: true, 43: true}
	server := gpu.Process{ID: gpu.ProcessID{PID: 9, Start: 7}, Name: "nvidia-cuda-mps", Owner: gpu.Owner{Kind: gpu.OwnerHost}}
	w.processes[9], w.owners[server.ID] = server, server.Owner
	w.contexts[first] = append(w.contexts[first], 9)
	w.samples[first] = []gpu.Sample{{PID: 9, SM: 1}}
	s := w.sampler()
	b := w.ticks(s, 4).GPUs[0].Book
	if b.Containers[0].Energy != (gpu.ByMethod{gpu.Allocated: 200_001}) || b.Containers[1].Energy != (gpu.ByMethod{gpu.Allocated: 99_999}) {
		t.Errorf("clients: %+v", b.Containers)
	}
	w.contexts[first], w.mps = []uint32{9}, nil
	w.ticks(s, 1)
	if b := w.ticks(s, 2).GPUs[0].Book; b.Unattributed[gpu.Host] != 300_000 {
		t.Errorf("the server alone: %+v", b)
	}
}
