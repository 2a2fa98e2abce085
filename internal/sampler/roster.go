package sampler

import (
	"maps"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A roster lists every GPU seen in this boot. Identity outlives presence: when a
// board has died, its serial number is what its operator needs.
type roster struct {
	entries map[string]entry // by UUID
}

// An entry is one GPU of the roster. It is part of the saved state.
type entry struct {
	gpu.Device
	Present     bool      `json:"present"`
	LastReading time.Time `json:"last_reading"`
	XIDs        xids      `json:"xids"`
}

type xids gpu.XIDs

func (x xids) clone() gpu.XIDs {
	x.Last = maps.Clone(x.Last)
	return gpu.XIDs(x)
}

func newRoster() roster { return roster{entries: make(map[string]entry)} }

// restore takes over the GPUs that an earlier exporter saw in this boot.
func (r *roster) restore(saved map[string]entry) {
	for uuid, e := range saved {
		if _, known := r.entries[uuid]; !known {
			r.entries[uuid] = e
		}
	}
}

// update notes which GPUs are present. One that is missing stays as lost until it
// returns, or until another GPU answers at its PCI address.
func (r *roster) update(report gpu.Report, now gpu.Instant) {
	present := make(map[string]bool, len(report.Devices))
	address := make(map[string]string, len(report.Devices))
	for _, d := range report.Devices {
		present[d.UUID], address[d.PCIBusID] = true, d.UUID
		e, known := r.entries[d.UUID]
		if !known {
			e.XIDs.Since = now.Wall
		}
		e.Device, e.Present = d, true
		r.entries[d.UUID] = e
	}
	for uuid, e := range r.entries {
		if present[uuid] {
			continue
		}
		if address[e.PCIBusID] != "" {
			delete(r.entries, uuid)
			continue
		}
		e.Present = false
		r.entries[uuid] = e
	}
	for _, reading := range report.Readings {
		r.edit(reading.UUID, func(e *entry) { e.LastReading = reading.At.Wall })
	}
	for _, x := range report.XIDs {
		r.edit(x.UUID, func(e *entry) { e.XIDs.add(x) })
	}
}

// edit changes the entry of a known GPU.
func (r *roster) edit(uuid string, change func(*entry)) {
	if e, known := r.entries[uuid]; known {
		change(&e)
		r.entries[uuid] = e
	}
}

func (r *roster) device(uuid string) gpu.Device { return r.entries[uuid].Device }

func (x *xids) add(e gpu.XID) {
	x.Count++
	if x.Last == nil {
		x.Last = make(map[uint64]time.Time)
	}
	x.Last[e.Code] = e.At
}
