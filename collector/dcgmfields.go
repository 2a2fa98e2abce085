package collector

import "github.com/gpuledger/gpuledger/internal/gpu"

// FieldType is the metric type of a field in dcgm-exporter's field files.
type FieldType string

// These are the field types.
const (
	FieldGauge   FieldType = "gauge"
	FieldCounter FieldType = "counter"
	FieldLabel   FieldType = "label"
)

// A DCGMField describes a field from dcgm-exporter's default-counters.csv, or another profiling field.
type DCGMField struct {
	Name string
	Type FieldType
	Help string
	// Default is set if the field is enabled in default-counters.csv.
	Default bool
	// NVML describes the source of the value in NVML, such as a function or a field. If the field needs a host engine
	// or dcgm-exporter itself, NVML is empty, and Why contains the reason.
	NVML, Why string
	// Flag is the exporter's flag that enables this field. It is empty if the exporter reads the field by default.
	Flag string

	value fieldValue
	text  fieldText
}

const (
	ofDCGMExporter = "computed by dcgm-exporter over a window; not served"
	notRead        = "needs a host engine"
)

const byGPM = "`--collector.profiling`: GPM metric"

// DCGMFields contains the fields of dcgm-exporter 4.8.2, in the order of its file default-counters.csv. The names and
// types are copied from this file.
var DCGMFields = []DCGMField{
	{Name: "DCGM_FI_DEV_SM_CLOCK", Type: FieldGauge, Help: "SM clock frequency (in MHz).", Default: true, NVML: "nvmlDeviceGetClockInfo", value: gaugeIn(gpu.SMClock, 1e-6)},
	{Name: "DCGM_FI_DEV_MEM_CLOCK", Type: FieldGauge, Help: "Memory clock frequency (in MHz).", Default: true, NVML: "nvmlDeviceGetClockInfo", value: gaugeIn(gpu.MemoryClock, 1e-6)},
	{Name: "DCGM_FI_DEV_MEMORY_TEMP", Type: FieldGauge, Help: "Memory temperature (in C).", Default: true, NVML: "field 82", value: healthIn(gpu.MemoryTemperature, 1)},
	{Name: "DCGM_FI_DEV_GPU_TEMP", Type: FieldGauge, Help: "GPU temperature (in C).", Default: true, NVML: "nvmlDeviceGetTemperature", value: gaugeIn(gpu.Temperature, 1)},
	{Name: "DCGM_FI_DEV_POWER_USAGE", Type: FieldGauge, Help: "Power draw (in W).", Default: true, NVML: "nvmlDeviceGetPowerUsage", value: gaugeIn(gpu.Power, 1)},
	{Name: "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", Type: FieldCounter, Help: "Energy since the driver was loaded (in mJ).", Default: true, NVML: "nvmlDeviceGetTotalEnergyConsumption, or field 191 for the GPU if the driver supports it", value: energyCounter},
	{Name: "DCGM_FI_PROF_PCIE_TX_BYTES", Type: FieldGauge, Help: "PCIe transmit rate with headers (in B/s).", Default: true, Flag: FlagProfiling, NVML: byGPM + " 20", value: profileIn(gpu.PCIeTransmitRate)},
	{Name: "DCGM_FI_PROF_PCIE_RX_BYTES", Type: FieldGauge, Help: "PCIe receive rate with headers (in B/s).", Default: true, Flag: FlagProfiling, NVML: byGPM + " 21", value: profileIn(gpu.PCIeReceiveRate)},
	{Name: "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", Type: FieldCounter, Help: "PCIe retries.", Default: true, NVML: "field 94", value: healthIn(gpu.PCIeErrors, 1, "replay")},
	{Name: "DCGM_FI_DEV_GPU_UTIL", Type: FieldGauge, Help: "GPU utilisation (in %).", Default: true, NVML: "nvmlDeviceGetUtilizationRates", value: gaugeIn(gpu.Utilization, 100)},
	{Name: "DCGM_FI_DEV_MEM_COPY_UTIL", Type: FieldGauge, Help: "Memory utilisation (in %).", Default: true, NVML: "nvmlDeviceGetUtilizationRates", value: healthIn(gpu.MemoryUtilization, 100)},
	{Name: "DCGM_FI_DEV_ENC_UTIL", Type: FieldGauge, Help: "Encoder utilisation (in %).", Default: true, NVML: "nvmlDeviceGetEncoderUtilization", value: healthIn(gpu.EncoderUtilization, 100)},
	{Name: "DCGM_FI_DEV_DEC_UTIL", Type: FieldGauge, Help: "Decoder utilisation (in %).", Default: true, NVML: "nvmlDeviceGetDecoderUtilization", value: healthIn(gpu.DecoderUtilization, 100)},
	{Name: "DCGM_FI_DEV_XID_ERRORS", Type: FieldGauge, Help: "XID of the last error, or 0 if there was no error.", Default: true, NVML: "events, and the kernel's log if it is read", value: lastXID},
	{Name: "DCGM_FI_DEV_POWER_VIOLATION", Type: FieldCounter, Help: "Time throttled because of power (in ns).", NVML: "field 74", value: healthIn(gpu.ClockLimitedTime, 1e9, "power_cap")},
	{Name: "DCGM_FI_DEV_THERMAL_VIOLATION", Type: FieldCounter, Help: "Time throttled because of temperature (in ns).", Why: notRead},
	{Name: "DCGM_FI_DEV_SYNC_BOOST_VIOLATION", Type: FieldCounter, Help: "Time throttled because of sync boost (in ns).", NVML: "field 76", value: healthIn(gpu.ClockLimitedTime, 1e9, "sync_boost")},
	{Name: "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", Type: FieldCounter, Help: "Time throttled because of a board limit (in ns).", NVML: "field 77", value: healthIn(gpu.ClockLimitedTime, 1e9, "board_limit")},
	{Name: "DCGM_FI_DEV_LOW_UTIL_VIOLATION", Type: FieldCounter, Help: "Time throttled because of low utilisation (in ns).", NVML: "field 78", value: healthIn(gpu.ClockLimitedTime, 1e9, "low_utilization")},
	{Name: "DCGM_FI_DEV_RELIABILITY_VIOLATION", Type: FieldCounter, Help: "Time throttled because of reliability (in ns).", NVML: "field 79", value: healthIn(gpu.ClockLimitedTime, 1e9, "reliability")},
	{Name: "DCGM_EXP_CLOCK_EVENTS_COUNT", Type: FieldCounter, Help: "Clock events in a window.", Why: ofDCGMExporter},
	{Name: "DCGM_EXP_XID_ERRORS_COUNT", Type: FieldCounter, Help: "XIDs in a window.", Why: ofDCGMExporter},
	{Name: "DCGM_EXP_GPU_HEALTH_STATUS", Type: FieldCounter, Help: "Result of DCGM's health checks.", Why: "needs DCGM's health checks; not served"},
	{Name: "DCGM_EXP_P2P_STATUS", Type: FieldCounter, Help: "State of NVLink between two GPUs.", Why: "describes pairs of GPUs; not served"},
	{Name: "DCGM_FI_DEV_FB_FREE", Type: FieldGauge, Help: "Framebuffer memory free (in MiB).", Default: true, NVML: "nvmlDeviceGetMemoryInfo_v2", value: ofReading(memoryFree)},
	{Name: "DCGM_FI_DEV_FB_USED", Type: FieldGauge, Help: "Framebuffer memory used (in MiB).", Default: true, NVML: "nvmlDeviceGetMemoryInfo_v2", value: memoryGauge(gpu.MemoryUsed)},
	{Name: "DCGM_FI_DEV_FB_RESERVED", Type: FieldGauge, Help: "Framebuffer memory reserved by the driver (in MiB).", Default: true, NVML: "nvmlDeviceGetMemoryInfo_v2", value: memoryGauge(gpu.MemoryReserved)},
	{Name: "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", Type: FieldCounter, Help: "Single-bit ECC errors since the driver was loaded.", Why: totalsNotRead},
	{Name: "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", Type: FieldCounter, Help: "Double-bit ECC errors since the driver was loaded.", Why: totalsNotRead},
	{Name: "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", Type: FieldCounter, Help: "Single-bit ECC errors in the board's life.", Why: totalsNotRead},
	{Name: "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", Type: FieldCounter, Help: "Double-bit ECC errors in the board's life.", Why: totalsNotRead},
	{Name: "DCGM_FI_DEV_RETIRED_SBE", Type: FieldCounter, Help: "Pages retired because of single-bit errors.", NVML: "field 29", value: healthIn(gpu.RetiredPages, 1, "correctable")},
	{Name: "DCGM_FI_DEV_RETIRED_DBE", Type: FieldCounter, Help: "Pages retired because of double-bit errors.", NVML: "field 30", value: healthIn(gpu.RetiredPages, 1, "uncorrectable")},
	{Name: "DCGM_FI_DEV_RETIRED_PENDING", Type: FieldCounter, Help: "Pages that will be retired.", NVML: "field 31", value: healthIn(gpu.RetiredPagesPending, 1)},
	{Name: "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", Type: FieldCounter, Help: "NVLink flow-control CRC errors.", NVML: "field 38", value: healthIn(gpu.NVLinkErrors, 1, "crc_flit")},
	{Name: "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", Type: FieldCounter, Help: "NVLink data CRC errors.", NVML: "field 45", value: healthIn(gpu.NVLinkErrors, 1, "crc_data")},
	{Name: "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", Type: FieldCounter, Help: "NVLink retries.", NVML: "field 52", value: healthIn(gpu.NVLinkErrors, 1, "replay")},
	{Name: "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", Type: FieldCounter, Help: "NVLink recoveries.", NVML: "field 59; on NVLink 5 field 213, for which DCGM has no field", value: healthIn(gpu.NVLinkErrors, 1, "recovery")},
	{Name: "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", Type: FieldCounter, Help: "NVLink traffic of all lanes.", Default: true, NVML: "rate of fields 138 and 139 over ten seconds, as in DCGM; the first reading has no value, but in DCGM it is 0", value: ofReading(nvlinkRate)},
	{Name: "DCGM_FI_DEV_NVLINK_BANDWIDTH_L0", Type: FieldCounter, Help: "NVLink traffic of link 0.", Why: notRead},
	{Name: "DCGM_FI_DEV_VGPU_LICENSE_STATUS", Type: FieldGauge, Help: "Whether the vGPU has a licence.", Default: true, Why: notRead},
	{Name: "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", Type: FieldCounter, Help: "Rows remapped because of uncorrectable errors.", Default: true, NVML: "nvmlDeviceGetRemappedRows", value: remapped(func(r *gpu.RowRemap) float64 { return float64(r.Uncorrectable) })},
	{Name: "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", Type: FieldCounter, Help: "Rows remapped because of correctable errors.", Default: true, NVML: "nvmlDeviceGetRemappedRows", value: remapped(func(r *gpu.RowRemap) float64 { return float64(r.Correctable) })},
	{Name: "DCGM_FI_DEV_ROW_REMAP_FAILURE", Type: FieldGauge, Help: "Whether a row could not be remapped.", Default: true, NVML: "nvmlDeviceGetRemappedRows", value: remapped(rowsFailed)},
	{Name: "DCGM_FI_DRIVER_VERSION", Type: FieldLabel, Help: "Version of the driver.", Default: true, NVML: "nvmlSystemGetDriverVersion", text: func(d gpu.Driver, _ *gpu.GPU) string { return d.Version }},
	{Name: "DCGM_FI_NVML_VERSION", Type: FieldLabel, Help: "Version of NVML.", NVML: "nvmlSystemGetNVMLVersion", text: func(d gpu.Driver, _ *gpu.GPU) string { return d.Details["nvml_version"] }},
	{Name: "DCGM_FI_DEV_BRAND", Type: FieldLabel, Help: "Brand of the GPU.", Why: notRead},
	{Name: "DCGM_FI_DEV_SERIAL", Type: FieldLabel, Help: "Serial number of the board.", NVML: "nvmlDeviceGetSerial", text: func(_ gpu.Driver, g *gpu.GPU) string { return g.Serial }},
	{Name: "DCGM_FI_DEV_OEM_INFOROM_VER", Type: FieldLabel, Help: "Version of the InfoROM's OEM object.", Why: notRead},
	{Name: "DCGM_FI_DEV_ECC_INFOROM_VER", Type: FieldLabel, Help: "Version of the InfoROM's ECC object.", Why: notRead},
	{Name: "DCGM_FI_DEV_POWER_INFOROM_VER", Type: FieldLabel, Help: "Version of the InfoROM's power object.", Why: notRead},
	{Name: "DCGM_FI_DEV_INFOROM_IMAGE_VER", Type: FieldLabel, Help: "Version of the InfoROM's image.", Flag: FlagDetails, NVML: "`--collector.health.details`: nvmlDeviceGetInforomImageVersion", text: firmwareVersion("inforom")},
	{Name: "DCGM_FI_DEV_VBIOS_VERSION", Type: FieldLabel, Help: "Version of the VBIOS.", NVML: "nvmlDeviceGetVbiosVersion", text: func(_ gpu.Driver, g *gpu.GPU) string { return g.VBIOSVersion }},
	{Name: "DCGM_FI_PROF_GR_ENGINE_ACTIVE", Type: FieldGauge, Help: "Fraction of the time in which the graphics engine is active.", Default: true, Flag: FlagProfiling, NVML: byGPM + " 1", value: profileIn(gpu.GraphicsActive)},
	{Name: "DCGM_FI_PROF_SM_ACTIVE", Type: FieldGauge, Help: "Fraction of the time in which a multiprocessor has a warp.", Flag: FlagProfiling, NVML: byGPM + " 2", value: profileIn(gpu.SMActive)},
	{Name: "DCGM_FI_PROF_SM_OCCUPANCY", Type: FieldGauge, Help: "Fraction of the possible warps that are on multiprocessors.", Flag: FlagProfiling, NVML: byGPM + " 3", value: profileIn(gpu.SMOccupancy)},
	{Name: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", Type: FieldGauge, Help: "Fraction of the time in which the tensor cores are active.", Default: true, Flag: FlagProfiling, NVML: byGPM + " 5", value: profileIn(gpu.TensorActive)},
	{Name: "DCGM_FI_PROF_DRAM_ACTIVE", Type: FieldGauge, Help: "Fraction of the time in which memory is read or written.", Default: true, Flag: FlagProfiling, NVML: byGPM + " 10", value: profileIn(gpu.DRAMActive)},
	{Name: "DCGM_FI_PROF_PIPE_FP64_ACTIVE", Type: FieldGauge, Help: "Fraction of the time in which the FP64 cores are active.", Flag: FlagProfiling, NVML: byGPM + " 11", value: profileIn(gpu.FP64Active)},
	{Name: "DCGM_FI_PROF_PIPE_FP32_ACTIVE", Type: FieldGauge, Help: "Fraction of the time in which the FP32 cores are active.", Flag: FlagProfiling, NVML: byGPM + " 12", value: profileIn(gpu.FP32Active)},
	{Name: "DCGM_FI_PROF_PIPE_FP16_ACTIVE", Type: FieldGauge, Help: "Fraction of the time in which the FP16 cores are active.", Flag: FlagProfiling, NVML: byGPM + " 13", value: profileIn(gpu.FP16Active)},
	{Name: "DCGM_FI_PROF_NVLINK_TX_BYTES", Type: FieldGauge, Help: "NVLink transmit rate without headers (in B/s).", Flag: FlagProfiling, NVML: byGPM + " 61", value: profileIn(gpu.NVLinkTransmitRate)},
	{Name: "DCGM_FI_PROF_NVLINK_RX_BYTES", Type: FieldGauge, Help: "NVLink receive rate without headers (in B/s).", Flag: FlagProfiling, NVML: byGPM + " 60", value: profileIn(gpu.NVLinkReceiveRate)},
}

const totalsNotRead = "needs a host engine; `gpuledger_gpu_ecc_errors_total` contains parts of the total"

func rowsFailed(r *gpu.RowRemap) float64 {
	if r.Failed {
		return 1
	}
	return 0
}
