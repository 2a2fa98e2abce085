package nvml_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// While a call hangs for one of eight GPUs, the seven other GPUs must be read. The hung GPU must have no reading until
// the call returns.
func TestCallHangs(t *testing.T) {
	for name, call := range calls {
		if call.gpu == none {
			continue
		}
		t.Run(name, func(t *testing.T) {
			clock := gputest.NewClock()
			d := newDriver(t, eight())
			uuid := d.node.GPUs[call.gpu].Device.UUID
			s := d.open(clock.Now)
			if call.first != nil {
				d.fault(uuid, name, "hang")
				d.readOn(s, call.gpu)
				d.healed()
			}
			checkEight(t, "healed", gputest.Eventually(t, s, "it answers", complete), none, nothing)
			if call.later == nil {
				return
			}
			clock.Advance(pauseOf(name))
			d.fault(uuid, name, "hang")
			d.readOn(s, call.gpu)
			d.healed()
			checkEight(t, "healed again", gputest.Eventually(t, s, "the GPU responds again", complete), none, nothing)
		})
	}
}

// TestLostInCall removes one of eight GPUs during each call. The seven other GPUs must be read. When the removed GPU
// has returned, all eight GPUs must be read.
func TestLostInCall(t *testing.T) {
	for name, call := range calls {
		if call.gpu == none {
			continue
		}
		t.Run(name, func(t *testing.T) {
			clock := gputest.NewClock()
			d := newDriver(t, eight())
			uuid := d.node.GPUs[call.gpu].Device.UUID
			d.add("health\tgpu=%s\tsram_threshold=0\tbanks_max=1", uuid)
			healthy := d.lines
			s := d.open(clock.Now)
			if call.later != nil {
				gputest.Eventually(t, s, "it answers", complete)
				clock.Advance(pauseOf(name))
			}
			d.fault(uuid, name, "hang")
			d.readOn(s, call.gpu)
			d.node.GPUs[call.gpu].Lost, d.lines = true, healthy
			d.write()
			const isLost = "\t15\t" // NVML_ERROR_GPU_IS_LOST
			gputest.Eventually(t, s, "the call returns", func(gpu.Report, error) bool { return strings.Contains(d.log(), isLost) })
			d.node.GPUs[call.gpu].Lost = false
			d.write()
			gputest.Eventually(t, s, "the GPU responds again", func(r gpu.Report, err error) bool {
				clock.Advance(time.Second)
				return complete(r, err)
			})
		})
	}
}

// While a call hangs on all GPUs, no reading may wait for it, and values that arrive in time must be correct. When the
// calls have returned, all values must be read.
func TestCallHangsEverywhere(t *testing.T) {
	for name, call := range calls {
		if call.gpu == none || call.later == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			clock := gputest.NewClock()
			d := newDriver(t, eight())
			s := d.open(clock.Now)
			checkEight(t, "well", gputest.Eventually(t, s, "it answers", complete), none, nothing)
			clock.Advance(pauseOf(name))
			d.fault(anyGPU, name, "hang")
			hasty := gputest.Hasty(s)
			for range 3 {
				report, _ := hasty.Read(t.Context())
				if slices.ContainsFunc(report.Readings, func(r gpu.Reading) bool { return r.UUID == d.node.GPUs[call.gpu].Device.UUID }) {
					t.Error("a GPU has a reading although its call hangs")
				}
			}
			d.healed()
			checkEight(t, "healed", gputest.Eventually(t, s, "the GPU responds again", complete), none, nothing)
		})
	}
}

func (d *driver) readOn(s gputest.Source, hung int) {
	d.t.Helper()
	hasty := gputest.Hasty(s)
	for range 2 {
		for i := range d.node.GPUs {
			*d.node.GPUs[i].Reading.Energy += 1000
		}
		d.write()
		fresh := make(map[string]bool)
		gputest.Eventually(d.t, hasty, "the other GPUs are read", func(report gpu.Report, _ error) bool {
			for _, r := range report.Readings {
				i := slices.IndexFunc(d.node.GPUs, func(g gputest.GPU) bool { return g.Device.UUID == r.UUID })
				fresh[r.UUID] = fresh[r.UUID] || *r.Energy == *d.node.GPUs[i].Reading.Energy
			}
			if fresh[d.node.GPUs[hung].Device.UUID] {
				d.t.Fatal("the GPU has a reading although its call hangs")
			}
			return len(fresh) == 7
		})
	}
	d.node = eight()
	d.write()
}

// Some calls are made less than once a second.
func pauseOf(name string) time.Duration {
	if slices.Contains(healthCalls, name) {
		return reaskAfter
	}
	return 2 * time.Second
}
