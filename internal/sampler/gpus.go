package sampler

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A gpuList contains every GPU that was found since the boot. A lost GPU keeps its identity, because the operator needs
// the serial number to find the board.
type gpuList struct {
	entries map[string]entry // entries by UUID
	// keep is the time for which the book of a lost GPU is published.
	keep time.Duration
	// updated is the boot-clock time of the last update, or 0 before the first update.
	updated time.Duration
	// unplaced contains errors from the kernel's log for GPUs that no driver has listed yet.
	unplaced []gpu.KernelError
}

// An entry describes one GPU in the list. It is part of the saved state.
type entry struct {
	gpu.Device
	Present bool `json:"present"`
	// Lost is the boot-clock time at which the GPU was last lost, or 0 if it was never lost.
	Lost time.Duration `json:"lost,omitempty"`
	// Replaced is set after another GPU appeared at the PCI address of this GPU.
	Replaced    bool      `json:"replaced,omitempty"`
	LastReading time.Time `json:"last_reading"`
	// Silent is [gpu.GPU.Silent].
	Silent time.Duration `json:"silent,omitempty"`
	// Renamed is the time at which the serial number of the board or chassis became known or changed. It is zero if
	// neither number has changed since the GPU was first found.
	Renamed time.Time        `json:"renamed,omitzero"`
	Events  gpu.DriverEvents `json:"xids"`
	// Resets is the number of energy counter resets that Events.Reset already includes.
	Resets uint64 `json:"resets,omitempty"`
	// Counts is replaced as a whole, because copies of the entry share the map.
	Counts gpu.Counts `json:"counts,omitempty"`
	// CountsSince is the wall-clock time of the boot. It is computed at the first reading with counters.
	CountsSince time.Time `json:"counts_since,omitzero"`
}

func newGPUList(keep time.Duration) gpuList {
	return gpuList{entries: make(map[string]entry), keep: keep}
}

// restore adds the GPUs that an earlier exporter found since the boot. If the list already contains a GPU, restore adds
// the errors that the earlier exporter counted.
func (r *gpuList) restore(saved map[string]entry) {
	for uuid, old := range saved {
		e, known := r.entries[uuid]
		if !known {
			e = old
		}
		old.remember(&e.Device)
		if known {
			if e.LastReading.IsZero() {
				e.LastReading, e.Silent = old.LastReading, old.Silent+e.Silent
			}
			e.Counts = old.Counts.Continue(e.Counts)
			if !old.CountsSince.IsZero() {
				e.CountsSince = old.CountsSince
			}
		}
		e.Events, e.Renamed, e.Resets = old.Events, old.Renamed, old.Resets
		r.entries[uuid] = e
	}
}

// A GPU is lost if its driver does not list it, unless the exporter may still be opening it. It stays lost until it
// returns or another GPU appears at its PCI address.
func (r *gpuList) update(report gpu.Report, now gpu.Instant) {
	present := make(map[string]bool, len(report.Devices))
	taken := make(map[string]bool, len(report.Devices))
	for _, d := range report.Devices {
		present[d.UUID], taken[d.PCIBusID] = true, d.PCIBusID != ""
		e, known := r.entries[d.UUID]
		if !known {
			e.Events.Since = now.Wall
		}
		if known {
			if !e.Present {
				e.Events.Reset = now.Wall
			}
			e.remember(&d)
			if d.Serial != e.Serial || d.Platform.ChassisSerial != e.Platform.ChassisSerial {
				e.Renamed = now.Wall
			}
		}
		e.Device, e.Present, e.Replaced = d, true, false
		r.entries[d.UUID] = e
	}
	for uuid, e := range r.entries {
		if present[uuid] || !gpu.Responds(report.Drivers, e.Vendor) {
			continue
		}
		e.Released = false // the report contains released GPUs
		r.entries[uuid] = e
		if taken[e.PCIBusID] || !e.mayBeOpening(report) {
			r.markMissing(uuid, e, taken[e.PCIBusID], now)
		}
	}
	r.addSilence(report, now.Boot)
	for _, reading := range report.Readings {
		r.edit(reading.UUID, func(e *entry) { e.read(&reading) })
	}
}

// maxSilence limits the silent time that one update adds. It is longer than the longest tick. More time passes only if
// the exporter is stopped, for example in a frozen container.
const maxSilence = time.Minute

// addSilence adds the time since the last update to the silent time of each GPU whose driver responds.
func (r *gpuList) addSilence(report gpu.Report, now time.Duration) {
	var passed time.Duration
	if r.updated > 0 {
		passed = min(now-r.updated, maxSilence)
	}
	r.updated = now
	for uuid, e := range r.entries {
		switch {
		case !e.Present || e.Released:
			e.Silent = 0
		case gpu.Responds(report.Drivers, e.Vendor):
			e.Silent += passed
		}
		r.entries[uuid] = e
	}
}

func (r *gpuList) addEvents(events []gpu.DriverEvent) {
	for _, x := range events {
		r.edit(x.UUID, func(e *entry) { e.Events.Add(x) })
	}
}

// read records the time and the counters of a reading. All counters were 0 at the boot, because the driver starts to
// count when it is loaded. AMD GPUs that are connected to the processor by XGMI are an exception. They keep their error
// counts during a warm reset, and amdgpu adds these counts when it is loaded (Linux, amdgpu_persistent_edc_harvesting).
func (e *entry) read(reading *gpu.Reading) {
	e.LastReading, e.Silent, e.Counts = reading.At.Wall, 0, e.Counts.Plus(reading.Counters)
	if e.CountsSince.IsZero() && len(reading.Counters) > 0 {
		e.CountsSince = reading.At.Wall.Add(-reading.At.Boot)
	}
}

// addKernel keeps an error in unplaced until a driver lists its GPU.
func (r *gpuList) addKernel(errors []gpu.KernelError) {
	waiting := append(r.unplaced, errors...)
	r.unplaced = nil
	for _, x := range waiting {
		if uuid, ok := r.at(x.Address); ok {
			r.edit(uuid, func(e *entry) { e.Events.AddKernel(x) })
		} else if len(r.unplaced) < maxUnplaced {
			r.unplaced = append(r.unplaced, x)
		}
	}
}

const maxUnplaced = 1024

// The address has no function number. at skips replaced GPUs.
func (r *gpuList) at(address string) (uuid string, ok bool) {
	for uuid, e := range r.entries {
		place, _, _ := strings.Cut(e.PCIBusID, ".")
		if !e.Replaced && place != "" && strings.EqualFold(strings.TrimLeft(place, "0"), strings.TrimLeft(address, "0")) {
			return uuid, true
		}
	}
	return "", false
}

func (r *gpuList) reset(uuid string, resets uint64, now gpu.Instant) {
	r.edit(uuid, func(e *entry) {
		if resets > e.Resets {
			e.Events.Reset = now.Wall
		}
		e.Resets = resets
	})
}

// mayBeOpening reports whether the exporter may still be opening a present GPU that the report omits. The exporter opens
// all GPUs after a restart of the exporter or driver, and when the number of GPUs changes. The first call for a GPU can
// take longer than a tick. Until it returns, the GPU can be any omitted GPU of its vendor, because indices change.
func (e *entry) mayBeOpening(report gpu.Report) bool {
	return e.Present && slices.Contains(report.Opening, e.Vendor) && !slices.Contains(report.Lost, e.UUID)
}

// countOpening returns the number of present GPUs that a report omits because the exporter is still opening them. It
// may be lower than the number of omitted GPUs, because some of them may be lost.
func (r *gpuList) countOpening(report gpu.Report) int {
	opening := slices.Clone(report.Opening)
	for uuid, e := range r.entries {
		i := slices.Index(opening, e.Vendor)
		if i >= 0 && e.Present && !slices.ContainsFunc(report.Devices, func(d gpu.Device) bool { return d.UUID == uuid }) {
			opening = slices.Delete(opening, i, i+1)
		}
	}
	return len(report.Opening) - len(opening)
}

// remember adds the last known serial number of the board or chassis if the driver does not report it now. A driver
// that was just loaded may not report it yet, but a label of counters must not disappear.
func (e *entry) remember(d *gpu.Device) {
	if gpu.Identity(d.Serial) == "" {
		d.Serial = e.Serial
	}
	if gpu.Identity(d.Platform.ChassisSerial) == "" {
		d.Platform.ChassisSerial = e.Platform.ChassisSerial
	}
}

// A replaced GPU leaves the list when its book is no longer published.
func (r *gpuList) markMissing(uuid string, e entry, replaced bool, now gpu.Instant) {
	if e.Present {
		e.Present, e.Lost = false, now.Boot
		e.Events.Losses++
	}
	e.Replaced = e.Replaced || replaced
	r.entries[uuid] = e
	if e.Replaced && !r.showsBook(e, now) {
		delete(r.entries, uuid)
	}
}

// The book of a lost GPU is published for the retention time.
func (r *gpuList) showsBook(e entry, now gpu.Instant) bool {
	return e.Present || now.Boot-e.Lost <= r.keep
}

func (r *gpuList) edit(uuid string, change func(*entry)) {
	if e, known := r.entries[uuid]; known {
		change(&e)
		r.entries[uuid] = e
	}
}

// Present GPUs come first, because a lost GPU may have the same index or minor number.
func (r *gpuList) devices() devices {
	var present, lost devices
	for _, uuid := range slices.Sorted(maps.Keys(r.entries)) {
		if e := r.entries[uuid]; e.Present {
			present = append(present, e.Device)
		} else {
			lost = append(lost, e.Device)
		}
	}
	return append(present, lost...)
}

func (r *gpuList) device(uuid string) gpu.Device { return r.entries[uuid].Device }
