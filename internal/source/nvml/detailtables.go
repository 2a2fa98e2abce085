package nvml

import (
	"math"
	"strconv"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A detailCall reads values of a GPU.
type detailCall struct {
	symbol string
	// every is the time between two calls, or 0 for a call in each reading of health.
	every time.Duration
	read  func(*library, device) ([]gpu.HealthValue, ret)
}

// seldom is the time between two readings of modes, versions and other constants.
const seldom = 10 * time.Minute

// detailCalls contains the details that are read by separate calls, except the check of the InfoROM.
var detailCalls = []detailCall{
	{"nvmlDeviceGetMarginTemperature", 0, temperatureMargin},
	{"nvmlDeviceGetCurrentClocksEventReasons", 0, clockReasons},
	{"nvmlDeviceGetNumFans", 0, fanSpeeds},
	{"nvmlDeviceGetRemappedRows", 0, remappedRows},
	{"nvmlDeviceGetFieldValues", 0, c2cLinks},

	{"nvmlDeviceGetMaxClockInfo", seldom, highestClock("graphics", gonvml.CLOCK_GRAPHICS)},
	{"nvmlDeviceGetMaxClockInfo", seldom, highestClock("sm", gonvml.CLOCK_SM)},
	{"nvmlDeviceGetMaxClockInfo", seldom, highestClock("memory", gonvml.CLOCK_MEM)},
	{"nvmlDeviceGetMaxClockInfo", seldom, highestClock("video", gonvml.CLOCK_VIDEO)},
	{"nvmlDeviceGetGspFirmwareVersion", seldom, firmware("gsp", device.GetGspFirmwareVersion)},
	{"nvmlDeviceGetInforomImageVersion", seldom, firmware("inforom", device.GetInforomImageVersion)},
	{"nvmlDeviceGetPersistenceMode", seldom, func(_ *library, h device) ([]gpu.HealthValue, ret) {
		m, r := h.GetPersistenceMode()
		return mode("persistence", switches, int(m), r)
	}},
	{"nvmlDeviceGetComputeMode", seldom, func(_ *library, h device) ([]gpu.HealthValue, ret) {
		m, r := h.GetComputeMode()
		return mode("compute", computeModes, int(m), r)
	}},
	{"nvmlDeviceGetMigMode", seldom, func(_ *library, h device) ([]gpu.HealthValue, ret) {
		m, _, r := h.GetMigMode()
		return mode("mig", switches, m, r)
	}},
	{"nvmlDeviceGetMigMode", seldom, func(_ *library, h device) ([]gpu.HealthValue, ret) {
		_, m, r := h.GetMigMode()
		return mode("mig_pending", switches, m, r)
	}},
	{"nvmlSystemGetConfComputeState", seldom, confidentialComputing},
}

// inforomCheck reads the flash memory of the InfoROM, so the check is rare. The result of the check is kept in the type
// memory, so that the check is not repeated after a GPU was lost or the driver was loaded again.
var inforomCheck = detailCall{"nvmlDeviceValidateInforom", 24 * time.Hour, func(_ *library, h device) ([]gpu.HealthValue, ret) {
	r := h.ValidateInforom()
	if r == gonvml.ERROR_CORRUPTED_INFOROM {
		return single(gpu.InfoROMValid, 0), gonvml.SUCCESS
	}
	return single(gpu.InfoROMValid, 1), r
}}

// These are the names of settings, in the order of their numbers (nvml.h, nvmlEnableState_t, nvmlComputeMode_t). The
// driver no longer supports compute mode 1.
var (
	switches     = []string{"disabled", "enabled"}
	computeModes = []string{"default", "", "prohibited", "exclusive_process"}
)

// mode returns the name of a mode. A setting without a name is unknown.
func mode(name string, settings []string, n int, r ret) ([]gpu.HealthValue, ret) {
	if r != gonvml.SUCCESS {
		return nil, r
	}
	if n < 0 || n >= len(settings) || settings[n] == "" {
		return nil, gonvml.ERROR_NO_DATA
	}
	return labelled(gpu.Modes, 1, name, settings[n]), r
}

// confidentialComputing reads the state of confidential computing on the machine. If developer tools are enabled,
// confidential data are not protected.
func confidentialComputing(lib *library, _ device) ([]gpu.HealthValue, ret) {
	state, r := lib.SystemGetConfComputeState()
	settings := switches
	if state.DevToolsMode == gonvml.CC_SYSTEM_DEVTOOLS_MODE_ON {
		settings = []string{"disabled", "devtools"}
	}
	return mode("confidential_computing", settings, int(state.CcFeature), r)
}

// firmware returns a function that reads the version of one firmware part.
func firmware(part string, read func(device) (string, ret)) func(*library, device) ([]gpu.HealthValue, ret) {
	return func(_ *library, h device) ([]gpu.HealthValue, ret) {
		version, r := read(h)
		if r == gonvml.SUCCESS && version == "" {
			r = gonvml.ERROR_NO_DATA
		}
		return labelled(gpu.FirmwareVersions, 1, part, version), r
	}
}

// maxMargin is greater than any real difference between two temperatures of a GPU, in °C.
const maxMargin = 200

func temperatureMargin(_ *library, h device) ([]gpu.HealthValue, ret) {
	m, r := h.GetMarginTemperature()
	if r == gonvml.SUCCESS && (m.MarginTemperature > maxMargin || m.MarginTemperature < -maxMargin) {
		r = gonvml.ERROR_NO_DATA
	}
	return single(gpu.TemperatureMargin, float64(m.MarginTemperature)), r
}

// highestClock reads a clock in MHz.
func highestClock(name string, which gonvml.ClockType) func(*library, device) ([]gpu.HealthValue, ret) {
	return func(_ *library, h device) ([]gpu.HealthValue, ret) {
		mhz, r := h.GetMaxClockInfo(which)
		if r == gonvml.SUCCESS && (mhz == 0 || mhz >= math.MaxInt32) {
			r = gonvml.ERROR_NO_DATA
		}
		return labelled(gpu.HighestClocks, float64(mhz)*1e6, name), r
	}
}

// clockReasonBits contains the bit and the label of each reason, in the order of nvml.h (nvmlClocksEventReason*).
var clockReasonBits = []struct {
	name string
	bit  uint64
}{
	{"idle", gonvml.ClocksEventReasonGpuIdle},
	{"application_clocks", gonvml.ClocksEventReasonApplicationsClocksSetting},
	{"power_cap", gonvml.ClocksEventReasonSwPowerCap},
	{"hardware_slowdown", gonvml.ClocksThrottleReasonHwSlowdown},
	{"sync_boost", gonvml.ClocksEventReasonSyncBoost},
	{"software_thermal", gonvml.ClocksEventReasonSwThermalSlowdown},
	{"hardware_thermal", gonvml.ClocksThrottleReasonHwThermalSlowdown},
	{"power_brake", gonvml.ClocksThrottleReasonHwPowerBrakeSlowdown},
	{"display_clocks", gonvml.ClocksEventReasonDisplayClockSetting},
	{"board_limit", gonvml.ClocksEventReasonBoardLimit},
	{"reliability", gonvml.ClocksEventReasonReliability},
}

// maxReasons is higher than the bits of all reasons.
const maxReasons = 1 << 24

// clockReasons returns a value for each reason that the GPU supports: whether the reason is currently active.
func clockReasons(lib *library, h device) ([]gpu.HealthValue, ret) {
	if !lib.has("nvmlDeviceGetSupportedClocksEventReasons") {
		return nil, gonvml.ERROR_FUNCTION_NOT_FOUND
	}
	supported, r := h.GetSupportedClocksEventReasons()
	if r != gonvml.SUCCESS {
		return nil, r
	}
	active, r := h.GetCurrentClocksEventReasons()
	if r != gonvml.SUCCESS {
		return nil, r
	}
	if max(supported, active) >= maxReasons {
		return nil, gonvml.ERROR_NO_DATA
	}
	var values []gpu.HealthValue
	for _, reason := range clockReasonBits {
		if supported&reason.bit != 0 {
			values = append(values, labelled(gpu.ClockReasons, float64(min(active&reason.bit, 1)), reason.name)...)
		}
	}
	return values, r
}

// The number of fans of a GPU, and the speed of a fan in percent, are always below these limits.
const (
	maxFans     = 16
	maxFanSpeed = 300
)

// fanSpeeds reads the speed of each fan in percent. A fan is omitted if its speed is unknown.
func fanSpeeds(lib *library, h device) ([]gpu.HealthValue, ret) {
	if !lib.has("nvmlDeviceGetFanSpeed_v2") {
		return nil, gonvml.ERROR_FUNCTION_NOT_FOUND
	}
	fans, r := h.GetNumFans()
	if r == gonvml.SUCCESS && fans > maxFans {
		r = gonvml.ERROR_NO_DATA
	}
	if r != gonvml.SUCCESS {
		return nil, r
	}
	var values []gpu.HealthValue
	for fan := range fans {
		if percent, r := h.GetFanSpeed_v2(fan); r == gonvml.SUCCESS && percent <= maxFanSpeed {
			values = append(values, labelled(gpu.FanSpeed, float64(percent)/100, strconv.Itoa(fan))...)
		}
	}
	return values, r
}

func remappedRows(_ *library, h device) ([]gpu.HealthValue, ret) {
	correctable, uncorrectable, _, _, r := h.GetRemappedRows()
	if r == gonvml.SUCCESS && max(correctable, uncorrectable) >= math.MaxInt32 {
		r = gonvml.ERROR_NO_DATA
	}
	return append(labelled(gpu.RemappedRows, float64(correctable), "correctable"), labelled(gpu.RemappedRows, float64(uncorrectable), "uncorrectable")...), r
}

// maxC2CLinks is higher than the number of NVLink-C2C links of a GPU. GPM has metrics for 14 links (nvml.h).
const maxC2CLinks = 64

// c2cLinks reads the number of C2C links, and the number of active links. It assumes that the scope of the status field
// is the number of the link, as for NVLink, because nvml.h does not define the scope. If a link has no status, the
// number of active links is unknown.
func c2cLinks(_ *library, h device) ([]gpu.HealthValue, ret) {
	count, r := readField(h, gonvml.FI_DEV_C2C_LINK_COUNT, wholeGPU)
	if r == gonvml.SUCCESS && (count == 0 || count > maxC2CLinks) {
		r = gonvml.ERROR_NO_DATA
	}
	if r != gonvml.SUCCESS {
		return nil, r
	}
	values, active := single(gpu.C2CLinks, float64(count)), uint64(0)
	for link := range uint32(count) {
		status, r := readField(h, gonvml.FI_DEV_C2C_LINK_GET_STATUS, link)
		if r != gonvml.SUCCESS || status > 1 {
			return values, gonvml.SUCCESS
		}
		active += status
	}
	return append(values, single(gpu.C2CLinksActive, float64(active))...), gonvml.SUCCESS
}

// labelled returns a value with labels.
func labelled(m gpu.HealthMetric, v float64, labels ...string) []gpu.HealthValue {
	return []gpu.HealthValue{{Metric: m, Labels: labels, Value: v}}
}
