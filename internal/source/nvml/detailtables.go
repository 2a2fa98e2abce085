package nvml

import (
	"math"
	"strconv"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

var detailCalls = []healthCall{
	{"nvmlDeviceGetMarginTemperature", 0, temperatureMargin},
	{"nvmlDeviceGetCurrentClocksEventReasons", 0, clockReasons},
	{"nvmlDeviceGetNumFans", 0, fanSpeeds},
	{"nvmlDeviceGetFieldValues", 0, c2cLinks},

	{"nvmlDeviceGetMaxClockInfo", seldom, highestClock("graphics", gonvml.CLOCK_GRAPHICS)},
	{"nvmlDeviceGetMaxClockInfo", seldom, highestClock("sm", gonvml.CLOCK_SM)},
	{"nvmlDeviceGetMaxClockInfo", seldom, highestClock("memory", gonvml.CLOCK_MEM)},
	{"nvmlDeviceGetMaxClockInfo", seldom, highestClock("video", gonvml.CLOCK_VIDEO)},
	{"nvmlDeviceGetGspFirmwareVersion", seldom, firmware("gsp", device.GetGspFirmwareVersion)},
	{"nvmlDeviceGetInforomImageVersion", seldom, firmware("inforom", device.GetInforomImageVersion)},
	{"nvmlDeviceGetPersistenceMode", seldom, func(g *gpuReader) ([]gpu.HealthValue, ret) {
		m, r := g.handle.GetPersistenceMode()
		return mode("persistence", switches, int(m), r)
	}},
	{"nvmlDeviceGetComputeMode", seldom, func(g *gpuReader) ([]gpu.HealthValue, ret) {
		m, r := g.handle.GetComputeMode()
		return mode("compute", computeModes, int(m), r)
	}},
	{"nvmlDeviceGetMigMode", seldom, migModes},
	{"nvmlSystemGetConfComputeState", seldom, confidentialComputing},
}

// inforomCheck reads the flash memory of the InfoROM, so it runs only once a day. The result is part of [memory], so
// that the check is not repeated after a GPU was lost or the driver was reloaded.
var inforomCheck = healthCall{"nvmlDeviceValidateInforom", 24 * time.Hour, func(g *gpuReader) ([]gpu.HealthValue, ret) {
	r := g.handle.ValidateInforom()
	if r == gonvml.ERROR_CORRUPTED_INFOROM {
		return single(gpu.InfoROMValid, 0), gonvml.SUCCESS
	}
	return single(gpu.InfoROMValid, 1), r
}}

// Names of settings, indexed by their number (nvml.h, nvmlEnableState_t, nvmlComputeMode_t). The driver no longer
// supports compute mode 1.
var (
	switches     = []string{"disabled", "enabled"}
	computeModes = []string{"default", "", "prohibited", "exclusive_process"}
)

func mode(name string, settings []string, n int, r ret) ([]gpu.HealthValue, ret) {
	if r != gonvml.SUCCESS {
		return nil, r
	}
	if n < 0 || n >= len(settings) || settings[n] == "" {
		return nil, gonvml.ERROR_NO_DATA
	}
	return single(gpu.Modes, 1, name, settings[n]), r
}

func migModes(g *gpuReader) ([]gpu.HealthValue, ret) {
	current, pending, r := g.handle.GetMigMode()
	if r != gonvml.SUCCESS {
		return nil, r
	}
	values, _ := mode("mig", switches, current, r)
	next, _ := mode("mig_pending", switches, pending, r)
	return append(values, next...), r
}

// With developer tools enabled, confidential data are not protected, so the mode is reported as devtools.
func confidentialComputing(g *gpuReader) ([]gpu.HealthValue, ret) {
	state, r := g.lib.SystemGetConfComputeState()
	settings := switches
	if state.DevToolsMode == gonvml.CC_SYSTEM_DEVTOOLS_MODE_ON {
		settings = []string{"disabled", "devtools"}
	}
	return mode("confidential_computing", settings, int(state.CcFeature), r)
}

func firmware(part string, read func(device) (string, ret)) func(*gpuReader) ([]gpu.HealthValue, ret) {
	return func(g *gpuReader) ([]gpu.HealthValue, ret) {
		version, r := read(g.handle)
		if r == gonvml.SUCCESS && version == "" {
			r = gonvml.ERROR_NO_DATA
		}
		return single(gpu.FirmwareVersions, 1, part, version), r
	}
}

// maxMargin is greater than any real difference between two temperatures of a GPU, in °C.
const maxMargin = 200

func temperatureMargin(g *gpuReader) ([]gpu.HealthValue, ret) {
	m, r := g.handle.GetMarginTemperature()
	if r == gonvml.SUCCESS && (m.MarginTemperature > maxMargin || m.MarginTemperature < -maxMargin) {
		r = gonvml.ERROR_NO_DATA
	}
	return single(gpu.TemperatureMargin, float64(m.MarginTemperature)), r
}

func highestClock(name string, which gonvml.ClockType) func(*gpuReader) ([]gpu.HealthValue, ret) {
	return func(g *gpuReader) ([]gpu.HealthValue, ret) {
		mhz, r := g.handle.GetMaxClockInfo(which)
		if r == gonvml.SUCCESS && (mhz == 0 || mhz >= math.MaxInt32) {
			r = gonvml.ERROR_NO_DATA
		}
		return single(gpu.HighestClocks, float64(mhz)*1e6, name), r
	}
}

// clockReasonBits contains the reasons of nvml.h (nvmlClocksEventReason*).
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

// maxReasons is greater than the mask with all reasons. A mask above maxReasons is invalid.
const maxReasons = 1 << 24

// clockReasons returns 1 for each active reason, and 0 for each inactive reason that the GPU supports.
func clockReasons(g *gpuReader) ([]gpu.HealthValue, ret) {
	if !g.lib.has("nvmlDeviceGetSupportedClocksEventReasons") {
		return nil, gonvml.ERROR_FUNCTION_NOT_FOUND
	}
	supported, r := g.handle.GetSupportedClocksEventReasons()
	if r != gonvml.SUCCESS {
		return nil, r
	}
	active, r := g.handle.GetCurrentClocksEventReasons()
	if r != gonvml.SUCCESS {
		return nil, r
	}
	if max(supported, active) >= maxReasons {
		return nil, gonvml.ERROR_NO_DATA
	}
	var values []gpu.HealthValue
	for _, reason := range clockReasonBits {
		if supported&reason.bit != 0 {
			values = append(values, single(gpu.ClockReasons, float64(min(active&reason.bit, 1)), reason.name)...)
		}
	}
	return values, r
}

// A number of fans or a speed in percent is invalid if it exceeds its maximum.
const (
	maxFans     = 16
	maxFanSpeed = 300
)

func fanSpeeds(g *gpuReader) ([]gpu.HealthValue, ret) {
	if !g.lib.has("nvmlDeviceGetFanSpeed_v2") {
		return nil, gonvml.ERROR_FUNCTION_NOT_FOUND
	}
	fans, r := g.handle.GetNumFans()
	if r == gonvml.SUCCESS && fans > maxFans {
		r = gonvml.ERROR_NO_DATA
	}
	if r != gonvml.SUCCESS {
		return nil, r
	}
	var values []gpu.HealthValue
	for fan := range fans {
		if percent, r := g.handle.GetFanSpeed_v2(fan); r == gonvml.SUCCESS && percent <= maxFanSpeed {
			values = append(values, single(gpu.FanSpeed, float64(percent)/100, strconv.Itoa(fan))...)
		}
	}
	return values, r
}

// maxC2CLinks is higher than the number of NVLink-C2C links of a GPU. GPM has metrics for 14 links (nvml.h).
const maxC2CLinks = 64

// c2cLinks assumes that the scope of the status field is the number of the link, as for NVLink, because nvml.h does not
// define the scope. If a link has no status, the number of active links is unknown.
func c2cLinks(g *gpuReader) ([]gpu.HealthValue, ret) {
	count, r := readField(g.handle, gonvml.FI_DEV_C2C_LINK_COUNT, wholeGPU)
	if r == gonvml.SUCCESS && (count == 0 || count > maxC2CLinks) {
		r = gonvml.ERROR_NO_DATA
	}
	if r != gonvml.SUCCESS {
		return nil, r
	}
	values, active := single(gpu.C2CLinks, float64(count)), uint64(0)
	for link := range uint32(count) {
		status, r := readField(g.handle, gonvml.FI_DEV_C2C_LINK_GET_STATUS, link)
		if r != gonvml.SUCCESS || status > 1 {
			return values, gonvml.SUCCESS
		}
		active += status
	}
	return append(values, single(gpu.C2CLinksActive, float64(active))...), gonvml.SUCCESS
}
