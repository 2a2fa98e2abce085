package nvml

import (
	"math"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// reaskAfter is the time after which values that a GPU did not support are requested again: a change
// of ECC or MIG may add them.
const reaskAfter = 10 * time.Minute

// The scopes of fields: without one, of all links together, and of each link (nvml.h, nvmlFieldValue_t).
const (
	wholeGPU uint32 = 0
	allLinks uint32 = math.MaxUint32
	eachLink uint32 = math.MaxUint32 - 1
)

// A healthField is a field of nvmlDeviceGetFieldValues that is one value of a metric, after
// division by unit. Values of several fields or links with the same labels are added.
type healthField struct {
	metric gpu.HealthMetric
	labels []string
	field  uint32
	scope  uint32
	unit   float64
}

// healthFields are read in one call. Times are in ns, temperatures in °C, power in mW, bytes over NVLink in KiB.
var healthFields = []healthField{
	{gpu.ECCEnabled, nil, gonvml.FI_DEV_ECC_CURRENT, wholeGPU, 1},
	{gpu.ECCEnabledPending, nil, gonvml.FI_DEV_ECC_PENDING, wholeGPU, 1},
	{gpu.ECCErrors, dramCorrectable, gonvml.FI_DEV_ECC_SBE_VOL_DEV, wholeGPU, 1},
	{gpu.ECCErrors, dramUncorrectable, gonvml.FI_DEV_ECC_DBE_VOL_DEV, wholeGPU, 1},
	{gpu.ECCLifetimeErrors, dramCorrectable, gonvml.FI_DEV_ECC_SBE_AGG_DEV, wholeGPU, 1},
	{gpu.ECCLifetimeErrors, dramUncorrectable, gonvml.FI_DEV_ECC_DBE_AGG_DEV, wholeGPU, 1},
	{gpu.RetiredPages, []string{"correctable"}, gonvml.FI_DEV_RETIRED_SBE, wholeGPU, 1},
	{gpu.RetiredPages, []string{"uncorrectable"}, gonvml.FI_DEV_RETIRED_DBE, wholeGPU, 1},
	{gpu.RetiredPagesPending, nil, gonvml.FI_DEV_RETIRED_PENDING, wholeGPU, 1},

	{gpu.PCIeErrors, []string{"replay"}, gonvml.FI_DEV_PCIE_REPLAY_COUNTER, wholeGPU, 1},
	{gpu.PCIeErrors, []string{"link_recovery"}, gonvml.FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER, wholeGPU, 1},
	{gpu.PCIeErrors, []string{"correctable"}, gonvml.FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS, wholeGPU, 1},
	{gpu.PCIeErrors, []string{"nak_received"}, gonvml.FI_DEV_PCIE_COUNT_NAKS_RECEIVED, wholeGPU, 1},
	{gpu.PCIeErrors, []string{"receiver"}, gonvml.FI_DEV_PCIE_COUNT_RECEIVER_ERROR, wholeGPU, 1},
	{gpu.PCIeErrors, []string{"bad_tlp"}, gonvml.FI_DEV_PCIE_COUNT_BAD_TLP, wholeGPU, 1},
	{gpu.PCIeErrors, []string{"nak_sent"}, gonvml.FI_DEV_PCIE_COUNT_NAKS_SENT, wholeGPU, 1},
	{gpu.PCIeErrors, []string{"bad_dllp"}, gonvml.FI_DEV_PCIE_COUNT_BAD_DLLP, wholeGPU, 1},
	{gpu.PCIeErrors, []string{"non_fatal"}, gonvml.FI_DEV_PCIE_COUNT_NON_FATAL_ERROR, wholeGPU, 1},
	{gpu.PCIeErrors, []string{"fatal"}, gonvml.FI_DEV_PCIE_COUNT_FATAL_ERROR, wholeGPU, 1},
	{gpu.PCIeErrors, []string{"unsupported_request"}, gonvml.FI_DEV_PCIE_COUNT_UNSUPPORTED_REQ, wholeGPU, 1},
	{gpu.PCIeErrors, []string{"lcrc"}, gonvml.FI_DEV_PCIE_COUNT_LCRC_ERROR, wholeGPU, 1},
	{gpu.PCIeErrors, []string{"lane"}, gonvml.FI_DEV_PCIE_COUNT_LANE_ERROR, wholeGPU, 1},
	{gpu.PCIeBytes, []string{"transmitted"}, gonvml.FI_DEV_PCIE_COUNT_TX_BYTES, wholeGPU, 1},
	{gpu.PCIeBytes, []string{"received"}, gonvml.FI_DEV_PCIE_COUNT_RX_BYTES, wholeGPU, 1},

	{gpu.NVLinkErrors, []string{"crc_flit"}, gonvml.FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, wholeGPU, 1},
	{gpu.NVLinkErrors, []string{"crc_data"}, gonvml.FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, wholeGPU, 1},
	{gpu.NVLinkErrors, []string{"replay"}, gonvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, wholeGPU, 1},
	{gpu.NVLinkErrors, []string{"recovery"}, gonvml.FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, wholeGPU, 1},
	{gpu.NVLinkErrors, []string{"malformed_packet"}, gonvml.FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS, eachLink, 1},
	{gpu.NVLinkErrors, []string{"buffer_overrun"}, gonvml.FI_DEV_NVLINK_COUNT_BUFFER_OVERRUN_ERRORS, eachLink, 1},
	{gpu.NVLinkErrors, []string{"receive"}, gonvml.FI_DEV_NVLINK_COUNT_RCV_ERRORS, eachLink, 1},
	{gpu.NVLinkErrors, []string{"link_integrity"}, gonvml.FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS, eachLink, 1},
	{gpu.NVLinkErrors, []string{"transmit_discard"}, gonvml.FI_DEV_NVLINK_COUNT_XMIT_DISCARDS, eachLink, 1},
	{gpu.NVLinkErrors, []string{"recovery"}, gonvml.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS, eachLink, 1},
	{gpu.NVLinkErrors, []string{"recovery_failed"}, gonvml.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS, eachLink, 1},
	{gpu.NVLinkErrors, []string{"effective"}, gonvml.FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS, eachLink, 1},
	{gpu.NVLinkErrors, []string{"symbol"}, gonvml.FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS, eachLink, 1},
	{gpu.NVLinkBytes, []string{"transmitted"}, gonvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, allLinks, 1.0 / 1024},
	{gpu.NVLinkBytes, []string{"received"}, gonvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX, allLinks, 1.0 / 1024},
	{gpu.NVLinkLinks, nil, gonvml.FI_DEV_NVLINK_GET_STATE, eachLink, 1},

	{gpu.ClockLimitedTime, []string{"power_cap"}, gonvml.FI_DEV_PERF_POLICY_POWER, wholeGPU, 1e9},
	{gpu.ClockLimitedTime, []string{"sync_boost"}, gonvml.FI_DEV_PERF_POLICY_SYNC_BOOST, wholeGPU, 1e9},
	{gpu.ClockLimitedTime, []string{"board_limit"}, gonvml.FI_DEV_PERF_POLICY_BOARD_LIMIT, wholeGPU, 1e9},
	{gpu.ClockLimitedTime, []string{"low_utilization"}, gonvml.FI_DEV_PERF_POLICY_LOW_UTILIZATION, wholeGPU, 1e9},
	{gpu.ClockLimitedTime, []string{"reliability"}, gonvml.FI_DEV_PERF_POLICY_RELIABILITY, wholeGPU, 1e9},
	{gpu.ClockLimitedTime, []string{"software_thermal"}, gonvml.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, wholeGPU, 1e9},
	{gpu.ClockLimitedTime, []string{"hardware_thermal"}, gonvml.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, wholeGPU, 1e9},
	{gpu.ClockLimitedTime, []string{"power_brake"}, gonvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, wholeGPU, 1e9},
	{gpu.MemoryTemperature, nil, gonvml.FI_DEV_MEMORY_TEMP, wholeGPU, 1},
	{gpu.PowerLimits, []string{"max"}, gonvml.FI_DEV_POWER_MAX_LIMIT, wholeGPU, 1e3},
	{gpu.PowerLimits, []string{"default"}, gonvml.FI_DEV_POWER_DEFAULT_LIMIT, wholeGPU, 1e3},
	{gpu.PowerLimits, []string{"enforced"}, gonvml.FI_DEV_POWER_CURRENT_LIMIT, wholeGPU, 1e3},
}

// The labels of memory errors.
var (
	dramCorrectable   = []string{"dram", "correctable"}
	dramUncorrectable = []string{"dram", "uncorrectable"}
	sramCorrectable   = []string{"sram", "correctable"}
	sramUncorrectable = []string{"sram", "uncorrectable"}
)

// linkStates are the labels of links by their state (nvml.h, NVML_NVLINK_STATE_*).
var linkStates = [][]string{{"inactive"}, {"active"}, {"sleep"}, {"traffic_disabled"}}

// healthCalls are the values that have calls of their own.
var healthCalls = []struct {
	symbol string
	read   func(device) ([]gpu.HealthValue, ret)
}{
	{"nvmlDeviceGetMemoryErrorCounter", memoryErrors(gpu.ECCErrors, sramCorrectable, gonvml.VOLATILE_ECC, gonvml.MEMORY_ERROR_TYPE_CORRECTED)},
	{"nvmlDeviceGetMemoryErrorCounter", memoryErrors(gpu.ECCErrors, sramUncorrectable, gonvml.VOLATILE_ECC, gonvml.MEMORY_ERROR_TYPE_UNCORRECTED)},
	{"nvmlDeviceGetMemoryErrorCounter", memoryErrors(gpu.ECCLifetimeErrors, sramCorrectable, gonvml.AGGREGATE_ECC, gonvml.MEMORY_ERROR_TYPE_CORRECTED)},
	{"nvmlDeviceGetMemoryErrorCounter", memoryErrors(gpu.ECCLifetimeErrors, sramUncorrectable, gonvml.AGGREGATE_ECC, gonvml.MEMORY_ERROR_TYPE_UNCORRECTED)},
	{"nvmlDeviceGetSramEccErrorStatus", func(h device) ([]gpu.HealthValue, ret) {
		s, r := h.GetSramEccErrorStatus()
		return single(gpu.SRAMThresholdExceeded, float64(min(s.BThresholdExceeded, 1))), r
	}},
	{"nvmlDeviceGetRowRemapperHistogram", rowHistogram},
	{"nvmlDeviceGetCurrPcieLinkGeneration", number(gpu.PCIeLinkGeneration, device.GetCurrPcieLinkGeneration)},
	{"nvmlDeviceGetMaxPcieLinkGeneration", number(gpu.PCIeLinkGenerationMax, device.GetMaxPcieLinkGeneration)},
	{"nvmlDeviceGetCurrPcieLinkWidth", number(gpu.PCIeLinkWidth, device.GetCurrPcieLinkWidth)},
	{"nvmlDeviceGetMaxPcieLinkWidth", number(gpu.PCIeLinkWidthMax, device.GetMaxPcieLinkWidth)},
	{"nvmlDeviceGetPerformanceState", func(h device) ([]gpu.HealthValue, ret) {
		state, r := h.GetPerformanceState()
		if r == gonvml.SUCCESS && (state < gonvml.PSTATE_0 || state > gonvml.PSTATE_15) {
			r = gonvml.ERROR_NO_DATA
		}
		return single(gpu.PerformanceState, float64(state)), r
	}},
}

func single(m gpu.HealthMetric, v float64) []gpu.HealthValue {
	return []gpu.HealthValue{{Metric: m, Value: v}}
}

// number reads a positive number.
func number(m gpu.HealthMetric, read func(device) (int, ret)) func(device) ([]gpu.HealthValue, ret) {
	return func(h device) ([]gpu.HealthValue, ret) {
		n, r := read(h)
		if r == gonvml.SUCCESS && (n <= 0 || n >= math.MaxInt32) {
			r = gonvml.ERROR_NO_DATA
		}
		return single(m, float64(n)), r
	}
}

func memoryErrors(m gpu.HealthMetric, labels []string, counter gonvml.EccCounterType, kind gonvml.MemoryErrorType) func(device) ([]gpu.HealthValue, ret) {
	return func(h device) ([]gpu.HealthValue, ret) {
		n, r := available64(h.GetMemoryErrorCounter(kind, counter, gonvml.MEMORY_LOCATION_SRAM))
		return []gpu.HealthValue{{Metric: m, Labels: labels, Value: float64(n)}}, r
	}
}

func rowHistogram(h device) ([]gpu.HealthValue, ret) {
	b, r := h.GetRowRemapperHistogram()
	return []gpu.HealthValue{
		{Metric: gpu.MemoryBanks, Labels: []string{"max"}, Value: float64(b.Max)},
		{Metric: gpu.MemoryBanks, Labels: []string{"high"}, Value: float64(b.High)},
		{Metric: gpu.MemoryBanks, Labels: []string{"partial"}, Value: float64(b.Partial)},
		{Metric: gpu.MemoryBanks, Labels: []string{"low"}, Value: float64(b.Low)},
		{Metric: gpu.MemoryBanks, Labels: []string{"none"}, Value: float64(b.None)},
	}, r
}

// A healthReader reads the health of one GPU.
type healthReader struct {
	// requested are the fields that are read, with their scopes, and rows their rows of healthFields.
	requested []gonvml.FieldValue
	rows      []int
	// refused are the calls that the GPU does not support.
	refused [64]bool
	// since is the boot clock since which fields and calls are omitted, 0 before the first reading.
	since time.Duration
	// values are the values of the last reading. They are replaced, never changed.
	values []gpu.HealthValue
}

// restart asks for everything.
func (x *healthReader) restart(now time.Duration) {
	*x = healthReader{since: now}
	for row, f := range healthFields {
		first, last := f.scope, f.scope
		if f.scope == eachLink {
			first, last = 0, gonvml.NVLINK_MAX_LINKS-1
		}
		for scope := uint64(first); scope <= uint64(last); scope++ {
			x.requested = append(x.requested, gonvml.FieldValue{FieldId: f.field, ScopeId: uint32(scope)})
			x.rows = append(x.rows, row)
		}
	}
}

// readHealth reads all values. After an error its values are absent.
func (g *gpuReader) readHealth() {
	x, now := &g.health, g.now().Boot
	if x.since == 0 || now-x.since > reaskAfter {
		x.restart(now)
	}
	x.values = nil
	values := g.readHealthFields()
	for i, c := range healthCalls {
		if x.refused[i] {
			continue
		}
		read, err := query(&inquiry{lib: g.lib}, c.symbol, func() ([]gpu.HealthValue, ret) { return c.read(g.handle) })
		if err != nil {
			x.refused[i] = unsupported(err)
			continue
		}
		values = append(values, read...)
	}
	x.values = values
}

// readHealthFields reads the fields that the GPU did not refuse.
func (g *gpuReader) readHealthFields() []gpu.HealthValue {
	x := &g.health
	if len(x.requested) == 0 {
		return nil
	}
	answers, err := query(&inquiry{lib: g.lib}, "nvmlDeviceGetFieldValues", func() ([]gonvml.FieldValue, ret) {
		for i := range x.requested {
			a := &x.requested[i]
			*a = gonvml.FieldValue{FieldId: a.FieldId, ScopeId: a.ScopeId, NvmlReturn: uint32(gonvml.ERROR_NOT_SUPPORTED)}
		}
		return x.requested, g.handle.GetFieldValues(x.requested)
	})
	if err != nil {
		return nil
	}
	var sum healthSum
	requested, rows := answers[:0], x.rows[:0]
	for i, a := range answers {
		row := x.rows[i]
		n, r := healthInteger(a)
		if r == gonvml.SUCCESS {
			sum.add(&healthFields[row], n)
		}
		if !unsupported(r) {
			requested, rows = append(requested, a), append(rows, row)
		}
	}
	x.requested, x.rows = requested, rows
	return sum.values
}

// healthInteger returns the value of a field. With ECC off, drivers return a double without a time for fields of ECC.
func healthInteger(v gonvml.FieldValue) (uint64, ret) {
	if r := ret(v.NvmlReturn); r != gonvml.SUCCESS {
		return 0, r
	}
	if v.FieldId <= gonvml.FI_DEV_RETIRED_PENDING && gonvml.ValueType(v.ValueType) == gonvml.VALUE_TYPE_DOUBLE && v.Timestamp == 0 && v.LatencyUsec == 0 {
		return 0, gonvml.ERROR_NOT_SUPPORTED
	}
	n, r := available64(fieldInteger(v))
	if r == gonvml.SUCCESS && n == math.MaxUint32 && gonvml.ValueType(v.ValueType) == gonvml.VALUE_TYPE_UNSIGNED_INT {
		r = gonvml.ERROR_NO_DATA
	}
	return n, r
}

// healthSum adds the values of fields and links with the same labels, which follow each other.
type healthSum struct{ values []gpu.HealthValue }

func (s *healthSum) add(f *healthField, n uint64) {
	v := gpu.HealthValue{Metric: f.metric, Labels: f.labels, Value: float64(n) / f.unit}
	switch {
	case f.metric == gpu.NVLinkLinks && n < uint64(len(linkStates)):
		v.Labels, v.Value = linkStates[n], 1
	case f.metric == gpu.NVLinkLinks, f.metric == gpu.MemoryTemperature && n == 0: // an unknown state, a GPU without the sensor
		return
	}
	for i := range s.values {
		if o := &s.values[i]; o.Metric == v.Metric && sameLabels(o.Labels, v.Labels) {
			o.Value += v.Value
			return
		}
	}
	s.values = append(s.values, v)
}

func sameLabels(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || a[0] == b[0] && a[len(a)-1] == b[len(b)-1])
}
