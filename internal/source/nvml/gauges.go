package nvml

import (
	"math"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/prometheus/procfs"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// gaugeCalls contains the calls that read gauges, with the gauges that each call returns, in base units. Power is not
// included, because it is read together with the energy.
var gaugeCalls = [...]struct {
	gauges []gpu.Gauge
	read   func(*gpuReader) ([3]float64, ret) // values in the order of gauges; NaN means unknown
}{
	{[]gpu.Gauge{gpu.Temperature}, func(g *gpuReader) ([3]float64, ret) {
		celsius, r := available(g.handle.GetTemperature(gonvml.TEMPERATURE_GPU))
		return [3]float64{float64(celsius)}, r
	}},
	{[]gpu.Gauge{gpu.Utilization}, func(g *gpuReader) ([3]float64, ret) {
		u, r := g.utilization()
		if r == gonvml.SUCCESS && u.Gpu > 100 {
			r = gonvml.ERROR_NO_DATA
		}
		return [3]float64{float64(u.Gpu) / 100}, r
	}},
	{[]gpu.Gauge{gpu.MemoryUsed, gpu.MemoryTotal, gpu.MemoryReserved}, memoryInfo},
	{[]gpu.Gauge{gpu.SMClock}, clock(gonvml.CLOCK_SM)},
	{[]gpu.Gauge{gpu.MemoryClock}, clock(gonvml.CLOCK_MEM)},
}

// Old drivers and some GPUs support only the first version of the call. Its used memory includes the reserved memory.
func memoryInfo(g *gpuReader) ([3]float64, ret) {
	lib, h := g.lib, g.handle
	if lib.exact("nvmlDeviceGetMemoryInfo_v2") {
		m, r := h.GetMemoryInfo_v2()
		if r == gonvml.SUCCESS && max(m.Used, m.Total, m.Reserved) == math.MaxUint64 {
			r = gonvml.ERROR_NO_DATA
		}
		if !unsupported(r) {
			return [3]float64{float64(m.Used), float64(m.Total), float64(m.Reserved)}, r
		}
	}
	if !lib.exact("nvmlDeviceGetMemoryInfo") {
		return [3]float64{}, gonvml.ERROR_FUNCTION_NOT_FOUND
	}
	m, r := h.GetMemoryInfo()
	if r == gonvml.SUCCESS && max(m.Used, m.Total) == math.MaxUint64 {
		r = gonvml.ERROR_NO_DATA
	}
	return [3]float64{float64(m.Used), float64(m.Total), math.NaN()}, r
}

func clock(which gonvml.ClockType) func(*gpuReader) ([3]float64, ret) {
	return func(g *gpuReader) ([3]float64, ret) {
		mhz, r := available(g.handle.GetClockInfo(which))
		return [3]float64{float64(mhz) * 1e6}, r
	}
}

// rates caches the result of nvmlDeviceGetUtilizationRates during one reading of the GPU. Both the gauges and the
// health values use the result.
type rates struct {
	known bool
	value gonvml.Utilization
	ret   ret
}

func (g *gpuReader) utilization() (gonvml.Utilization, ret) {
	if !g.rates.known {
		u, r := g.handle.GetUtilizationRates()
		g.rates = rates{true, u, r}
	}
	return g.rates.value, g.rates.ret
}

func (g *gpuReader) readGauges(q *inquiry, r *gpu.Reading) {
	for i := range gaugeCalls {
		c := &gaugeCalls[i]
		values, err := query(q, gpu.GaugeInfos[c.gauges[0]].Call, func() ([3]float64, ret) { return c.read(g) })
		if err != nil {
			if c.gauges[0] == gpu.MemoryUsed && hasCode(err, gonvml.ERROR_NOT_SUPPORTED) {
				g.readSharedMemory(r)
			}
			continue
		}
		for k, g := range c.gauges {
			if !math.IsNaN(values[k]) {
				r.Gauges[g] = new(values[k])
			}
		}
	}
	if mw, err := query(q, "nvmlDeviceGetEnforcedPowerLimit", func() (uint32, ret) { return available(g.handle.GetEnforcedPowerLimit()) }); err == nil {
		r.PowerLimit = new(watts(mw))
	}
	if rows, err := query(q, "nvmlDeviceGetRemappedRows", func() (gpu.RowRemap, ret) {
		correctable, uncorrectable, pending, failed, r := g.handle.GetRemappedRows()
		if r == gonvml.SUCCESS && max(correctable, uncorrectable) >= math.MaxInt32 {
			r = gonvml.ERROR_NO_DATA
		}
		return gpu.RowRemap{Pending: pending, Failed: failed, Correctable: correctable, Uncorrectable: uncorrectable}, r
	}); err == nil {
		r.RowRemap = &rows
	}
}

// readSharedMemory reads the total memory of a GPU that shares the machine's memory, such as GB10. The driver does not
// support the memory call for such a GPU. The used memory is reported only for processes, because other parts of the
// machine also use this memory.
func (g *gpuReader) readSharedMemory(r *gpu.Reading) {
	if g.procFS == "" {
		return
	}
	fs, err := procfs.NewFS(g.procFS)
	if err != nil {
		return
	}
	if m, err := fs.Meminfo(); err == nil && m.MemTotalBytes != nil {
		r.Gauges[gpu.MemoryTotal], r.SharesMemory = new(float64(*m.MemTotalBytes)), true
	}
}

// available rejects a value with all bits set (NVML_VALUE_NOT_AVAILABLE).
func available(n uint32, r ret) (uint32, ret) {
	if r == gonvml.SUCCESS && n == math.MaxUint32 {
		return 0, gonvml.ERROR_NO_DATA
	}
	return n, r
}

func watts(mw uint32) gpu.Watts { return gpu.Watts(mw) / 1000 }
