package nvml

import (
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A memory is what is known of a GPU whatever its handle: what it is, and what
// one reading hands to the next.
type memory struct {
	device   gpu.Device
	meter    meter
	integral integral
	position
}

// A position is up to where it was told what processes did.
type position struct {
	sampled  time.Duration // boot clock
	newest   int64         // time of the newest sample of the ring, µs of the wall clock
	asked    gpu.Instant   // when samples were last read
	mixed    time.Duration // until then the ring may hold samples from before the wall clock was set back, boot clock; 0 for none
	accounts *accounts     // as of the last reading; nil if they were not read then
}

// memories keeps the memory of every GPU that was seen, as of its last look. They
// outlive its index, its loss and a reload of the driver, so that nothing known
// is asked for again, nor lost if it then cannot be told. Looks recall from it in
// their lanes.
type memories struct {
	mu     sync.Mutex
	byUUID map[string]memory
}

func newMemories() *memories { return &memories{byUUID: make(map[string]memory)} }

// recall returns what is known of a GPU, which is nothing at first.
func (m *memories) recall(uuid string) memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byUUID[uuid]
}

func (m *memories) keep(x memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byUUID[x.device.UUID] = x
}

// reopened forgets the meters, the accounts, and how GPUs are divided. A driver that
// was loaded again counts from zero anyway, may be a newer one with a better meter, and has
// no MIG instance that was not made since. The integrals stay: they are counters
// of our own, and go on.
func (m *memories) reopened() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uuid, x := range m.byUUID {
		x.meter, x.device.EnergySource, x.device.EnergyScope = meter{}, gpu.EnergyNone, ""
		x.device.MIG, x.accounts = nil, nil
		m.byUUID[uuid] = x
	}
}
