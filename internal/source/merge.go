package source

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// patience is how long the library's word is waited for, or counts on, before the
// engine's is taken for it.
const patience = 10 * time.Second

// A board is what is remembered of a GPU from one report to the next. Times are on the
// boot clock.
type board struct {
	since time.Duration // when the GPU was first seen
	// events is when the library last said that it is told of the GPU's errors, 0
	// for never.
	events time.Duration
	meter  meter
	// read is the time of the last reading that counts, held what was sampled for
	// readings since that did not.
	read time.Duration
	held *gpu.Reading
}

// A meter is the counter that a GPU's energy is read from while the engine serves. It
// is chosen once: another one would count from somewhere else.
type meter int

const (
	undecided meter = iota
	// shared is the board's counter, which both can read.
	shared
	// own is one that only the library has: it counts the GPU alone, or it is a sum
	// of power where the board has no counter.
	own
)

// board returns what is remembered of a GPU.
func (s *Source) board(uuid string) *board {
	b := s.boards[uuid]
	if b == nil {
		b = &board{since: s.cfg.Now().Boot}
		s.boards[uuid] = b
	}
	return b
}

// merge adds to the engine's report what only the library knows.
func (s *Source) merge(report gpu.Report, library outcome) gpu.Report {
	or(&report.Driver.DriverVersion, library.Driver.DriverVersion)
	or(&report.Driver.NVMLVersion, library.Driver.NVMLVersion)
	for i := range report.Devices {
		d := &report.Devices[i]
		theirs := find(library.Devices, d.UUID, func(o gpu.Device) string { return o.UUID })
		read := find(library.Readings, d.UUID, func(o gpu.Reading) string { return o.UUID }) != nil
		s.choose(d, theirs, read)
		if theirs != nil {
			fill(d, theirs)
		}
	}
	for i := range report.Readings {
		r := &report.Readings[i]
		theirs := find(library.Readings, r.UUID, func(o gpu.Reading) string { return o.UUID })
		if s.board(r.UUID).meter != shared {
			r.Energy = nil
		}
		if theirs != nil {
			s.add(r, theirs)
		}
	}
	report.XIDs = slices.DeleteFunc(report.XIDs, func(x gpu.XID) bool { return s.hears(x.UUID) })
	report.XIDs = append(report.XIDs, library.XIDs...)
	return report
}

// find returns the element of a GPU, or nil.
func find[T any](list []T, uuid string, of func(T) string) *T {
	i := slices.IndexFunc(list, func(o T) bool { return of(o) == uuid })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// choose decides which meter a GPU has, once the library has read it, or has not for
// long. A counter that says that it counts the GPU alone is better than the engine's,
// which does not say what it counts.
func (s *Source) choose(d, library *gpu.Device, read bool) {
	b, now := s.board(d.UUID), s.cfg.Now().Boot
	if library != nil && library.XIDEvents {
		b.events = now
	}
	theirs := library != nil && library.EnergySource != gpu.EnergyNone
	switch {
	case b.meter != undecided:
	case theirs && (library.EnergyScope == gpu.ScopeGPU || d.EnergySource != gpu.EnergyCounter):
		b.meter = own
	case read || now-b.since >= patience:
		b.meter = shared
	}
	if theirs && (b.meter == own || library.EnergyScope == gpu.ScopeModule) {
		d.EnergySource, d.EnergyScope = library.EnergySource, library.EnergyScope
	}
}

// hears reports whether the library tells of a GPU's errors. Then the engine's word is
// not needed, which would count each twice.
func (s *Source) hears(uuid string) bool {
	b := s.board(uuid)
	return b.events > 0 && s.cfg.Now().Boot-b.events < patience
}

// or sets *to to what the library says, if the engine said nothing.
func or[T comparable](to *T, library T) { *to = cmp.Or(*to, library) }

// fill adds to an identity. How the GPU is divided is the library's word: the engine
// knows neither the names of MIG devices, which the kubelet goes by, nor where instances
// lie.
func fill(d, library *gpu.Device) {
	or(&d.DeviceNode, library.DeviceNode)
	or(&d.PCIBusID, library.PCIBusID)
	or(&d.Model, library.Model)
	or(&d.Serial, library.Serial)
	or(&d.BoardPartNumber, library.BoardPartNumber)
	or(&d.VBIOSVersion, library.VBIOSVersion)
	or(&d.Platform, library.Platform)
	or(&d.Fabric, library.Fabric)
	or(&d.MaxPower, library.MaxPower)
	d.MIG = library.MIG
	d.XIDEvents = d.XIDEvents || library.XIDEvents
}

// add adds processes to a reading, and what the engine could not tell.
func (s *Source) add(r, library *gpu.Reading) {
	if s.board(r.UUID).meter == own {
		r.Energy, r.At = library.Energy, library.At
	}
	or(&r.Power, library.Power)
	or(&r.PowerLimit, library.PowerLimit)
	or(&r.Temperature, library.Temperature)
	or(&r.Utilization, library.Utilization)
	or(&r.MemoryUsed, library.MemoryUsed)
	or(&r.MemoryTotal, library.MemoryTotal)
	or(&r.SMClock, library.SMClock)
	or(&r.MemoryClock, library.MemoryClock)
	r.Contexts, r.ContextsKnown = library.Contexts, library.ContextsKnown
	r.Samples, r.Sampled, r.SamplesKnown = library.Samples, library.Sampled, library.SamplesKnown
	if !r.InstancesKnown {
		r.Instances, r.InstancesKnown = library.Instances, library.InstancesKnown
	}
}

// carry keeps what was sampled for a reading that is not newer than the last one, as
// after a change to the engine, which read the counter a moment before: nobody will look
// at such a reading, and samples are given once.
func (s *Source) carry(report *gpu.Report) {
	for i := range report.Readings {
		r := &report.Readings[i]
		b := s.board(r.UUID)
		if r.At.Boot <= b.read {
			b.held = new(join(b.held, *r))
			continue
		}
		*r = join(b.held, *r)
		b.read, b.held = r.At.Boot, nil
	}
}

// join returns a reading with what was sampled before it.
func join(held *gpu.Reading, r gpu.Reading) gpu.Reading {
	if held == nil {
		return r
	}
	if held.SamplesKnown && r.SamplesKnown {
		r.Samples = slices.Concat(held.Samples, r.Samples)
		r.Sampled.From = held.Sampled.From
	}
	if held.InstancesKnown && r.InstancesKnown {
		r.Instances = slices.Concat(held.Instances, r.Instances)
	}
	return r
}
