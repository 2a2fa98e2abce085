package gpu

import "time"

// ProfileMetric identifies a value in the profile of a GPU. Hopper and newer GPUs measure profiles.
type ProfileMetric int

// The metrics. The activities come before the rates.
const (
	GraphicsActive ProfileMetric = iota
	SMActive
	SMOccupancy
	TensorActive
	DRAMActive
	FP64Active
	FP32Active
	FP16Active
	DecoderActive
	JPEGActive
	OpticalFlowActive
	NumActivities

	PCIeTransmitRate ProfileMetric = iota - 1
	PCIeReceiveRate
	NVLinkTransmitRate
	NVLinkReceiveRate
	NumProfileMetrics
)

// Profile describes the activity of a GPU between two samples of its counters. The samples are about ten seconds
// apart.
type Profile struct {
	// Span is the time between the two samples.
	Span Span
	// Seconds contains the integrals of the activities since the exporter first read the GPU. An entry is nil if the
	// activity was not measured in Span.
	Seconds [NumActivities]*float64
	// Last contains the averages over Span. Activities are from 0 to 1, and rates are in bytes per second. A value that
	// was not measured is nil.
	Last [NumProfileMetrics]*float64
}

// InstanceProfile describes a MIG instance. The integrals of the instance start when the instance is created.
type InstanceProfile struct {
	Instance string // GPU instance id
	*Profile
}

// ActivityInfo describes an activity. The metric of the activity is gpuledger_gpu_<Name>_seconds_total.
type ActivityInfo struct{ Name, Help string }

// ActivityInfos contains a row for each activity.
var ActivityInfos = [NumActivities]ActivityInfo{
	GraphicsActive: {"graphics_active", "Time in which the graphics or compute engine was active."},
	SMActive:       {"sm_active", "Time in which a multiprocessor had at least one warp, averaged over the multiprocessors."},
	SMOccupancy:    {"sm_occupancy", "Elapsed time, weighted by the fraction of the possible warps that were on the multiprocessors."},
	TensorActive:   {"tensor_active", "Time in which the tensor cores were active."},
	DRAMActive:     {"dram_active", "Elapsed time, weighted by the fraction of the memory bandwidth in use."},
	FP64Active:     {"fp64_active", "Time in which the FP64 units were active."},
	FP32Active:     {"fp32_active", "Time in which the FP32 units were active."},
	FP16Active:     {"fp16_active", "Time in which the FP16 units were active, without tensor cores."},

	DecoderActive:     {"decoder_active", "Time in which the video decoders (NVDEC) were active, averaged over the decoders."},
	JPEGActive:        {"jpeg_active", "Time in which the JPEG decoders (NVJPG) were active, averaged over the decoders."},
	OpticalFlowActive: {"optical_flow_active", "Time in which the optical flow accelerators (OFA) were active, averaged over the accelerators."},
}

// Profiled contains the measured work of an owner. It covers only the time for which the owner was alone on a GPU or a
// MIG instance, because a profile does not distinguish owners.
type Profiled struct {
	// Time is the time for which the owner was alone while a profile was measured.
	Time time.Duration `json:"time"`
	// Tensor and DRAM are the integrals of [TensorActive] and [DRAMActive] over this time. If Time is 0, the integrals
	// are unknown.
	Tensor time.Duration `json:"tensor"`
	DRAM   time.Duration `json:"dram"`
}

// Plus adds more to p, field by field.
func (p Profiled) Plus(more Profiled) Profiled {
	return Profiled{p.Time + more.Time, p.Tensor + more.Tensor, p.DRAM + more.DRAM}
}
