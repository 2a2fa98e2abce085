package gpu

// Gauge identifies a gauge metric of a GPU. [GaugeInfos] describes each gauge.
type Gauge int

// The gauges.
const (
	Power Gauge = iota
	Temperature
	Utilization
	MemoryUsed
	MemoryReserved
	MemoryTotal
	SMClock
	MemoryClock
	NumGauges
)

// Gauges contains the values of the gauges in base units. An entry is nil if the GPU does not
// report the gauge.
type Gauges [NumGauges]*float64

// GaugeInfo describes a gauge. Its metric is gpuledger_gpu_<Name>_<Unit>.
type GaugeInfo struct {
	Name, Unit, Help string
	// Call is the NVML function that reads the gauge.
	Call string
}

// GaugeInfos contains a row for each gauge.
var GaugeInfos = [NumGauges]GaugeInfo{
	Power: {
		Name: "power", Unit: "watts", Call: "nvmlDeviceGetPowerUsage",
		Help: "Power, averaged by the driver over a second or less.",
	},
	Temperature: {
		Name: "temperature", Unit: "celsius", Call: "nvmlDeviceGetTemperature",
		Help: "Temperature of the GPU.",
	},
	Utilization: {
		Name: "utilization", Unit: "ratio", Call: "nvmlDeviceGetUtilizationRates",
		Help: "Fraction of the driver's last sample period in which a kernel ran.",
	},
	MemoryUsed: {
		Name: "memory_used", Unit: "bytes", Call: "nvmlDeviceGetMemoryInfo",
		Help: "GPU memory in use. It excludes the memory that the driver reserves, unless the driver reports only the sum.",
	},
	MemoryReserved: {
		Name: "memory_reserved", Unit: "bytes", Call: "nvmlDeviceGetMemoryInfo",
		Help: "GPU memory that the driver reserves for itself.",
	},
	MemoryTotal: {
		Name: "memory_total", Unit: "bytes", Call: "nvmlDeviceGetMemoryInfo",
		Help: "Installed GPU memory.",
	},
	SMClock: {
		Name: "sm_clock", Unit: "hertz", Call: "nvmlDeviceGetClockInfo",
		Help: "Clock of the streaming multiprocessors.",
	},
	MemoryClock: {
		Name: "memory_clock", Unit: "hertz", Call: "nvmlDeviceGetClockInfo",
		Help: "Clock of the GPU memory.",
	},
}
