package amd

import (
	"errors"
	"path/filepath"
	"strconv"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// The hwmon folder has no energy counter.
type hwmon struct {
	power, limit       value // µW
	temperature        value // m°C
	clock, memoryClock value // Hz
}

var errNoHwmon = errors.New("read hwmon: no value")

// The number in the name of the hwmon folder changes when the driver is reloaded.
func (r *reader) findHwmon() {
	folders, _ := filepath.Glob(filepath.Join(r.card.folder, "hwmon", "hwmon*")) // the pattern is valid
	r.hwmon = ""
	for _, f := range folders {
		if name := readText(f, "name"); name == "amdgpu" || name == "" {
			r.hwmon = f
			return
		}
	}
}

// Except for the power limit, readHwmon reads only values that gpu_metrics lacks, because reading some files of hwmon
// queries the firmware. Older firmware reports the average power instead of the current power.
func (r *reader) readHwmon(m metrics) (hwmon, error) {
	if r.hwmon == "" {
		return hwmon{}, errNoHwmon
	}
	h := hwmon{limit: r.sensor("power1_cap")}
	if !m.power.ok {
		if h.power = r.sensor("power1_average"); !h.power.ok {
			h.power = r.sensor("power1_input")
		}
	}
	if !first(m.edge, m.hotspot).ok {
		h.temperature = r.labelled("temp", "edge", "junction")
	}
	if !m.clock.ok {
		h.clock = r.labelled("freq", "sclk")
	}
	if !m.memory.ok {
		h.memoryClock = r.labelled("freq", "mclk")
	}
	if h == (hwmon{}) {
		return h, errNoHwmon
	}
	return h, nil
}

// sensor treats 0 as missing, because the power and the power limit are 0 on the second die of an MI250.
func (r *reader) sensor(name string) value {
	n, err := readNumber(r.hwmon, name)
	if err != nil || n == 0 {
		return value{}
	}
	return value{n, true}
}

// maxSensors is higher than the number of temperatures or clocks that a GPU reports.
const maxSensors = 3

// labelled reads an input of one kind, such as temp. It tries the labels in the given order.
func (r *reader) labelled(kind string, labels ...string) value {
	for _, label := range labels {
		for i := range maxSensors {
			sensor := kind + strconv.Itoa(i+1)
			if readText(r.hwmon, sensor+"_label") == label {
				return r.sensor(sensor + "_input")
			}
		}
	}
	return value{}
}

func (r *reader) maxPower() gpu.Watts {
	return gpu.Watts(float64(first(r.sensor("power1_cap_max"), r.sensor("power1_cap")).n) / 1e6)
}
