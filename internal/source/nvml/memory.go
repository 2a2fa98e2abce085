package nvml

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A memory contains the data of a GPU that do not depend on its handle: its identity, and the state
// that is kept between readings.
type memory struct {
	device   gpu.Device
	meter    meter
	integral gpu.PowerIntegral
	quiet    quietTimes
	throttle throttle
	position
}

// A position is the end of the samples that were already read.
type position struct {
	sampled  time.Duration // boot clock
	newest   int64         // time of the newest sample of the ring, µs of the wall clock
	asked    gpu.Instant   // when samples were last read
	mixed    time.Duration // boot clock; until this time the ring may contain samples from before the wall clock was set back; 0 for none
	accounts *accounts     // as of the last reading; nil if they were not read then
}

// memories keeps the memory of every GPU. It survives a changed index, the loss of the GPU and a
// driver reload, so that known values are neither read again nor lost. Readings use a memory only
// in their lane.
type memories struct {
	mu     sync.Mutex
	byUUID map[string]memory
}

func newMemories() *memories { return &memories{byUUID: make(map[string]memory)} }

// recall returns the memory of a GPU, which is empty at first.
func (m *memories) recall(uuid string) memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byUUID[uuid]
}

// devices returns the GPUs by index, including lost ones.
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

// reopened drops the meters, the accounts, the quiet times and the MIG layout. A reloaded driver counts from zero,
// may be newer with a better meter, and has new MIG instances. The integrals stay, because they are
// our own counters.
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
