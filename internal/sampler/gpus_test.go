package sampler_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A lost GPU must keep its identity until another GPU has its PCI address. Other GPUs must not change.
func TestLost(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	w.ticks(s, 2)
	w.xids = []gpu.DriverEvent{{UUID: second, Code: 79, At: w.instant().Wall}}
	all := w.devices
	w.devices = all[:1]
	lost := w.ticks(s, 3).GPUs[1]
	if lost.Present || lost.Serial != "1320021000034" || lost.Reading != nil || lost.Book == nil || lost.Events.Count != 1 || lost.Events.Losses != 1 {
		t.Errorf("lost GPU: %+v, want its identity, book and events", lost)
	}
	s = w.restarted(s)
	if s := w.ticks(s, 1); len(s.GPUs) != 2 || s.GPUs[1].Serial != "1320021000034" || s.GPUs[1].Events.Count != 1 || s.GPUs[1].Events.ByCode[79] != 1 || s.GPUs[1].Events.Losses != 1 {
		t.Errorf("GPUs after a restart: %+v, want the lost GPU", s.GPUs)
	}
	w.devices = all
	if g := w.ticks(s, 1).GPUs[1]; !g.Present || !g.Events.Reset.Equal(w.instant().Wall.Add(-time.Second)) || !g.Events.First[79].Before(g.Events.Reset) {
		t.Errorf("GPU after its return: %+v, want it present, with a reset now", g)
	}
	other := all[1]
	other.UUID, other.Serial = "GPU-5d2f9a60-0000-4000-8000-000000000003", "1320021000051"
	w.devices = []gpu.Device{all[0], other}
	if snap := w.ticks(s, 1); len(snap.GPUs) != 3 || snap.GPUs[1].Present || snap.GPUs[1].Book == nil {
		t.Errorf("GPUs right after the board was replaced: %+v, want three GPUs", snap.GPUs)
	}
	w.now += 6 * time.Minute
	if snap := w.ticks(s, 1); len(snap.GPUs) != 2 || snap.GPUs[1].Serial != "1320021000051" {
		t.Errorf("GPUs after the retention time: %+v, want two", snap.GPUs)
	}
}

// While a GPU of the same vendor is being opened, a GPU that the report omits must not count as lost. There are two
// exceptions: the source reports its loss, or another GPU has its PCI address.
func TestOmittedWhileOpening(t *testing.T) {
	tests := map[string]struct {
		change  func(r *gpu.Report, omitted gpu.Device)
		present bool
	}{
		"opened":               {func(*gpu.Report, gpu.Device) {}, true},
		"another vendor's GPU": {func(r *gpu.Report, _ gpu.Device) { r.Opening = []string{"other"} }, false},
		"reported as lost":     {func(r *gpu.Report, omitted gpu.Device) { r.Lost = []string{omitted.UUID} }, false},
		"another GPU is in place": {func(r *gpu.Report, omitted gpu.Device) {
			omitted.UUID = "GPU-5d2f9a60-0000-4000-8000-000000000003"
			r.Devices = append(r.Devices, omitted)
		}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.sampler()
			w.ticks(s, 1)
			w.report = &gpu.Report{Drivers: []gpu.Driver{{Name: "nvml"}}, Devices: slices.Clone(w.devices[:1]), Opening: []string{""}}
			tt.change(w.report, w.devices[1])
			snap := w.ticks(s, 2)
			listed := len(w.report.Devices)
			if tt.present {
				listed++
			}
			i := slices.IndexFunc(snap.GPUs, func(g gpu.GPU) bool { return g.UUID == second })
			if g := snap.GPUs[i]; g.Present != tt.present || (g.Events.Losses == 0) != tt.present || *snap.DriverGPUs != listed {
				t.Errorf("present %v, lost %d times, %d GPUs in the driver; want present %v, %d GPUs", g.Present, g.Events.Losses, *snap.DriverGPUs, tt.present, listed)
			}
		})
	}
}

// The silent time of a GPU must continue after a restart. It must not include the time without an exporter, the time
// without a driver, or the time before the end of a release or loss. A reading must end it.
func TestSilent(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	check := func(when string, ticks int, want time.Duration) {
		t.Helper()
		snap := w.ticks(s, ticks)
		if got := snap.GPUs[1].Silent; got != want || snap.GPUs[0].Silent != 0 {
			t.Errorf("%s the GPU is silent for %v, want %v; the other GPU for %v, want 0", when, got, want, snap.GPUs[0].Silent)
		}
	}
	check("at first", 2, 0)
	w.hung[second] = true
	check("after 100 ticks", 100, 100*time.Second)
	w.now += time.Hour
	s = w.restarted(s)
	check("after a restart", 1, 100*time.Second)
	check("after ten more ticks", 10, 110*time.Second)
	devices := w.devices
	w.down = errors.New("driver not loaded")
	w.ticks(s, 1)
	w.now += time.Hour
	w.ticks(s, 1)
	w.down = nil
	check("after an hour without a driver", 1, 111*time.Second)
	w.devices = slices.Clone(devices)
	w.devices[1].Released = true
	check("during a release", 10, 0)
	w.report = &gpu.Report{Drivers: []gpu.Driver{{Name: "nvml"}}, Devices: devices[:1], Opening: []string{""}}
	w.report.Readings = []gpu.Reading{{UUID: first, At: w.instant()}}
	check("while the first call after the release hangs", 4, 4*time.Second)
	w.report = nil
	w.devices = devices
	check("after the release", 3, 7*time.Second)
	w.devices = devices[:1]
	w.ticks(s, 10)
	w.devices = devices
	check("after a loss", 2, 2*time.Second)
	w.hung[second] = false
	check("after a reading", 1, 0)
	w.hung[second] = true
	w.now += time.Hour
	check("after an hour in which the exporter was frozen", 1, time.Minute)
}

// On a node with GPUs of two vendors, the silent time of a GPU must not include the time in which only the driver of the
// other vendor responds.
func TestSilentOfVendor(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	w.devices[1].Vendor = "other"
	w.hung[first], w.hung[second] = true, true
	drivers := []gpu.Driver{{Name: "nvml"}, {Vendor: "other", Name: "other"}}
	w.report = &gpu.Report{Drivers: drivers, Devices: w.devices}
	w.ticks(s, 11)
	w.report = &gpu.Report{Drivers: drivers[:1], Devices: w.devices[:1], Partial: true}
	snap := w.ticks(s, 20)
	if one, other := snap.GPUs[0].Silent, snap.GPUs[1].Silent; one != 30*time.Second || other != 10*time.Second {
		t.Errorf("the GPUs are silent for %v and %v, want 30s and 10s", one, other)
	}
}

// A restarted energy counter must count as one reset, even if the exporter restarts.
func TestReset(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	if g := w.ticks(s, 30).GPUs[0]; !g.Events.Reset.IsZero() {
		t.Errorf("a reset at %v, want none", g.Events.Reset)
	}
	w.loaded = w.now
	reset := w.instant().Wall
	at := w.ticks(s, 30).GPUs[0].Events.Reset
	if late := at.Sub(reset); late < 0 || late > 15*time.Second {
		t.Errorf("the reset at %v was recorded at %v", reset, at)
	}
	if again := w.ticks(w.restarted(s), 30).GPUs[0].Events.Reset; !again.Equal(at) {
		t.Errorf("after a restart the reset is at %v, want %v", again, at)
	}
}

// If a replaced GPU returns and is lost again, it must stay in the list.
func TestReplacedReturns(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	all := w.devices
	other := all[1]
	other.UUID = "GPU-5d2f9a60-0000-4000-8000-000000000003"
	for _, devices := range [][]gpu.Device{all, {all[0], other}, all, all[:1]} {
		w.devices = devices
		w.ticks(s, 1)
	}
	w.now += 6 * time.Minute
	if snap := w.ticks(s, 1); !slices.ContainsFunc(snap.GPUs, func(g gpu.GPU) bool { return g.UUID == second }) {
		t.Errorf("GPUs: %+v, want the lost GPU", snap.GPUs)
	}
}

// The book of a lost GPU must be published for the retention time. The book of a hung GPU must be published as long as
// the GPU hangs.
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
		t.Error("a book is missing within the retention time")
	}
	w.now += 2 * time.Minute
	snap := w.ticks(s, 1)
	if snap.GPUs[0].Book == nil || snap.GPUs[1].Book != nil || snap.GPUs[1].Serial == "" {
		t.Errorf("GPUs after the retention time: %+v, want only the book of the hung GPU", snap.GPUs)
	}
	w.devices = all
	if snap := w.ticks(s, 2); snap.GPUs[1].Book == nil || snap.GPUs[1].Book.Energy < 1_000_000 {
		t.Errorf("book after the GPU's return: %+v", snap.GPUs[1].Book)
	}
}

// After the retention time, the processes of a lost GPU must not count towards the process limit. If the GPU was
// replaced, its book must leave the state.
func TestLostGPUTakesNoRoom(t *testing.T) {
	w := newWorld(t)
	w.max = 1
	w.runs(second, 42, train)
	s := w.sampler()
	w.ticks(s, 3)
	all := w.devices
	w.devices = all[:1]
	w.runs(first, 43, serve)
	if snap := w.ticks(s, 3); !snap.GPUs[0].Book.Accounts[0].Processes[0].Folded || len(snap.GPUs[1].Book.Accounts[0].Processes) != 1 {
		t.Errorf("books within the retention time: %+v, %+v", snap.GPUs[0].Book, snap.GPUs[1].Book)
	}
	w.now += 6 * time.Minute
	snap := w.ticks(s, 3)
	if ps := snap.GPUs[0].Book.Accounts[0].Processes; len(ps) != 2 || ps[1].Folded {
		t.Errorf("processes after the retention time: %+v, want a second process that is not folded", ps)
	}
	other := all[1]
	other.UUID = "GPU-5d2f9a60-0000-4000-8000-000000000003"
	w.devices = []gpu.Device{all[0], other}
	w.ticks(s, 2)
	w.devices = []gpu.Device{all[0], all[1]} // the replaced GPU returns and gets a new book
	if b := w.ticks(s, 2).GPUs[1].Book; b == nil || b.Energy != 100_000 {
		t.Errorf("book of the returned GPU: %+v, want 100000 mJ", b)
	}
}

// Renamed must be the time at which a serial number was first reported or changed. If the driver stops reporting a
// serial number, the exporter must keep the last known number, even after a restart.
func TestSerials(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	tick := func(serial, chassis string) (g gpu.GPU, began time.Time) {
		w.devices[0].Serial, w.devices[0].Platform.ChassisSerial = serial, chassis
		began = w.instant().Wall
		return w.ticks(s, 1).GPUs[0], began
	}
	if g, _ := tick("", "N/A"); !g.Renamed.IsZero() {
		t.Errorf("new GPU: renamed at %v, want never", g.Renamed)
	}
	if g, at := tick("1320021000017", "N/A"); g.Serial != "1320021000017" || !g.Renamed.Equal(at) {
		t.Errorf("serial reported late: serial %q, renamed at %v, want %v", g.Serial, g.Renamed, at)
	}
	g, at := tick("1320021000017", "1820000000042")
	if !g.Renamed.Equal(at) {
		t.Errorf("chassis reported late: renamed at %v, want %v", g.Renamed, at)
	}
	forgotten := func(when string) {
		for _, serial := range []string{"", "N/A", "1320021000017"} {
			if g, _ := tick(serial, ""); g.Serial != "1320021000017" || g.Platform.ChassisSerial != "1820000000042" || !g.Renamed.Equal(at) {
				t.Errorf("%s, driver reports serial %q: got serial %q, chassis %q, renamed at %v, want no change", when, serial, g.Serial, g.Platform.ChassisSerial, g.Renamed)
			}
		}
	}
	forgotten("known before")
	s = w.restarted(s)
	forgotten("restarted")
	if g, at := tick("1320021000099", ""); g.Serial != "1320021000099" || !g.Renamed.Equal(at) {
		t.Errorf("serial changed: serial %q, renamed at %v, want %v", g.Serial, g.Renamed, at)
	}
}

// A GPU without a PCI address must not count as the replacement of another GPU.
func TestNoAddress(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	all := w.devices
	all[0].PCIBusID, all[1].PCIBusID = "", ""
	w.ticks(s, 2)
	w.devices = all[:1]
	w.now += 10 * time.Minute
	if snap := w.ticks(s, 2); len(snap.GPUs) != 2 {
		t.Errorf("GPUs: %+v, want two", snap.GPUs)
	}
}

// An exporter that takes over must keep the values that it has read itself. If the driver no longer reports a serial
// number, the exporter must use the number that the previous exporter read.
func TestHandedOver(t *testing.T) {
	w := newWorld(t)
	one, two := w.sampler(), w.sampler()
	w.ticks(one, 1)
	w.devices[0].Platform.ChassisSerial = "1820000000042"
	renamed := w.ticks(one, 1).GPUs[0].Renamed
	w.devices[0].Serial, w.devices[0].Platform.ChassisSerial, w.devices[0].Index = "", "N/A", 5
	w.ticks(two, 1)
	w.devices = w.devices[:1]
	if g := w.ticks(two, 1).GPUs[0]; g.Serial != "" {
		t.Fatalf("serial before the predecessor ended: %q, want none", g.Serial)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	w.down = errors.New("driver not loaded")
	snap := w.ticks(two, 1)
	if g := snap.GPUs[0]; g.Serial != "1320021000017" || g.Platform.ChassisSerial != "1820000000042" || g.Index != 5 {
		t.Errorf("after the takeover: serial %q, chassis %q, index %d, want index 5", g.Serial, g.Platform.ChassisSerial, g.Index)
	}
	if g := snap.GPUs[0]; renamed.IsZero() || !g.Renamed.Equal(renamed) {
		t.Errorf("after the takeover: renamed at %v, want %v", g.Renamed, renamed)
	}
	if snap.GPUs[1].Present {
		t.Error("the lost GPU is present after the takeover")
	}
}

func TestUnknownGPU(t *testing.T) {
	w := newWorld(t)
	w.xids = []gpu.DriverEvent{{UUID: "GPU-5d2f9a60-0000-4000-8000-000000000003", Code: 79, At: w.instant().Wall}}
	if got := len(w.ticks(w.sampler(), 1).GPUs); got != 2 {
		t.Errorf("%d GPUs, want 2", got)
	}
}

// A GPU that hangs while the exporter starts must not delay other GPUs. The holder of the other GPU must get and pay
// for every second.
func TestHungAtRestart(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	w.gives(first, train)
	s := w.sampler()
	w.ticks(s, 5)
	w.hung[second] = true
	snap := w.ticks(w.restarted(s), 20)
	b := snap.GPUs[0].Book
	if len(b.Accounts) != 1 || b.Accounts[0].Allocated != 24*time.Second || b.Accounts[0].Energy[gpu.Exclusive] != 2_400_000 {
		t.Errorf("book of the other GPU %+v, want 2400000 mJ, and 24 s for its holder", b)
	}
	if b := snap.GPUs[1].Book; b == nil || b.Energy != 400_000 {
		t.Errorf("book of the hung GPU %+v, want 400000 mJ as before", b)
	}
}

// Each error in the kernel's log must count once. There are four special errors: the driver also reports the first as
// an event, the second is older than the exporter, the third is of a GPU that was not listed yet, and the fourth is
// read again after a restart.
func TestKernelLog(t *testing.T) {
	w := newWorld(t)
	at := w.instant().Wall.Add(-10 * time.Minute)
	log := []gpu.KernelError{
		{Address: "0000:43:00", Code: 63, Sequence: 7, At: at},
		{Address: "0000:1b:00", Code: 31, Sequence: 9, At: at},
		{Address: "0000:99:00", Code: 79, Sequence: 11, At: at}, // of a GPU that no driver lists
	}
	w.kernelLog = slices.Clone(log)
	all := w.devices
	w.devices = all[:1]
	s := w.sampler()
	w.ticks(s, 2)
	w.devices = all
	w.xids = []gpu.DriverEvent{{UUID: second, Code: 79, At: w.instant().Wall}}
	w.kernelLog = []gpu.KernelError{{Address: "0000:43:00", Code: 79, Sequence: 12, At: w.instant().Wall}}
	log = append(log, w.kernelLog...)
	check := func(snap *gpu.Snapshot) {
		t.Helper()
		want := []map[uint64]uint64{{31: 1}, {63: 1, 79: 1}}
		for i, g := range snap.GPUs {
			if !maps.Equal(g.Events.ByCode, want[i]) || g.Events.Count != uint64(len(want[i])) || !g.Events.Since.Equal(at) {
				t.Errorf("GPU %d: %+v, want %v since %v", i, g.Events, want[i], at)
			}
		}
	}
	check(w.ticks(s, 2))
	w.kernelLog = log
	check(w.ticks(w.restarted(s), 2))
}
