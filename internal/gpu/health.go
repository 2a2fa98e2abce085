package gpu

import "slices"

// HealthMetric identifies a health metric of a GPU. [HealthInfos] describes each metric.
type HealthMetric int

// The health metrics.
const (
	ECCEnabled HealthMetric = iota
	ECCEnabledPending
	ECCErrors
	ECCLifetimeErrors
	SRAMThresholdExceeded
	RetiredPages
	RetiredPagesPending
	MemoryBanks
	PCIeErrors
	PCIeBytes
	PCIeLinkGeneration
	PCIeLinkGenerationMax
	PCIeLinkWidth
	PCIeLinkWidthMax
	NVLinkErrors
	NVLinkBytes
	NVLinkLinks
	ClockLimitedTime
	MemoryTemperature
	PowerLimits
	PerformanceState
	MemoryUtilization
	EncoderUtilization
	DecoderUtilization

	TemperatureMargin
	HighestClocks
	FanSpeed
	ClockReasons
	C2CLinks
	C2CLinksActive
	InfoROMValid
	FirmwareVersions
	Modes
	NumHealthMetrics
)

// HealthValue is one value of a metric, in its base unit.
type HealthValue struct {
	Metric HealthMetric
	// Labels contains the values of the metric's labels. The slice is never changed.
	Labels []string
	Value  float64
}

func (v *HealthValue) sameAs(o HealthValue) bool {
	return v.Metric == o.Metric && slices.Equal(v.Labels, o.Labels)
}

// AddHealth adds v to the value with the same metric and labels. If there is no such value, it
// appends v.
func AddHealth(values []HealthValue, v HealthValue) []HealthValue {
	i := slices.IndexFunc(values, v.sameAs)
	if i < 0 {
		return append(values, v)
	}
	values[i].Value += v.Value
	return values
}

// HealthInfo describes a health metric. The metric is called gpuledger_gpu_<Name>.
type HealthInfo struct {
	Name, Unit string
	// Counter is set if the metric is a counter. It counts from the time at which the driver was loaded.
	Counter bool
	// Detail is set if the values of the metric are in [Reading.Details] instead of [Reading.Health].
	Detail bool
	Labels []string
	// Help is the help text of the metric. It does not contain Source.
	Help string
	// Source names the NVML function that reads the metric, or the field of nvmlDeviceGetFieldValues that contains it.
	// For AMD GPUs, docs/amd.md lists the file of each metric.
	Source string
}

// HealthInfos contains a row for each metric.
var HealthInfos = [NumHealthMetrics]HealthInfo{
	ECCEnabled: {
		Name: "ecc_enabled", Source: "field 1",
		Help: "1 if the GPU corrects errors in its memory (ECC).",
	},
	ECCEnabledPending: {
		Name: "ecc_enabled_pending", Source: "field 2",
		Help: "1 if the GPU will correct errors in its memory after the next reset.",
	},
	ECCErrors: {
		Name: "ecc_errors_total", Counter: true, Labels: []string{"memory", "error"}, Source: "fields 11 and 12, nvmlDeviceGetMemoryErrorCounter",
		Help: "Memory errors since the driver was loaded.",
	},
	ECCLifetimeErrors: {
		Name: "ecc_lifetime_errors", Labels: []string{"memory", "error"}, Source: "fields 22 and 23, nvmlDeviceGetMemoryErrorCounter",
		Help: "Memory errors over the life of the board.",
	},
	SRAMThresholdExceeded: {
		Name: "sram_ecc_threshold_exceeded", Source: "nvmlDeviceGetSramEccErrorStatus",
		Help: "1 if the SRAM errors exceed the limit of the vendor's field diagnostic.",
	},
	RetiredPages: {
		Name: "retired_pages", Labels: []string{"error"}, Source: "fields 29 and 30",
		Help: "Pages of memory that are no longer used because of errors; newer GPUs remap rows instead.",
	},
	RetiredPagesPending: {
		Name: "retired_pages_pending", Source: "field 31",
		Help: "1 if pages will be retired at the next reset.",
	},
	MemoryBanks: {
		Name: "memory_banks", Labels: []string{"spare_rows"}, Source: "nvmlDeviceGetRowRemapperHistogram",
		Help: "Memory banks, by the number of their remaining spare rows.",
	},
	PCIeErrors: {
		Name: "pcie_errors_total", Counter: true, Labels: []string{"pcie_error"}, Source: "fields 94, 169 and 173 to 183",
		Help: "Errors of the PCIe link since the driver was loaded.",
	},
	PCIeBytes: {
		Name: "pcie_bytes_total", Unit: "bytes", Counter: true, Labels: []string{"direction"}, Source: "fields 197 and 198",
		Help: "Bytes transferred over the PCIe link since the driver was loaded.",
	},
	PCIeLinkGeneration: {
		Name: "pcie_link_generation", Source: "nvmlDeviceGetCurrPcieLinkGeneration",
		Help: "Current generation of the PCIe link. It is lower while the GPU is idle.",
	},
	PCIeLinkGenerationMax: {
		Name: "pcie_link_generation_max", Source: "nvmlDeviceGetMaxPcieLinkGeneration",
		Help: "Highest PCIe generation that both the GPU and the machine support.",
	},
	PCIeLinkWidth: {
		Name: "pcie_link_width", Source: "nvmlDeviceGetCurrPcieLinkWidth",
		Help: "Number of PCIe lanes in use.",
	},
	PCIeLinkWidthMax: {
		Name: "pcie_link_width_max", Source: "nvmlDeviceGetMaxPcieLinkWidth",
		Help: "Highest number of PCIe lanes that both the GPU and the machine support.",
	},
	NVLinkErrors: {
		Name: "nvlink_errors_total", Counter: true, Labels: []string{"nvlink_error"}, Source: "fields 38, 45, 52 and 59; on NVLink 5 fields 206 to 208, 211 to 214, 219 and 221",
		Help: "Errors of all NVLink links since the driver was loaded. For NVLink 5 and later, the counter continues if the driver is loaded again without a reboot.",
	},
	NVLinkBytes: {
		Name: "nvlink_bytes_total", Unit: "bytes", Counter: true, Labels: []string{"direction"}, Source: "fields 138 and 139",
		Help: "Bytes of data transferred over all NVLink links since the driver was loaded.",
	},
	NVLinkLinks: {
		Name: "nvlink_links", Labels: []string{"link_state"}, Source: "field 165",
		Help: "NVLink links by state.",
	},
	ClockLimitedTime: {
		Name: "clock_limited_seconds_total", Unit: "seconds", Counter: true, Labels: []string{"clock_limit"}, Source: "fields 74, 76 to 79 and 269 to 271",
		Help: "Time for which this reason limited the GPU's clocks. The counter starts when the driver is loaded or, for AMD GPUs, when the exporter starts. Reasons overlap.",
	},
	MemoryTemperature: {
		Name: "memory_temperature_celsius", Unit: "celsius", Source: "field 82",
		Help: "Temperature of the GPU's memory.",
	},
	PowerLimits: {
		Name: "power_limit_watts", Unit: "watts", Labels: []string{"power_limit"}, Source: "fields 188 to 190",
		Help: "Power limits of the GPU.",
	},
	PerformanceState: {
		Name: "performance_state", Source: "nvmlDeviceGetPerformanceState",
		Help: "Performance state of the GPU: 0 is the fastest, 15 is the slowest.",
	},
	MemoryUtilization: {
		Name: "memory_utilization_ratio", Unit: "ratio", Source: "nvmlDeviceGetUtilizationRates",
		Help: "Fraction of the driver's last sample period in which the GPU's memory was read or written.",
	},
	EncoderUtilization: {
		Name: "encoder_utilization_ratio", Unit: "ratio", Source: "nvmlDeviceGetEncoderUtilization",
		Help: "Utilisation of the video encoders in the driver's last sample period.",
	},
	DecoderUtilization: {
		Name: "decoder_utilization_ratio", Unit: "ratio", Source: "nvmlDeviceGetDecoderUtilization",
		Help: "Utilisation of the video decoders in the driver's last sample period.",
	},

	TemperatureMargin: {
		Name: "temperature_margin_celsius", Unit: "celsius", Detail: true, Source: "nvmlDeviceGetMarginTemperature",
		Help: "Margin between the GPU's temperature and the nearest threshold at which the clocks are reduced.",
	},
	HighestClocks: {
		Name: "clock_max_hertz", Unit: "hertz", Detail: true, Labels: []string{"clock"}, Source: "nvmlDeviceGetMaxClockInfo",
		Help: "Highest clock that the GPU supports.",
	},
	FanSpeed: {
		Name: "fan_speed_ratio", Unit: "ratio", Detail: true, Labels: []string{"fan"}, Source: "nvmlDeviceGetFanSpeed",
		Help: "Intended speed of a fan, as a fraction of its highest speed within the noise limit of the product. The value does not change if the fan is blocked. It may exceed 1.",
	},
	ClockReasons: {
		Name: "clock_reason_active", Detail: true, Labels: []string{"clock_reason"}, Source: "nvmlDeviceGetCurrentClocksEventReasons, nvmlDeviceGetSupportedClocksEventReasons",
		Help: "1 if this reason limited the clocks at the last reading. The counters of limited time also contain short periods between readings.",
	},
	C2CLinks: {
		Name: "c2c_links", Detail: true, Source: "field 170",
		Help: "NVLink-C2C links of the GPU.",
	},
	C2CLinksActive: {
		Name: "c2c_links_active", Detail: true, Source: "field 171",
		Help: "NVLink-C2C links that are active.",
	},
	InfoROMValid: {
		Name: "inforom_valid", Detail: true, Source: "nvmlDeviceValidateInforom",
		Help: "1 if the checksums of the InfoROM were correct at the last check, 0 if the InfoROM is corrupt. It is checked when the exporter starts, and then once a day.",
	},
	FirmwareVersions: {
		Name: "firmware_info", Detail: true, Labels: []string{"firmware", "version"}, Source: "nvmlDeviceGetGspFirmwareVersion, nvmlDeviceGetInforomImageVersion",
		Help: "Version of a part of the GPU's firmware.",
	},
	Modes: {
		Name: "mode_info", Detail: true, Labels: []string{"mode", "setting"}, Source: "nvmlDeviceGetPersistenceMode, nvmlDeviceGetComputeMode, nvmlDeviceGetMigMode, nvmlSystemGetConfComputeState",
		Help: "Settings of the GPU's modes.",
	},
}
