package app_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/exposition"
)

// TestIdlePowers checks the charges for two loads on a GPU with an idle power of 70 W. The exporter measures the idle
// power if the driver's power samples show the gaps between the work. Otherwise, it uses the configured idle power. If
// no idle power is configured, it uses an eighth of the power limit, which is 87.5 W. If the exporter did not measure
// the idle power, the page must report the energy as estimated.
func TestIdlePowers(t *testing.T) {
	sameWork := onH100(2, []simnode.Pod{
		sharingPod("a", 0, process("python3", simnode.Constant(10), simnode.Compute)),
		sharingPod("b", 1, process("python3", simnode.Duty(90, time.Second, 9*time.Second), simnode.Compute)),
	}, nil)
	light := onH100(2, []simnode.Pod{
		sharingPod("a", 0, process("python3", simnode.Duty(10, 100*time.Millisecond, time.Second), simnode.Compute)),
		sharingPod("b", 1),
	}, nil)
	for _, load := range []struct {
		name      string
		scenario  simnode.Scenario
		a         float64 // share of the energy charged to pod a
		estimated float64 // share of the energy that the page must report as estimated
	}{
		{"one pod works evenly and one in bursts, with equal work", sameWork, 0.5, 0.93},
		{"one pod works a hundredth of every second, one is idle", light, 0.52, 0.80},
	} {
		for _, tt := range []struct {
			source  string
			samples time.Duration // time over which the driver averages power; 0 if there are no power samples
			flags   []string
			near    float64
		}{
			{"measured", 20 * time.Millisecond, nil, near},
			{"configured", 0, []string{"--idle-power=NVIDIA H100 80GB HBM3=70"}, near},
			{"limit", 0, nil, 2 * near},
		} {
			t.Run(load.name+", "+tt.source, func(t *testing.T) {
				sc := load.scenario
				sc.Sampling.Power, sc.NoTruth = tt.samples, true
				b := benchOf(t, sc, false, tt.flags...)
				b.run(600)
				b.balanced()
				page, err := exposition.Parse(strings.NewReader(b.page()))
				if err != nil {
					t.Fatal(err)
				}
				if page.Sum("gpuledger_gpu_idle_power_info", map[string]string{"source": tt.source}) != 1 {
					t.Errorf("the idle power does not have the source %s", tt.source)
				}
				estimated := load.estimated
				if tt.source == "measured" {
					estimated = 0 // only the energy of the first seconds is estimated
				}
				all := page.Sum("gpuledger_gpu_energy_joules_total", nil)
				check := func(what, metric string, labels map[string]string, want, near float64) {
					if got := page.Sum(metric, labels) / all; math.Abs(got-want) > near {
						t.Errorf("%s: %.1f %% of the energy, want %.1f ± %.1f %%", what, 100*got, 100*want, 100*near)
					}
				}
				check("charged to a", "gpuledger_container_energy_joules_total", map[string]string{"pod": "a"}, load.a, tt.near)
				check("divided with an estimate", "gpuledger_gpu_estimated_energy_joules_total", nil, estimated, 0.05)
			})
		}
	}
}
