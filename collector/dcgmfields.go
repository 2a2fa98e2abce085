package collector

import "github.com/gpuledger/gpuledger/internal/gpu"

// FieldType is the type of a field in dcgm-exporter's files.
type FieldType string

// The types of fields.
const (
	FieldGauge   FieldType = "gauge"
	FieldCounter FieldType = "counter"
	FieldLabel   FieldType = "label"
)

// A DCGMField is a field of dcgm-exporter's default-counters.csv, or another of the profiling fields.
type DCGMField struct {
	Name string
	Type FieldType
	// Help is that of dcgm-exporter's file.
	Help string
	// Default is set if the file enables the field.
	Default bool
	// NVML is the origin of the value, or empty if the field needs a host engine or dcgm-exporter itself; Why is then
	// the reason.
	NVML, Why string

	value fieldValue
	text  func(gpu.Driver, *gpu.GPU) string
}

// The reasons why fields are not read from NVML.
const (
	ofDCGMExporter = "computed by dcgm-exporter over a window of its own; not served"
	needsGPM       = "profiling: host engine"
	notRead        = "not read by gpuledger: host engine"
)

// DCGMFields lists the fields of dcgm-exporter 4.8.2 in the order of its file.
var DCGMFields = []DCGMField{
	{Name: "DCGM_FI_DEV_SM_CLOCK", Type: FieldGauge, Help: "SM clock frequency (in MHz).", Default: true, NVML: "nvmlDeviceGetClockInfo", value: gaugeIn(gpu.SMClock, 1e-6)},
	{Name: "DCGM_FI_DEV_MEM_CLOCK", Type: FieldGauge, Help: "Memory clock frequency (in MHz).", Default: true, NVML: "nvmlDeviceGetClockInfo", value: gaugeIn(gpu.MemoryClock, 1e-6)},
	{Name: "DCGM_FI_DEV_MEMORY_TEMP", Type: FieldGauge, Help: "Memory temperature (in C).", Default: true, NVML: "field 82", value: healthIn(gpu.MemoryTemperature, 1)},
	{Name: "DCGM_FI_DEV_GPU_TEMP", Type: FieldGauge, Help: "GPU temperature (in C).", Default: true, NVML: "nvmlDeviceGetTemperature", value: gaugeIn(gpu.Temperature, 1)},
	{Name: "DCGM_FI_DEV_POWER_USAGE", Type: FieldGauge, Help: "Power draw (in W).", Default: true, NVML: "nvmlDeviceGetPowerUsage", value: gaugeIn(gpu.Power, 1)},
	{Name: "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", Type: FieldCounter, Help: "Total energy consumption since boot (in mJ).", Default: true, NVML: "nvmlDeviceGetTotalEnergyConsumption, or field 191 of the GPU where the driver has it", value: energyCounter},
	{Name: "DCGM_FI_PROF_PCIE_TX_BYTES", Type: FieldGauge, Help: "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads - in bytes per second.", Default: true, Why: needsGPM},
	{Name: "DCGM_FI_PROF_PCIE_RX_BYTES", Type: FieldGauge, Help: "The rate of data received over the PCIe bus - including both protocol headers and data payloads - in bytes per second.", Default: true, Why: needsGPM},
	{Name: "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", Type: FieldCounter, Help: "Total number of PCIe retries.", Default: true, NVML: "field 94", value: healthIn(gpu.PCIeErrors, 1, "replay")},
	{Name: "DCGM_FI_DEV_GPU_UTIL", Type: FieldGauge, Help: "GPU utilization (in %).", Default: true, NVML: "nvmlDeviceGetUtilizationRates", value: gaugeIn(gpu.Utilization, 100)},
	{Name: "DCGM_FI_DEV_MEM_COPY_UTIL", Type: FieldGauge, Help: "Memory utilization (in %).", Default: true, NVML: "nvmlDeviceGetUtilizationRates", value: healthIn(gpu.MemoryUtilization, 100)},
	{Name: "DCGM_FI_DEV_ENC_UTIL", Type: FieldGauge, Help: "Encoder utilization (in %).", Default: true, NVML: "nvmlDeviceGetEncoderUtilization", value: healthIn(gpu.EncoderUtilization, 100)},
	{Name: "DCGM_FI_DEV_DEC_UTIL", Type: FieldGauge, Help: "Decoder utilization (in %).", Default: true, NVML: "nvmlDeviceGetDecoderUtilization", value: healthIn(gpu.DecoderUtilization, 100)},
	{Name: "DCGM_FI_DEV_XID_ERRORS", Type: FieldGauge, Help: "Value of the last XID error encountered.", Default: true, NVML: "events, and the kernel's log if it is read", value: lastXID},
	{Name: "DCGM_FI_DEV_POWER_VIOLATION", Type: FieldCounter, Help: "Throttling duration due to power constraints (in ns).", NVML: "field 74", value: healthIn(gpu.ClockLimitedTime, 1e9, "power_cap")},
	{Name: "DCGM_FI_DEV_THERMAL_VIOLATION", Type: FieldCounter, Help: "Throttling duration due to thermal constraints (in ns).", Why: notRead},
	{Name: "DCGM_FI_DEV_SYNC_BOOST_VIOLATION", Type: FieldCounter, Help: "Throttling duration due to sync-boost constraints (in ns).", NVML: "field 76", value: healthIn(gpu.ClockLimitedTime, 1e9, "sync_boost")},
	{Name: "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", Type: FieldCounter, Help: "Throttling duration due to board limit constraints (in ns).", NVML: "field 77", value: healthIn(gpu.ClockLimitedTime, 1e9, "board_limit")},
	{Name: "DCGM_FI_DEV_LOW_UTIL_VIOLATION", Type: FieldCounter, Help: "Throttling duration due to low utilization (in ns).", NVML: "field 78", value: healthIn(gpu.ClockLimitedTime, 1e9, "low_utilization")},
	{Name: "DCGM_FI_DEV_RELIABILITY_VIOLATION", Type: FieldCounter, Help: "Throttling duration due to reliability constraints (in ns).", NVML: "field 79", value: healthIn(gpu.ClockLimitedTime, 1e9, "reliability")},
	{Name: "DCGM_EXP_CLOCK_EVENTS_COUNT", Type: FieldCounter, Help: "reported clock events", Why: ofDCGMExporter},
	{Name: "DCGM_EXP_XID_ERRORS_COUNT", Type: FieldCounter, Help: "reported XIDs during last window", Why: ofDCGMExporter},
	{Name: "DCGM_EXP_GPU_HEALTH_STATUS", Type: FieldCounter, Help: "DCGM reported health status", Why: "needs DCGM's health checks; not served"},
	{Name: "DCGM_EXP_P2P_STATUS", Type: FieldCounter, Help: "P2P NvLink status", Why: "of pairs of GPUs; not served"},
	{Name: "DCGM_FI_DEV_FB_FREE", Type: FieldGauge, Help: "Framebuffer memory free (in MiB).", Default: true, NVML: "nvmlDeviceGetMemoryInfo_v2", value: ofReading(memoryFree)},
	{Name: "DCGM_FI_DEV_FB_USED", Type: FieldGauge, Help: "Framebuffer memory used (in MiB).", Default: true, NVML: "nvmlDeviceGetMemoryInfo_v2", value: memoryGauge(gpu.MemoryUsed)},
	{Name: "DCGM_FI_DEV_FB_RESERVED", Type: FieldGauge, Help: "Framebuffer memory reserved (in MiB).", Default: true, NVML: "nvmlDeviceGetMemoryInfo_v2", value: memoryGauge(gpu.MemoryReserved)},
	{Name: "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", Type: FieldCounter, Help: "Total number of single-bit volatile ECC errors.", Why: totalsNotRead},
	{Name: "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", Type: FieldCounter, Help: "Total number of double-bit volatile ECC errors.", Why: totalsNotRead},
	{Name: "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", Type: FieldCounter, Help: "Total number of single-bit persistent ECC errors.", Why: totalsNotRead},
	{Name: "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", Type: FieldCounter, Help: "Total number of double-bit persistent ECC errors.", Why: totalsNotRead},
	{Name: "DCGM_FI_DEV_RETIRED_SBE", Type: FieldCounter, Help: "Total number of retired pages due to single-bit errors.", NVML: "field 29", value: healthIn(gpu.RetiredPages, 1, "correctable")},
	{Name: "DCGM_FI_DEV_RETIRED_DBE", Type: FieldCounter, Help: "Total number of retired pages due to double-bit errors.", NVML: "field 30", value: healthIn(gpu.RetiredPages, 1, "uncorrectable")},
	{Name: "DCGM_FI_DEV_RETIRED_PENDING", Type: FieldCounter, Help: "Total number of pages pending retirement.", NVML: "field 31", value: healthIn(gpu.RetiredPagesPending, 1)},
	{Name: "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", Type: FieldCounter, Help: "Total number of NVLink flow-control CRC errors.", NVML: "field 38", value: healthIn(gpu.NVLinkErrors, 1, "crc_flit")},
	{Name: "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", Type: FieldCounter, Help: "Total number of NVLink data CRC errors.", NVML: "field 45", value: healthIn(gpu.NVLinkErrors, 1, "crc_data")},
	{Name: "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", Type: FieldCounter, Help: "Total number of NVLink retries.", NVML: "field 52", value: healthIn(gpu.NVLinkErrors, 1, "replay")},
	{Name: "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", Type: FieldCounter, Help: "Total number of NVLink recovery errors.", NVML: "field 59; on NVLink 5 field 213, where DCGM has none", value: healthIn(gpu.NVLinkErrors, 1, "recovery")},
	{Name: "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", Type: FieldCounter, Help: "Total number of NVLink bandwidth counters for all lanes.", Default: true, NVML: "fields 138 and 139 over ten seconds; as in DCGM a rate, absent instead of 0 in the first reading", value: ofReading(nvlinkRate)},
	{Name: "DCGM_FI_DEV_NVLINK_BANDWIDTH_L0", Type: FieldCounter, Help: "The number of bytes of active NVLink rx or tx data including both header and payload.", Why: notRead},
	{Name: "DCGM_FI_DEV_VGPU_LICENSE_STATUS", Type: FieldGauge, Help: "vGPU License status", Default: true, Why: notRead},
	{Name: "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", Type: FieldCounter, Help: "Number of remapped rows for uncorrectable errors", Default: true, NVML: "nvmlDeviceGetRemappedRows", value: remapped(func(r *gpu.RowRemap) float64 { return float64(r.Uncorrectable) })},
	{Name: "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", Type: FieldCounter, Help: "Number of remapped rows for correctable errors", Default: true, NVML: "nvmlDeviceGetRemappedRows", value: remapped(func(r *gpu.RowRemap) float64 { return float64(r.Correctable) })},
	{Name: "DCGM_FI_DEV_ROW_REMAP_FAILURE", Type: FieldGauge, Help: "Whether remapping of rows has failed", Default: true, NVML: "nvmlDeviceGetRemappedRows", value: remapped(rowsFailed)},
	{Name: "DCGM_FI_DRIVER_VERSION", Type: FieldLabel, Help: "Driver Version", Default: true, NVML: "nvmlSystemGetDriverVersion", text: func(d gpu.Driver, _ *gpu.GPU) string { return d.Version }},
	{Name: "DCGM_FI_NVML_VERSION", Type: FieldLabel, Help: "NVML Version", NVML: "nvmlSystemGetNVMLVersion", text: func(d gpu.Driver, _ *gpu.GPU) string { return d.Details["nvml_version"] }},
	{Name: "DCGM_FI_DEV_BRAND", Type: FieldLabel, Help: "Device Brand", Why: notRead},
	{Name: "DCGM_FI_DEV_SERIAL", Type: FieldLabel, Help: "Device Serial Number", NVML: "nvmlDeviceGetSerial", text: func(_ gpu.Driver, g *gpu.GPU) string { return g.Serial }},
	{Name: "DCGM_FI_DEV_OEM_INFOROM_VER", Type: FieldLabel, Help: "OEM inforom version", Why: notRead},
	{Name: "DCGM_FI_DEV_ECC_INFOROM_VER", Type: FieldLabel, Help: "ECC inforom version", Why: notRead},
	{Name: "DCGM_FI_DEV_POWER_INFOROM_VER", Type: FieldLabel, Help: "Power management object inforom version", Why: notRead},
	{Name: "DCGM_FI_DEV_INFOROM_IMAGE_VER", Type: FieldLabel, Help: "Inforom image version", Why: notRead},
	{Name: "DCGM_FI_DEV_VBIOS_VERSION", Type: FieldLabel, Help: "VBIOS version of the device", NVML: "nvmlDeviceGetVbiosVersion", text: func(_ gpu.Driver, g *gpu.GPU) string { return g.VBIOSVersion }},
	{Name: "DCGM_FI_PROF_GR_ENGINE_ACTIVE", Type: FieldGauge, Help: "Ratio of time the graphics engine is active.", Default: true, Why: needsGPM},
	{Name: "DCGM_FI_PROF_SM_ACTIVE", Type: FieldGauge, Help: "The ratio of cycles an SM has at least 1 warp assigned.", Why: needsGPM},
	{Name: "DCGM_FI_PROF_SM_OCCUPANCY", Type: FieldGauge, Help: "The ratio of number of warps resident on an SM.", Why: needsGPM},
	{Name: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", Type: FieldGauge, Help: "Ratio of cycles the tensor (HMMA) pipe is active.", Default: true, Why: needsGPM},
	{Name: "DCGM_FI_PROF_DRAM_ACTIVE", Type: FieldGauge, Help: "Ratio of cycles the device memory interface is active sending or receiving data.", Default: true, Why: needsGPM},
	{Name: "DCGM_FI_PROF_PIPE_FP64_ACTIVE", Type: FieldGauge, Help: "Ratio of cycles the fp64 pipes are active.", Why: needsGPM},
	{Name: "DCGM_FI_PROF_PIPE_FP32_ACTIVE", Type: FieldGauge, Help: "Ratio of cycles the fp32 pipes are active.", Why: needsGPM},
	{Name: "DCGM_FI_PROF_PIPE_FP16_ACTIVE", Type: FieldGauge, Help: "Ratio of cycles the fp16 pipes are active.", Why: needsGPM},
	{Name: "DCGM_FI_PROF_NVLINK_TX_BYTES", Type: FieldGauge, Help: "The rate of data transmitted over NVLink, not including protocol headers, in bytes per second.", Why: needsGPM},
	{Name: "DCGM_FI_PROF_NVLINK_RX_BYTES", Type: FieldGauge, Help: "The rate of data received over NVLink, not including protocol headers, in bytes per second.", Why: needsGPM},
}

// totalsNotRead is the reason for the totals of ECC errors.
const totalsNotRead = "only parts of the total are read, see `gpuledger_gpu_ecc_errors_total`: host engine"

func rowsFailed(r *gpu.RowRemap) float64 {
	if r.Failed {
		return 1
	}
	return 0
}
