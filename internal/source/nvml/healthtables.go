package nvml

import (
	"math"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Scopes of a field (nvml.h, nvmlFieldValue_t). NVML does not define eachLink: it means one request for each link.
const (
	wholeGPU uint32 = 0
	allLinks uint32 = math.MaxUint32
	eachLink uint32 = math.MaxUint32 - 1
)

// A healthField is a field of nvmlDeviceGetFieldValues. Its value divided by unit is the value of the metric. The
// values of links with the same labels are added up.
type healthField struct {
	metric gpu.HealthMetric
	labels []string
	field  uint32
	scope  uint32
	unit   float64
}

// healthFields are read with one call. The driver's units are ns for times, °C for temperatures, mW for power, and KiB
// for bytes over NVLink.
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

var (
	dramCorrectable   = []string{"dram", "correctable"}
	dramUncorrectable = []string{"dram", "uncorrectable"}
	sramCorrectable   = []string{"sram", "correctable"}
	sramUncorrectable = []string{"sram", "uncorrectable"}
)

// linkStates contains the labels of the states NVML_NVLINK_STATE_* (nvml.h).
var linkStates = [][]string{{"inactive"}, {"active"}, {"sleep"}, {"traffic_disabled"}}

var healthCalls = []healthCall{
	{"nvmlDeviceGetUtilizationRates", 0, func(g *gpuReader) ([]gpu.HealthValue, ret) {
		u, r := g.utilization()
		return percent(gpu.MemoryUtilization, u.Memory, r)
	}},
	{"nvmlDeviceGetMemoryErrorCounter", 0, memoryErrors(gpu.ECCErrors, sramCorrectable, gonvml.VOLATILE_ECC, gonvml.MEMORY_ERROR_TYPE_CORRECTED)},
	{"nvmlDeviceGetMemoryErrorCounter", 0, memoryErrors(gpu.ECCErrors, sramUncorrectable, gonvml.VOLATILE_ECC, gonvml.MEMORY_ERROR_TYPE_UNCORRECTED)},
	{"nvmlDeviceGetMemoryErrorCounter", 0, memoryErrors(gpu.ECCLifetimeErrors, sramCorrectable, gonvml.AGGREGATE_ECC, gonvml.MEMORY_ERROR_TYPE_CORRECTED)},
	{"nvmlDeviceGetMemoryErrorCounter", 0, memoryErrors(gpu.ECCLifetimeErrors, sramUncorrectable, gonvml.AGGREGATE_ECC, gonvml.MEMORY_ERROR_TYPE_UNCORRECTED)},
	{"nvmlDeviceGetSramEccErrorStatus", 0, func(g *gpuReader) ([]gpu.HealthValue, ret) {
		s, r := g.handle.GetSramEccErrorStatus()
		return single(gpu.SRAMThresholdExceeded, float64(min(s.BThresholdExceeded, 1))), r
	}},
	{"nvmlDeviceGetRowRemapperHistogram", 0, rowHistogram},
	{"nvmlDeviceGetCurrPcieLinkGeneration", 0, number(gpu.PCIeLinkGeneration, device.GetCurrPcieLinkGeneration)},
	{"nvmlDeviceGetMaxPcieLinkGeneration", seldom, number(gpu.PCIeLinkGenerationMax, device.GetMaxPcieLinkGeneration)},
	{"nvmlDeviceGetCurrPcieLinkWidth", 0, number(gpu.PCIeLinkWidth, device.GetCurrPcieLinkWidth)},
	{"nvmlDeviceGetMaxPcieLinkWidth", seldom, number(gpu.PCIeLinkWidthMax, device.GetMaxPcieLinkWidth)},
	{"nvmlDeviceGetPerformanceState", 0, func(g *gpuReader) ([]gpu.HealthValue, ret) {
		state, r := g.handle.GetPerformanceState()
		if r == gonvml.SUCCESS && (state < gonvml.PSTATE_0 || state > gonvml.PSTATE_15) {
			r = gonvml.ERROR_NO_DATA
		}
		return single(gpu.PerformanceState, float64(state)), r
	}},
	{"nvmlDeviceGetEncoderUtilization", 0, func(g *gpuReader) ([]gpu.HealthValue, ret) {
		u, _, r := g.handle.GetEncoderUtilization()
		return percent(gpu.EncoderUtilization, u, r)
	}},
	{"nvmlDeviceGetDecoderUtilization", 0, func(g *gpuReader) ([]gpu.HealthValue, ret) {
		u, _, r := g.handle.GetDecoderUtilization()
		return percent(gpu.DecoderUtilization, u, r)
	}},
}

func percent(m gpu.HealthMetric, n uint32, r ret) ([]gpu.HealthValue, ret) {
	if r == gonvml.SUCCESS && n > 100 {
		r = gonvml.ERROR_NO_DATA
	}
	return single(m, float64(n)/100), r
}

func single(m gpu.HealthMetric, v float64, labels ...string) []gpu.HealthValue {
	return []gpu.HealthValue{{Metric: m, Labels: labels, Value: v}}
}

// number treats 0 as unknown.
func number(m gpu.HealthMetric, read func(device) (int, ret)) func(*gpuReader) ([]gpu.HealthValue, ret) {
	return func(g *gpuReader) ([]gpu.HealthValue, ret) {
		n, r := read(g.handle)
		if r == gonvml.SUCCESS && (n <= 0 || n >= math.MaxInt32) {
			r = gonvml.ERROR_NO_DATA
		}
		return single(m, float64(n)), r
	}
}

func memoryErrors(m gpu.HealthMetric, labels []string, counter gonvml.EccCounterType, kind gonvml.MemoryErrorType) func(*gpuReader) ([]gpu.HealthValue, ret) {
	return func(g *gpuReader) ([]gpu.HealthValue, ret) {
		n, r := available64(g.handle.GetMemoryErrorCounter(kind, counter, gonvml.MEMORY_LOCATION_SRAM))
		return single(m, float64(n), labels...), r
	}
}

func rowHistogram(g *gpuReader) ([]gpu.HealthValue, ret) {
	b, r := g.handle.GetRowRemapperHistogram()
	return []gpu.HealthValue{
		{Metric: gpu.MemoryBanks, Labels: []string{"max"}, Value: float64(b.Max)},
		{Metric: gpu.MemoryBanks, Labels: []string{"high"}, Value: float64(b.High)},
		{Metric: gpu.MemoryBanks, Labels: []string{"partial"}, Value: float64(b.Partial)},
		{Metric: gpu.MemoryBanks, Labels: []string{"low"}, Value: float64(b.Low)},
		{Metric: gpu.MemoryBanks, Labels: []string{"none"}, Value: float64(b.None)},
	}, r
}
