package nvml_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/test/draws"
)

// every returns a pattern with some milliseconds of work in each period, beginning at a random time.
func every(random *rand.Rand, work, period int) pattern {
	at, number := 0, -1
	return func(ms int) bool {
		if n := ms / period; n != number {
			number, at = n, random.IntN(period-work+1)
		}
		return ms%period >= at && ms%period < at+work
	}
}

// bursts returns a pattern with work and pauses of random lengths. The mean lengths are in ms.
func bursts(random *rand.Rand, work, pause float64) pattern {
	on, until := false, 0
	return func(ms int) bool {
		for ms >= until {
			mean := work
			if on = !on; !on {
				mean = pause
			}
			until += 1 + int(random.ExpFloat64()*mean)
		}
		return on
	}
}

func never(int) bool { return false }

func sharers(run int, averaging int) *quietWorld {
	random := rand.New(rand.NewPCG(uint64(run), 2))
	n := 2 + run%9
	var work []float64
	var runs []pattern
	for i := range n {
		work = append(work, 200+300*random.Float64())
		if i%2 == 1 {
			runs = append(runs, never)
			continue
		}
		length := []float64{20, 200, 2000}[random.IntN(3)]
		duty := (0.1 + 0.5*random.Float64()) / float64((n+1)/2)
		runs = append(runs, bursts(random, length, length*(1-duty)/duty))
	}
	return newQuietWorld(uint64(run), 110, averaging, work, runs)
}

// The idle power of GPUs with two to ten owners must be measured for each kind of power sensor. Such GPUs are rarely
// quiet for seconds.
func TestIdlePowerOfSharedGPUs(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it")
	}
	runs := draws.Of(16, 32)
	for _, tt := range []struct {
		name      string
		averaging int
		least     int     // minimum number of the 32 runs in which the idle power is learned
		worst     float64 // maximum error in W
	}{
		{"momentary power", 1, 32, 5},
		{"power averaged over 100 ms", 100, 28, 5},
		{"power averaged over a second", 1000, 14, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			learned, worst, sum, without := 0, 0.0, 0.0, 0
			for run := range runs {
				b := newQuietBook(t, sharers(run, tt.averaging))
				b.run(600)
				if p := float64(b.last.IdlePower); p > 0 {
					learned++
					worst, sum = max(worst, math.Abs(p-110)), sum+math.Abs(p-110)
				}
				blind := newQuietBook(t, sharers(run, tt.averaging))
				if blind.blind = true; blind.run(600).IdlePower > 0 {
					without++
				}
			}
			t.Logf("%s: learned in %d of %d runs, and in %d runs without power samples; error %.1f W on average, %.1f W at most",
				tt.name, learned, runs, without, sum/float64(max(learned, 1)), worst)
			if learned < tt.least*runs/32 || worst > tt.worst {
				t.Errorf("idle power was learned in %d of %d runs, want at least %d; the worst error is %.1f W, want at most %.1f", learned, runs, tt.least*runs/32, worst, tt.worst)
			}
		})
	}
}

// TestLightLoads checks the energy charged to a holder with light work that shares a GPU with an idle holder. If the
// work is evenly distributed and the driver averages power, no sample shows the idle power, so the energy depends on an
// estimate.
func TestLightLoads(t *testing.T) {
	loads := []struct {
		name         string
		work, period int     // ms
		watts        float64 // in addition to 110 W
		truth        float64 // true charge in percent: (half of 110 W in idle time + energy of the work) / energy
		even         bool    // set if no gap is longer than a sixth of a second
	}{
		{"1 ms of work every 200 ms", 1, 200, 520, 51.4, false},
		{"20 % busy, evenly", 2, 10, 398, 76.8, true},
		{"60 % busy, evenly", 6, 10, 495, 94.6, true},
	}
	for _, load := range loads {
		for _, averaging := range []int{1, 100, 1000} {
			for _, stored := range []gpu.Watts{0, 110} {
				name := fmt.Sprintf("%s, power over %d ms, stored %v W", load.name, averaging, stored)
				t.Run(name, func(t *testing.T) {
					random := rand.New(rand.NewPCG(3, 4))
					b := newQuietBook(t, newQuietWorld(5, 110, averaging, []float64{load.watts, 0}, []pattern{every(random, load.work, load.period), never}))
					b.stored = stored
					b.run(600)
					charged, truth := b.share(0)
					t.Logf("truth %.1f %%, charged %.1f %%, idle power %.1f W %v", truth, charged, b.last.Floor.Power, b.last.Floor.Source)
					if math.Abs(truth-load.truth) > 0.1 {
						t.Fatalf("the truth of the simulation is %.1f %%, want %.1f", truth, load.truth)
					}
					hidden := load.even && averaging > 1
					want := gpu.IdleMeasured
					switch {
					case hidden && stored > 0:
						want = gpu.IdleStored
					case hidden:
						want = gpu.IdleLimit
					}
					if b.last.Floor.Source != want {
						t.Errorf("the idle power is %v from %v, want %v", b.last.Floor.Power, b.last.Floor.Source, want)
					}
					if off := math.Abs(charged - truth); off > 2 && want != gpu.IdleLimit {
						t.Errorf("charged %.1f %%, want %.1f", charged, truth)
					}
				})
			}
		}
	}
}
