package app

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/host"
	"github.com/gpuledger/gpuledger/internal/source"
	"github.com/gpuledger/gpuledger/internal/source/amd"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// members returns the sources that the flags select. With auto, the exporter reads only the vendors that have a GPU
// on the PCI bus. If there is no AMD GPU on the bus, the exporter always reads NVIDIA's GPUs, because these may be
// invisible on the bus. Therefore, on a node without a GPU, the stage driver is down.
func (c *Config) members(library *nvml.Source, amdgpu *amd.Source, machine host.Host, now gpu.Clock) []source.Member {
	nvidia := source.Member{Stage: stage.Driver, Source: library}
	other := source.Member{Stage: stage.AMDGPU, Source: amdgpu}
	switch c.Source {
	case sourceNVML:
		return []source.Member{nvidia}
	case sourceAMD:
		return []source.Member{other}
	}
	b := &bus{machine: machine, now: now}
	nvidia.Needed = func() bool { return b.count(nvml.PCIClasses) > 0 || b.count(amd.PCIClasses) == 0 }
	other.Needed = func() bool { return b.count(amd.PCIClasses) > 0 }
	return []source.Member{nvidia, other}
}

func (c *Config) pciClasses() (classes []gpu.PCIClass) {
	if c.Source != sourceAMD {
		classes = append(classes, nvml.PCIClasses...)
	}
	if c.Source != sourceNVML {
		classes = append(classes, amd.PCIClasses...)
	}
	return classes
}

const busAge = 10 * time.Second

type bus struct {
	machine host.Host
	now     gpu.Clock
	counts  map[string]int
	at      time.Duration // boot clock
}

// count returns the number of GPUs with the given PCI classes. All classes must belong to one
// vendor. If the bus cannot be read, count returns 0.
func (b *bus) count(classes []gpu.PCIClass) int {
	if now := b.now().Boot; b.counts == nil || now-b.at >= busAge {
		b.counts, b.at = make(map[string]int), now
	}
	vendor := classes[0].Vendor
	n, known := b.counts[vendor]
	if !known {
		n, _ = b.machine.CountPCI(classes) // the sampler reports the error
		b.counts[vendor] = n
	}
	return n
}
