package sampler

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A gpuList holds every GPU seen in this boot. Identity outlives presence: when a
// board has died, its serial number is what its operator needs.
type gpuList struct {
	entries map[string]entry // by UUID
	// keep is how long the book of a lost GPU is shown.
	keep time.Duration
}

// An entry is one GPU of the list. It is part of the saved state.
type entry struct {
	gpu.Device
	Present bool `json:"present"`
	// Lost is when the GPU was last missed first, on the boot clock.
	Lost time.Duration `json:"lost,omitempty"`
	// Replaced is set once another GPU answers at this one's PCI address.
	Replaced    bool      `json:"replaced,omitempty"`
	LastReading time.Time `json:"last_reading"`
	// Renamed is when a serial number was learnt or changed, zero if at first sight.
	Renamed time.Time        `json:"renamed,omitzero"`
	XIDs    gpu.DriverEvents `json:"xids"`
}

func newGPUList(keep time.Duration) gpuList {
	return gpuList{entries: make(map[string]entry), keep: keep}
}

// restore takes over what an earlier exporter knew of this boot's GPUs: those that
// are unknown here, and the errors counted so far of those that are not.
func (r *gpuList) restore(saved map[string]entry) {
	for uuid, old := range saved {
		e, known := r.entries[uuid]
		if !known {
			e = old
		}
		old.remember(&e.Device)
		e.XIDs, e.Renamed = old.XIDs, old.Renamed
		r.entries[uuid] = e
	}
}

// update notes which GPUs are present. One that its vendor's driver does not list stays as
// lost until it returns, or until another GPU answers at its PCI address.
func (r *gpuList) update(report gpu.Report, now gpu.Instant) {
	present := make(map[string]bool, len(report.Devices))
	taken := make(map[string]bool, len(report.Devices))
	for _, d := range report.Devices {
		present[d.UUID], taken[d.PCIBusID] = true, d.PCIBusID != ""
		e, known := r.entries[d.UUID]
		if !known {
			e.XIDs.Since = now.Wall
		}
		if known {
			e.remember(&d)
			if d.Serial != e.Serial || d.Platform.ChassisSerial != e.Platform.ChassisSerial {
				e.Renamed = now.Wall
			}
		}
		e.Device, e.Present, e.Replaced = d, true, false
		r.entries[d.UUID] = e
	}
	for uuid, e := range r.entries {
		if !present[uuid] && answers(report.Drivers, e.Vendor) {
			r.markMissing(uuid, e, taken[e.PCIBusID], now)
		}
	}
	for _, reading := range report.Readings {
		r.edit(reading.UUID, func(e *entry) { e.LastReading = reading.At.Wall })
	}
	for _, x := range report.Events {
		r.edit(x.UUID, func(e *entry) { e.XIDs.Add(x) })
	}
}

// answers reports whether the driver of a vendor is one of those that answered.
func answers(drivers []gpu.Driver, vendor string) bool {
	return slices.ContainsFunc(drivers, func(d gpu.Driver) bool { return d.Vendor == vendor })
}

// remember fills in serial numbers that were known and could not be read this time:
// after the driver is loaded again, it may not tell at once. They are the board's and
// the chassis's, and label counters.
func (e *entry) remember(d *gpu.Device) {
	if gpu.Identity(d.Serial) == "" {
		d.Serial = e.Serial
	}
	if gpu.Identity(d.Platform.ChassisSerial) == "" {
		d.Platform.ChassisSerial = e.Platform.ChassisSerial
	}
}

// markMissing notes that a GPU is not there. Once it is replaced it is forgotten, but not
// before its book was shown for long enough.
func (r *gpuList) markMissing(uuid string, e entry, replaced bool, now gpu.Instant) {
	if e.Present {
		e.Present, e.Lost = false, now.Boot
		e.XIDs.Losses++
	}
	e.Replaced = e.Replaced || replaced
	r.entries[uuid] = e
	if e.Replaced && !r.showsBook(e, now) {
		delete(r.entries, uuid)
	}
}

// showsBook reports whether the book of a GPU is shown: while the GPU is there, and
// for the retention time after it was lost.
func (r *gpuList) showsBook(e entry, now gpu.Instant) bool {
	return e.Present || now.Boot-e.Lost <= r.keep
}

// edit changes the entry of a known GPU.
func (r *gpuList) edit(uuid string, change func(*entry)) {
	if e, known := r.entries[uuid]; known {
		change(&e)
		r.entries[uuid] = e
	}
}

// devices lists all GPUs, those present first: an index or a minor number of a lost
// GPU may be another one's by now.
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
