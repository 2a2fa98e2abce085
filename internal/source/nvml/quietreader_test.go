package nvml_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// TestQuietPower reads an idle GPU for ten seconds with each kind of energy counter. According to the power samples,
// the GPU draws 90 W.
func TestQuietPower(t *testing.T) {
	const garbage = 4_000_000_000 // mW
	tests := []struct {
		name    string
		field   string // field that contains a second counter; the first counter has an unknown scope
		counted int    // power in mW that the energy counter counts
		mig     bool
		sample  int // value of an additional power sample in each second, in mW
		want    gpu.Watts
	}{
		{name: "a counter of the GPU", field: "energy_gpu", counted: 200_000, want: 90},
		{name: "a counter of a module", field: "energy_module", counted: 91_000},
		{name: "a counter of unknown scope that agrees with the samples", counted: 91_000, want: 90},
		{name: "a counter of unknown scope that counts more than the samples", counted: 200_000},
		{name: "a power sample that is garbage", counted: 91_000, sample: garbage, want: 90},
		{name: "MIG", field: "energy_gpu", counted: 90_000, mig: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			clock := gputest.NewClock()
			n := gputest.Node{GPUs: []gputest.GPU{gputest.Full(0)}}
			if tt.mig {
				n.GPUs = []gputest.GPU{gputest.Divided(0)}
			}
			d := newDriver(t, n)
			uuid := n.GPUs[0].Device.UUID
			s := d.open(clock.Now)
			var got gpu.Watts
			for second := range 10 {
				at := clock.Now().Wall.UnixMicro()
				for i := range int64(10) {
					d.lines = append(d.lines, record("power", uuid, at-900_000+100_000*i, 90_000), record("busy", uuid, at-900_000+100_000*i, 0))
				}
				if tt.sample > 0 {
					d.lines = append(d.lines, record("power", uuid, at-1, tt.sample))
				}
				energy := 1_000_000 + second*tt.counted
				d.node.GPUs[0].Reading.Energy = new(gpu.Millijoules(energy))
				if d.fields[uuid] = "buffers=1"; tt.field != "" {
					d.fields[uuid] += fmt.Sprintf("\t%s=%d", tt.field, energy)
				}
				d.write()
				r := gputest.Read(t, s).Readings[0]
				if got = max(got, r.QuietPower); r.QuietPower > 0 && !r.QuietSampled {
					t.Error("there is quiet power although no samples show it")
				}
				clock.Advance(time.Second)
			}
			if got != tt.want {
				t.Errorf("quiet power %v W, want %v", got, tt.want)
			}
		})
	}
}

func record(kind, uuid string, at int64, value int) string {
	return fmt.Sprintf("%s\tgpu=%s\ttime=%d\tvalue=%d", kind, uuid, at, value)
}
