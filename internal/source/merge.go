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
	// known is the library's last word on the GPU, which outlives the library: what was
	// known of a GPU must not go when it is lost.
	known gpu.Device
	meter meter
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

// merge adds to the engine's report what only the library knows, or has read.
func (s *Source) merge(report gpu.Report, library outcome) gpu.Report {
	or(&report.Driver.DriverVersion, library.Driver.DriverVersion)
	or(&report.Driver.NVMLVersion, library.Driver.NVMLVersion)
	now := s.cfg.Now().Boot
	for i := range report.Devices {
		d := &report.Devices[i]
		b := s.board(d.UUID)
		b.choose(d, find(library.Readings, d.UUID, readingUUID) != nil, now)
		if find(library.Devices, d.UUID, deviceUUID) != nil || sameInstances(d.MIG, b.known.MIG) {
			d.MIG = b.known.MIG
		}
		b.fill(d)
	}
	for i := range report.Readings {
		r := &report.Readings[i]
		b := s.board(r.UUID)
		if b.meter != shared {
			r.Energy = nil
		}
		if d := find(report.Devices, r.UUID, deviceUUID); d != nil && !measures(r, d.MIG) {
			r.Instances, r.InstancesKnown = nil, false
		}
		if theirs := find(library.Readings, r.UUID, readingUUID); theirs != nil {
			b.add(r, theirs)
		}
	}
	// DCGM does not support all GPUs, and an engine may have stopped reading one.
	library.Report = s.unaided(library)
	report.Devices = append(report.Devices, others(library.Devices, report.Devices, deviceUUID)...)
	for _, r := range others(library.Readings, report.Readings, readingUUID) {
		if find(report.Devices, r.UUID, deviceUUID) != nil {
			report.Readings = append(report.Readings, r)
		}
	}
	return report
}

// unaided returns what the library says alone, with the energy that may be taken from it.
func (s *Source) unaided(library outcome) gpu.Report {
	report, now := library.Report, s.cfg.Now().Boot
	report.Devices, report.Readings = slices.Clone(report.Devices), slices.Clone(report.Readings)
	for i := range report.Devices {
		d := &report.Devices[i]
		r := find(report.Readings, d.UUID, readingUUID)
		b := s.board(d.UUID)
		if r != nil {
			b.choose(d, true, now)
		}
		if b.meter == shared && !b.common() {
			if r != nil {
				r.Energy = nil
			}
			d.EnergySource, d.EnergyScope = gpu.EnergyCounter, gpu.ScopeUnknown
		}
	}
	return report
}

// others returns the elements of GPUs that are not in another list.
func others[T any](list, in []T, of func(T) string) []T {
	return slices.DeleteFunc(slices.Clone(list), func(o T) bool { return find(in, of(o), of) != nil })
}

// find returns the element of a GPU, or nil.
func find[T any](list []T, uuid string, of func(T) string) *T {
	i := slices.IndexFunc(list, func(o T) bool { return of(o) == uuid })
	if i < 0 {
		return nil
	}
	return &list[i]
}

func deviceUUID(d gpu.Device) string   { return d.UUID }
func readingUUID(r gpu.Reading) string { return r.UUID }

// choose decides which meter a GPU has, once the library has read it, or has not for
// long. A counter that says that it counts the GPU alone is better than the engine's,
// which does not say what it counts.
func (b *board) choose(d *gpu.Device, read bool, now time.Duration) {
	theirs := b.known.EnergySource != gpu.EnergyNone
	switch {
	case b.meter != undecided:
	case theirs && (b.known.EnergyScope == gpu.ScopeGPU || d.EnergySource != gpu.EnergyCounter):
		b.meter = own
	case read || now-b.since >= patience:
		b.meter = shared
	}
	if theirs && (b.meter == own || b.known.EnergyScope == gpu.ScopeModule) {
		d.EnergySource, d.EnergyScope = b.known.EnergySource, b.known.EnergyScope
	}
}

// common reports whether the library reads no other counter than the engine, or none.
func (b *board) common() bool {
	d := &b.known
	return d.EnergySource == gpu.EnergyNone || d.EnergySource == gpu.EnergyCounter && d.EnergyScope != gpu.ScopeGPU
}

// or sets *to to what the library says, if the engine said nothing.
func or[T comparable](to *T, library T) { *to = cmp.Or(*to, library) }

// sameInstances reports whether the engine sees the instances that the library saw. How
// a GPU is divided is the library's word, as the engine knows neither the names of MIG
// devices, which the kubelet goes by, nor where instances lie.
func sameInstances(engine, library *gpu.MIG) bool {
	seen := func(i gpu.Instance) bool {
		return slices.ContainsFunc(library.Instances, func(o gpu.Instance) bool { return o.ID == i.ID && o.Profile == i.Profile })
	}
	return engine != nil && library != nil && len(engine.Instances) == len(library.Instances) &&
		!slices.ContainsFunc(engine.Instances, func(i gpu.Instance) bool { return !seen(i) })
}

// measures reports whether a reading tells how busy the instances are that there are: the
// engine may have seen others than the library.
func measures(r *gpu.Reading, m *gpu.MIG) bool {
	return m != nil && len(m.Instances) == len(r.Instances) && !slices.ContainsFunc(r.Instances, func(s gpu.InstanceSample) bool {
		return !slices.ContainsFunc(m.Instances, func(i gpu.Instance) bool { return i.ID == s.Instance })
	})
}

// fill adds to an identity what the engine could not tell.
func (b *board) fill(d *gpu.Device) {
	library := &b.known
	or(&d.DeviceNode, library.DeviceNode)
	or(&d.PCIBusID, library.PCIBusID)
	or(&d.Model, library.Model)
	or(&d.Serial, library.Serial)
	or(&d.BoardPartNumber, library.BoardPartNumber)
	or(&d.VBIOSVersion, library.VBIOSVersion)
	or(&d.Platform, library.Platform)
	or(&d.Fabric, library.Fabric)
	or(&d.MaxPower, library.MaxPower)
	if library.UUID != "" {
		d.XIDEvents = library.XIDEvents // an engine waits for errors that a driver may tell no events of
	}
}

// add adds processes to a reading, and what the engine could not tell. That includes the
// board's counter: an engine that has seen an error of the driver answers with blanks.
func (b *board) add(r, library *gpu.Reading) {
	blank := b.meter == shared && b.common() && r.Energy == nil && library.Energy != nil
	if b.meter == own || blank {
		r.Energy, r.At, r.Took = library.Energy, library.At, library.Took
	}
	or(&r.ModulePower, library.ModulePower)
	or(&r.Power, library.Power)
	or(&r.PowerLimit, library.PowerLimit)
	or(&r.Temperature, library.Temperature)
	or(&r.Utilization, library.Utilization)
	or(&r.MemoryUsed, library.MemoryUsed)
	or(&r.MemoryTotal, library.MemoryTotal)
	or(&r.SMClock, library.SMClock)
	or(&r.MemoryClock, library.MemoryClock)
	or(&r.RowRemap, library.RowRemap)
	r.Contexts, r.ContextsKnown = library.Contexts, library.ContextsKnown
	r.Samples, r.Sampled, r.SamplesKnown = library.Samples, library.Sampled, library.SamplesKnown
	if !r.InstancesKnown {
		r.Instances, r.InstancesKnown = library.Instances, library.InstancesKnown
	}
}

// hold keeps what was sampled for readings that nobody will see, of a while at most.
func (s *Source) hold(readings []gpu.Reading) {
	oldest := s.cfg.Now().Boot - holdable
	for _, r := range readings {
		held := join(s.board(r.UUID).held, r)
		held.Samples = slices.DeleteFunc(held.Samples, func(o gpu.Sample) bool { return o.To <= oldest })
		held.Instances = slices.DeleteFunc(held.Instances, func(o gpu.InstanceSample) bool { return o.To <= oldest })
		held.Sampled.From = max(held.Sampled.From, min(oldest, held.Sampled.To))
		s.board(r.UUID).held = &held
	}
}

// holdable is how old what was sampled is at most when it is given, so that an engine
// that is gone for long costs no memory.
const holdable = time.Minute

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
