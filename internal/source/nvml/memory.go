package nvml

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A memory contains the identity of a GPU and the state that is kept between readings. It does not depend on the
// driver's handle for the GPU.
type memory struct {
	device   gpu.Device
	meter    meter
	integral gpu.PowerIntegral
	quiet    quietTimes
	throttle throttle
	inforom  answer
	position
}

// A position describes which utilisation samples were already read.
type position struct {
	sampled  time.Duration // boot-clock time up to which samples were read
	newest   int64         // wall-clock time of the newest sample that the driver returned, in µs
	asked    gpu.Instant   // time at which samples were last read
	mixed    time.Duration // boot-clock time until which the driver may return samples from before the wall clock was set back; 0 if there are none
	accounts *accounts     // accounts at the last reading; nil if they were not read then
}

// memories contains the memory of every GPU. A memory is kept when the GPU's index changes, the GPU is lost or the
// driver is reloaded. Known values need not be read again.
type memories struct {
	mu     sync.Mutex
	byUUID map[string]memory
}

func newMemories() *memories { return &memories{byUUID: make(map[string]memory)} }

func (m *memories) recall(uuid string) memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byUUID[uuid]
}

// devices includes lost GPUs and is sorted by index.
func (m *memories) devices() (list []gpu.Device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.byUUID {
		list = append(list, x.device)
	}
	slices.SortFunc(list, func(a, b gpu.Device) int { return cmp.Compare(a.Index, b.Index) })
	return list
}

func (m *memories) keep(x memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byUUID[x.device.UUID] = x
}

// reopened drops values that a driver reload makes invalid. The reloaded driver counts from zero, has new MIG
// instances, and may have a better energy counter. The integrals are kept, because this package computes them.
func (m *memories) reopened() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uuid, x := range m.byUUID {
		x.meter, x.device.EnergySource, x.device.EnergyScope = meter{}, gpu.EnergyNone, ""
		x.device.Partitions, x.accounts, x.quiet = nil, nil, quietTimes{}
		x.throttle.restarted()
		m.byUUID[uuid] = x
	}
}
