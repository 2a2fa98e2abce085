package amd

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// A step is a reading of a meter. The counter is in units of 2⁻¹⁶ J. The power is in W; it is -1 if it is unknown.
type step struct {
	counter  uint64 // 0 if there is none
	power    float64
	unread   bool // gpu_metrics could not be read
	source   gpu.EnergySource
	energy   gpu.Millijoules
	withheld bool // the reading contains no energy
}

func TestMeter(t *testing.T) {
	const joule = 1 << 16
	none, power, counter := gpu.EnergyNone, gpu.EnergyPower, gpu.EnergyCounter
	tests := map[string][]step{
		"a counter": {
			{counter: joule, power: 100, source: counter, energy: 1000},
			{counter: joule + 66, power: 100, source: counter, energy: 1001},
		},
		"power only": {
			{power: 100, source: power},
			{power: 200, source: power, energy: 150_000},
			{power: 200.5, source: power, energy: 350_250},
		},
		"nothing": {{power: -1, source: none, withheld: true}, {power: -1, source: none, withheld: true}},
		"the counter of a second die begins to count": {
			{power: -1, source: none, withheld: true},
			{power: -1, source: none, withheld: true},
			{counter: 2 * joule, power: 100, source: counter, energy: 2000},
		},
		"a counter that is missing for two readings": {
			{counter: joule, power: 100, source: counter, energy: 1000},
			{power: 100, source: counter, withheld: true},
			{power: 100, source: counter, withheld: true},
			{counter: 400 * joule, power: 100, source: counter, energy: 400_000},
		},
		"a counter that is withdrawn and returns": {
			{counter: joule, power: 100, source: counter, energy: 1000},
			{power: 100, source: counter, withheld: true},
			{power: 100, source: counter, withheld: true},
			{power: 100, source: power, energy: 300_000},
			{power: 100, source: power, energy: 400_000},
			{counter: joule, power: 100, source: power, energy: 500_000},
			{counter: joule, power: 100, source: power, energy: 600_000},
			{counter: joule, power: 100, source: counter, energy: 1000},
		},
		"first readings that fail": {
			{power: 100, unread: true, source: none, withheld: true},
			{power: 100, unread: true, source: none, withheld: true},
			{power: 100, unread: true, source: power, energy: 200_000},
		},
		"a first reading that fails": {
			{power: 100, unread: true, source: none, withheld: true},
			{counter: joule, power: 100, source: counter, energy: 1000},
		},
		"readings that fail without power": {
			{counter: joule, power: -1, source: counter, energy: 1000},
			{power: -1, unread: true, source: counter, withheld: true},
			{power: -1, unread: true, source: counter, withheld: true},
			{power: -1, unread: true, source: counter, withheld: true},
			{counter: 2 * joule, power: -1, source: counter, energy: 2000},
		},
		"power that is missing": {
			{power: 100, source: power}, {power: -1, source: power, withheld: true}, {power: 100, source: power, energy: 200_000},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			var m meter
			for i, s := range steps {
				got, sum := m.read(value{s.counter, s.counter > 0}, s.power, !s.unread, gpu.Instant{Boot: time.Duration(i+1) * time.Second}, 0)
				if (sum == nil) != (s.power < 0) || m.kind == power && s.power >= 0 && *sum != *got {
					t.Errorf("reading %d: the integral of power is %v although the power is %v", i, sum, got)
				}
				if m.kind != s.source || (got == nil) != s.withheld || got != nil && *got != s.energy {
					t.Errorf("reading %d: source %q, energy %v; want %q, %d mJ, withheld %v", i, m.kind, got, s.source, s.energy, s.withheld)
				}
			}
		})
	}
}

// FuzzEnergy checks that the energy in the ledger never exceeds the energy that the board can draw. Each step takes 12
// bytes of the input: the counter, the power, the missing values, and the time since the last reading.
func FuzzEnergy(f *testing.F) {
	sequence := func(steps ...[4]uint64) (in []byte) {
		for _, s := range steps {
			in = binary.LittleEndian.AppendUint64(in, s[0])
			in = binary.LittleEndian.AppendUint16(in, uint16(s[1]))
			in = append(in, byte(s[2]), byte(s[3]))
		}
		return in
	}
	f.Add(sequence([4]uint64{1 << 20, 500, 0, 10}, [4]uint64{1<<20 + 500<<16, 500, 0, 10}, [4]uint64{1<<20 + 1000<<16, 500, 0, 10}))
	f.Add(sequence([4]uint64{1 << 20, 500, 0, 10}, [4]uint64{math.MaxUint32, 500, 0, 10}, [4]uint64{math.MaxUint32, 500, 0, 10}, [4]uint64{math.MaxUint32, 500, 0, 10}))
	f.Add(sequence([4]uint64{1 << 40, 500, 0, 10}, [4]uint64{1 << 50, 500, 0, 10}, [4]uint64{1<<50 + 1, 500, 0, 10}, [4]uint64{1 << 40, 500, 0, 10}))
	f.Add(sequence([4]uint64{0, 65000, 0, 10}, [4]uint64{0, 65000, 0, 10}, [4]uint64{0, 65000, 1, 255}, [4]uint64{7, 65000, 0, 1}))
	f.Add(sequence([4]uint64{math.MaxUint64 - 1, 0, 0, 10}, [4]uint64{0, 0, 0, 10}, [4]uint64{math.MaxUint64 - 1, 0, 2, 10}))
	f.Fuzz(func(t *testing.T, in []byte) {
		const uuid, limit = "5a1f000000000001", gpu.Watts(750)
		book := ledger.New(ledger.Config{Tick: time.Second, Retention: time.Minute})
		var m meter
		now, begun, bound := gpu.Instant{Boot: time.Hour}, false, 0.0
		for ; len(in) >= 12; in = in[12:] {
			took := time.Duration(in[11]) * 100 * time.Millisecond
			now.Boot += took
			missing := in[10]
			blob := build(1, 7, 2208, place{24, 8, binary.LittleEndian.Uint64(in)}, place{10, 2, uint64(binary.LittleEndian.Uint16(in[8:]))})
			if missing&1 > 0 {
				blob = blob[:100]
			}
			values, err := decode(blob)
			power := float64(values.power.n)
			if !values.power.ok {
				power = -1
			}
			energy, sum := m.read(values.energy, power, err == nil, now, 0)
			if energy != nil && *energy < 0 {
				t.Fatalf("a counter of %d mJ", *energy)
			}
			book.Observe(ledger.Observation{UUID: uuid, At: now, Energy: energy, PowerSum: sum, Counter: string(m.kind), MaxPower: limit, PowerLimit: limit})
			book.Settle(now, func(gpu.ProcessID) gpu.Owner { return gpu.Owner{} })
			if begun {
				bound += 1.5 * float64(limit) * (took + 100*time.Millisecond).Seconds() * 1000
			}
			begun = true
			if b := book.State().Books[uuid]; b != nil && float64(b.Energy) > bound+1 {
				t.Fatalf("the book contains %d mJ, but the board could draw only %.0f mJ", b.Energy, bound)
			}
		}
	})
}
