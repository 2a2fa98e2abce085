package simnode_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// The GPU draws 70 W in one half of every second and 470 W in the other half. If the driver reports momentary power,
// half of the samples must be high. If the driver averages over a second, every sample must equal the mean power. If it
// averages over 100 ms, the power must rise and fall within 100 ms.
func TestBuffers(t *testing.T) {
	for _, tt := range []struct {
		over      time.Duration
		low, high int // W
		between   int // number of samples between low and high
	}{{time.Millisecond, 70, 470, 0}, {100 * time.Millisecond, 70, 470, 4 * 4}, {time.Second, 270, 270, 0}} {
		t.Run(tt.over.String(), func(t *testing.T) {
			sc, err := simnode.Lookup("dgx-h100")
			if err != nil {
				t.Fatal(err)
			}
			sc.Sampling.Power = tt.over
			sc.GPUs[0].Floor = 70
			sc.Pods = []simnode.Pod{{Namespace: "a", Name: "b", QoS: "burstable", Containers: []simnode.Container{{
				Name: "main", Devices: simnode.GPUs(0),
				Processes: []simnode.Process{{Comm: "python3", Work: []simnode.Work{{Watts: 400, Load: simnode.Duty(100, 500*time.Millisecond, time.Second), Memory: 1 << 30}}}},
			}}}}
			n := openScenario(t, sc)
			run(t, n, 0, 20*time.Second, time.Second)
			checkBuffers(t, driverState(t, n), sc.GPUs[0].UUID, tt.low, tt.high, tt.between)
		})
	}
}

// checkBuffers checks the 120 power samples of a GPU. The argument between is the number of samples between low and
// high. All other samples must be near low or high. The utilisation samples must show that the GPU was busy for half of
// the time.
func checkBuffers(t *testing.T, state map[string][]fields, uuid string, low, high, between int) {
	t.Helper()
	count := func(name string, most, value int) (n int) {
		for _, p := range state[name] {
			got, err := strconv.Atoi(p["value"])
			if err != nil {
				t.Fatal(err)
			}
			if p["gpu"] == uuid && math.Abs(float64(got-value)) < float64(most) {
				n++
			}
		}
		return n
	}
	const near = 5000 // mW
	lows, highs := count("power", near, low*1000), count("power", near, high*1000)
	if low == high && lows != 120 || low != high && (lows+highs != 120-between || math.Abs(float64(lows)/120-0.5) > 0.1) {
		t.Errorf("%d samples near %d W, %d near %d W; want %d, half of each", lows, low, highs, high, 120-between)
	}
	sum, n := 0, 0
	for _, p := range state["busy"] {
		if percent, err := strconv.Atoi(p["value"]); err == nil && p["gpu"] == uuid {
			sum, n = sum+percent, n+1
		}
	}
	if n != 99 || math.Abs(float64(sum)/99-50) > 5 {
		t.Errorf("%d utilisation samples with a mean of %.1f %%, want 99 and 50 %%", n, float64(sum)/99)
	}
}
