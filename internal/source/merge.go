package source

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// merge adds to the engine's report what only the library knows.
func (s *Source) merge(report gpu.Report, library outcome) gpu.Report {
	report.Driver.DriverVersion = cmp.Or(report.Driver.DriverVersion, library.Driver.DriverVersion)
	report.Driver.NVMLVersion = cmp.Or(report.Driver.NVMLVersion, library.Driver.NVMLVersion)
	for i := range report.Devices {
		d := &report.Devices[i]
		k := slices.IndexFunc(library.Devices, func(o gpu.Device) bool { return o.UUID == d.UUID })
		if k >= 0 {
			s.mergeDevice(d, &library.Devices[k])
		}
	}
	for i := range report.Readings {
		r := &report.Readings[i]
		k := slices.IndexFunc(library.Readings, func(o gpu.Reading) bool { return o.UUID == r.UUID })
		if k >= 0 {
			s.mergeReading(r, &library.Readings[k])
		}
	}
	report.XIDs = slices.Concat(report.XIDs, library.XIDs)
	return report
}

// or sets *to to what the library says, if the engine said nothing.
func or[T comparable](to *T, library T) { *to = cmp.Or(*to, library) }

// mergeDevice adds an identity. How the GPU is divided is the library's word, where
// there is one: the engine knows neither the names of MIG devices, which the kubelet
// goes by, nor where instances lie.
func (s *Source) mergeDevice(d, library *gpu.Device) {
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

// mergeReading adds processes, and what the engine could not tell.
func (s *Source) mergeReading(r, library *gpu.Reading) {
	or(&r.Power, library.Power)
	r.Contexts, r.ContextsKnown = library.Contexts, library.ContextsKnown
	r.Samples, r.Sampled, r.SamplesKnown = library.Samples, library.Sampled, library.SamplesKnown
	if !r.InstancesKnown {
		r.Instances, r.InstancesKnown = library.Instances, library.InstancesKnown
	}
}

// A board is what is remembered of a GPU from one report to the next.
type board struct {
	at time.Duration // of the last reading that counts, boot clock
}

func (s *Source) carry(*gpu.Report) {}
