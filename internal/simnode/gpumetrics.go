package simnode

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// blob is the content of a gpu_metrics file (Linux, kgd_pp_interface.h). If all bits of a field are set, the GPU does
// not report the field.
type blob []byte

// The header is u16 size, u8 format, u8 content.
func newBlob(size int, format, content byte) blob {
	b := blob(bytes.Repeat([]byte{0xff}, size))
	b.u16(0, size)
	b[2], b[3] = format, content
	return b
}

func (b blob) u16(at, v int) { binary.NativeEndian.PutUint16(b[at:], uint16(v)) }

func (b blob) u32(at int, v int64) { binary.NativeEndian.PutUint32(b[at:], uint32(v)) }

func (b blob) u64(at int, v uint64) { binary.NativeEndian.PutUint64(b[at:], v) }

// accumulator converts energy to the unit of the driver's counter, 2⁻¹⁶ J. It rounds up, so that a reader that rounds
// down gets the original millijoules.
func accumulator(e gpu.Millijoules) uint64 { return (uint64(e)*65536 + 999) / 1000 }

func metrics(w *world, b *board) blob {
	if b.AMD.Metrics == "1.3" {
		return metrics13(w, b)
	}
	return metrics17(w, b)
}

// metrics13 writes the revision of an MI200, gpu_metrics_v1_3.
func metrics13(w *world, b *board) blob {
	m := newBlob(120, 1, 3)
	m.u16(4, b.temperature()) // edge
	m.u16(6, b.temperature()+4)
	m.u16(8, b.memoryTemperature())
	m.u16(16, b.busy) // average_gfx_activity
	m.u16(18, b.busy/3)
	m.u16(22, b.power/1000) // average_socket_power
	m.u64(24, accumulator(b.counter()))
	m.u64(32, uint64(w.elapsed().Nanoseconds())) // system_clock_counter
	m.u16(54, smClock(b))
	m.u16(58, memoryClock)
	m.u32(80, b.activitySum()) // gfx_activity_acc
	return m
}

// metrics17 writes a revision of an MI300, gpu_metrics_v1_7.
func metrics17(w *world, b *board) blob {
	m := newBlob(2208, 1, 7)
	m.u16(4, b.temperature()+4) // hotspot
	m.u16(6, b.memoryTemperature())
	m.u16(10, b.power/1000) // curr_socket_power
	m.u16(12, b.busy)       // average_gfx_activity
	m.u16(14, b.busy/3)
	m.u64(24, accumulator(b.counter()))
	m.u64(32, uint64(w.elapsed().Nanoseconds())) // system_clock_counter
	m.u32(40, int64(w.elapsed()/metricsPeriod))  // accumulation_counter
	for residency := range 5 {
		m.u32(44+4*residency, 0) // prochot_residency_acc to hbm_thm_residency_acc
	}
	m.u32(52, b.sinceLoad(HardwareThermal)/int64(metricsPeriod)) // socket_thm_residency_acc
	m.u32(76, b.activitySum())                                   // gfx_activity_acc
	const partitions, stride, busy = 344, 232, 104               // offset and size of xcp_stats, offset of gfx_busy_acc in it
	dies := b.AMD.Dies / b.partCount()
	for part := range b.partCount() {
		for die := range dies {
			m.u64(partitions+part*stride+busy+8*die, uint64(activitySum(b.busyTime[part])))
		}
		for clock := range dies {
			m.u16(296+2*(part*dies+clock), smClock(b)) // current_gfxclk
		}
	}
	m.u16(336, memoryClock)
	m.u16(338, b.partCount())
	return m
}

// metricsPeriod is the interval at which the firmware samples the activity.
const metricsPeriod = time.Millisecond

// activitySum returns the firmware's sum of activity samples in percent, for a given busy time.
func activitySum(busy time.Duration) int64 { return int64(100 * busy / metricsPeriod) }

func (b *board) activitySum() int64 {
	if b.MIG == nil {
		return activitySum(b.busyTime[0])
	}
	var sum time.Duration
	for i, busy := range b.busyTime {
		sum += busy * time.Duration(b.MIG.Instances[i].Slices) / time.Duration(b.MIG.Slices)
	}
	return activitySum(sum)
}
