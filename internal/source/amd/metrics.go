package amd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// metrics contains the values from one gpu_metrics file.
type metrics struct {
	edge, hotspot value            // °C
	power         value            // W
	activity      value            // percentage of time with busy compute units, averaged by the firmware
	energy        value            // 2⁻¹⁶ J since the driver was loaded
	activitySum   value            // sum of the activity in all samples of the firmware; 32 bits, wraps
	samples       value            // number of samples in activitySum; 32 bits, wraps
	clock, memory value            // MHz
	limits        [numLimits]value // residencies of clock limits, in the firmware cycles that samples counts
	// busy contains a 64-bit activity sum for each partition and each compute die (XCC).
	busy [maxPartitions]busySums
}

type value struct {
	n  uint64
	ok bool
}

const (
	maxPartitions = 8
	// numLimits is the number of residencies: PROCHOT, PPT, socket, voltage regulator and HBM.
	numLimits = 5
	maxXCC    = 8
)

// A field is the offset and width of a number. The zero value stands for a missing field.
type field struct{ at, width int }

type layout struct {
	edge, hotspot, power, activity, energy, activitySum, samples, clock, memClock field
	limits                                                                        [numLimits]field
	// partitions is the offset of the first partition. stride is the distance between two partitions. busy is the
	// offset of the sums in a partition. If stride is 0, the layout has no partitions.
	partitions, stride, busy int
}

// A revision of gpu_metrics includes the size in bytes, which distinguishes the two layouts of revision 1.6.
type revision struct {
	format, content uint8
	size            int
}

// layouts contains the known revisions that have a fixed layout (Linux, kgd_pp_interface.h). No layout extends another
// layout. The energy counter in revision 1.0 is not read, because it has 32 bits and wraps within minutes. Formats 2
// and 3 are omitted, because only processors with integrated graphics use them.
var layouts = map[revision]layout{
	{1, 0, 80}: {
		edge: u16(16), hotspot: u16(18), activity: u16(28), power: u16(34), clock: u16(54), memClock: u16(58),
	},
	{1, 1, 96}:  discrete,
	{1, 2, 104}: discrete,
	{1, 3, 120}: discrete,
	{1, 4, 288}: {
		hotspot: u16(4), power: u16(10), activity: u16(12), energy: u64(24),
		activitySum: u32(56), clock: u16(240), memClock: u16(280),
	},
	{1, 5, 360}: {
		hotspot: u16(4), power: u16(10), activity: u16(12), energy: u64(88),
		activitySum: u32(120), clock: u16(312), memClock: u16(352),
	},
	{1, 6, 384}: { // used by early drivers
		hotspot: u16(4), power: u16(10), activity: u16(12), energy: u64(88), samples: u32(104), limits: limitsAt(108),
		activitySum: u32(144), clock: u16(336), memClock: u16(376),
	},
	{1, 6, 1664}: {
		hotspot: u16(4), power: u16(10), activity: u16(12), energy: u64(16), samples: u32(32), limits: limitsAt(36),
		activitySum: u32(68), clock: u16(264), memClock: u16(304), partitions: 312, stride: 168, busy: 104,
	},
	{1, 7, 2208}: {
		hotspot: u16(4), power: u16(10), activity: u16(12), energy: u64(24), samples: u32(40), limits: limitsAt(44),
		activitySum: u32(76), clock: u16(296), memClock: u16(336), partitions: 344, stride: 232, busy: 104,
	},
	{1, 8, 3872}: {
		hotspot: u16(4), power: u16(10), activity: u16(12), energy: u64(24), samples: u32(40), limits: limitsAt(44),
		activitySum: u32(76), clock: u16(296), memClock: u16(336), partitions: 344, stride: 440, busy: 120,
	},
}

func u16(at int) field { return field{at, 2} }
func u32(at int) field { return field{at, 4} }
func u64(at int) field { return field{at, 8} }

func limitsAt(at int) (limits [numLimits]field) {
	for i := range limits {
		limits[i] = u32(at + 4*i)
	}
	return limits
}

// discrete is the layout that the revisions 1.1 to 1.3 have in common.
var discrete = layout{
	edge: u16(4), hotspot: u16(6), activity: u16(16), power: u16(22), energy: u64(24),
	clock: u16(54), memClock: u16(58), activitySum: u32(80),
}

var errUnknown = errors.New("unknown revision of gpu_metrics")

// headerSize is the length of the header: u16 size, u8 format, u8 content.
const headerSize = 4

func decode(file []byte) (metrics, error) {
	if len(file) < headerSize {
		return metrics{}, fmt.Errorf("decode gpu_metrics: %d bytes", len(file))
	}
	rev := revision{file[2], file[3], int(binary.NativeEndian.Uint16(file))}
	l, known := layouts[rev]
	attributes := rev.format == 1 && rev.content == 9
	switch {
	case !attributes && !known:
		return metrics{}, fmt.Errorf("%w %d.%d of %d bytes", errUnknown, rev.format, rev.content, rev.size)
	case rev.size > len(file):
		return metrics{}, fmt.Errorf("decode gpu_metrics: %d of %d bytes", len(file), rev.size)
	case attributes:
		return decodeAttributes(file[:rev.size])
	}
	return l.decode(file), nil
}

func (l *layout) decode(file []byte) metrics {
	m := metrics{
		edge: l.edge.read(file), hotspot: l.hotspot.read(file), power: l.power.read(file),
		activity: l.activity.read(file), energy: l.energy.read(file), activitySum: l.activitySum.read(file),
		samples: l.samples.read(file), clock: l.clock.read(file), memory: l.memClock.read(file),
	}
	for i, f := range l.limits {
		m.limits[i] = f.read(file)
	}
	if l.stride > 0 {
		for p := range m.busy {
			for x := range m.busy[p] {
				m.busy[p][x] = u64(l.partitions + p*l.stride + l.busy + 8*x).read(file)
			}
		}
	}
	m.clean()
	return m
}

// If all bits are ones, the GPU does not report the number.
func (f field) read(file []byte) value {
	var n, none uint64
	switch f.width {
	case 1:
		n, none = uint64(file[f.at]), math.MaxUint8
	case 2:
		n, none = uint64(binary.NativeEndian.Uint16(file[f.at:])), math.MaxUint16
	case 4:
		n, none = uint64(binary.NativeEndian.Uint32(file[f.at:])), math.MaxUint32
	case 8:
		n, none = binary.NativeEndian.Uint64(file[f.at:]), math.MaxUint64
	}
	if n == none {
		return value{}
	}
	return value{n, true}
}

// clean drops impossible values. Newer firmware no longer reports the energy: it sets 32 of the 64 bits to one. The
// second die of an MI250 reports 0 for energy and power, because the first die reports the values for both dies.
func (m *metrics) clean() {
	drop := func(v *value, valid bool) {
		if !valid {
			*v = value{}
		}
	}
	drop(&m.energy, m.energy.n != math.MaxUint32 && m.energy.n > 0)
	drop(&m.power, m.power.n > 0)
	drop(&m.activity, m.activity.n <= 100)
	drop(&m.edge, m.edge.n < 200)
	drop(&m.hotspot, m.hotspot.n < 200)
}

// millijoules converts a counter in 2⁻¹⁶ J. Callers must convert counters, not differences of counters, because the
// remainders below a millijoule would be lost.
func millijoules(counter uint64) gpu.Millijoules {
	high, low := bits.Mul64(counter, 1000)
	return gpu.Millijoules(high<<48 | low>>16)
}
