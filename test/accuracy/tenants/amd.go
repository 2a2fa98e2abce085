package tenants

import (
	"math"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// An MI300X has allUnits compute units. A process occupies usualUnits of them while it works. amdkfd divides the number
// of waves in flight by the number of waves that fit in a compute unit. Therefore a few waves on each compute unit
// count as a few compute units.
const allUnits, usualUnits = 304, 152

// isWholeAMD reports whether the board is an AMD GPU without partitions. The scheduler of such a GPU runs the queues of
// several processes at the same time (hws_max_conc_proc).
func (b *board) isWholeAMD() bool { return b.AMD != NoAMD && b.Slices == nil }

// occupied returns the number of compute units that a worker occupies now. If the worker worked for a fraction of the
// last millisecond, its waves are in flight with this probability.
func (b *board) occupied(w *worker) int {
	switch {
	case b.random.Float64() >= w.ran:
		return 0
	case w.Units == 0:
		return usualUnits
	}
	return w.Units
}

// An occupancy contains the compute units that each worker occupies at one moment, and the GPU's busy share from the
// firmware at this moment. The exporter chooses a random moment between two observations, so a tenant cannot predict
// it.
type occupancy struct {
	moment int64 // ms since the start
	units  []int
	busy   float64
}

func (b *board) schedule() {
	b.occupancy.moment = b.now + 1 + b.random.Int64N(tick.Milliseconds())
}

func (b *board) look() {
	if b.now != b.occupancy.moment || !b.isWholeAMD() {
		return
	}
	units := make([]int, len(b.workers))
	for i := range b.workers {
		units[i] = b.occupied(&b.workers[i])
	}
	b.occupancy.units, b.occupancy.busy = units, b.average()
}

// average returns the busy share that the firmware reports now, 0 to 1, rounded to a percent.
func (b *board) average() float64 {
	window := int64(1)
	if b.AMD == AMDLongAverage {
		window = 1000
	}
	return math.Round(100*b.busyOver(window)) / 100
}

// observeOccupancy adds the activity of a whole AMD GPU to an observation. The driver does not report the activity of
// processes. Therefore the exporter reads the occupied compute units at one moment since the last observation. It
// divides the GPU's activity among the processes in proportion to these units.
func (r *reader) observeOccupancy(o *ledger.Observation) {
	o.Sampled = gpu.Span{From: o.At.Boot - tick, To: o.At.Boot}
	busy := r.occupancy.busy
	if r.AMD == AMDSums {
		busy = (r.busySum - r.busySince) / float64(tick.Milliseconds())
	}
	units, all := r.occupancy.units, 0
	for _, n := range units {
		all += n
	}
	r.schedule()
	r.busySince = r.busySum
	if r.first.at == 0 { // the activity since the last reading is unknown
		return
	}
	o.Utilization = &busy
	o.ActivityKnown, o.ActivityWeighted = all > 0 || busy == 0, true
	for i, n := range units {
		if share := busy * float64(n) / float64(max(all, 1)); share > 0 {
			o.Activity = append(o.Activity, ledger.Activity{Process: o.Processes[i], Span: o.Sampled, Busy: time.Duration(share * float64(tick))})
		}
	}
}

// The power limit of this model is 750 W.
const amdModel = "AMD Instinct MI300X OAM"

var amdFloors = []gpu.Watts{100, 140}

func amdCheats(how Sharing) []Cheat {
	waiting := always(func() Load { return Evenly(1) })
	if how.isDivided() {
		return []Cheat{{Name: "mallory's waves wait on her partition and do no work", Watts: 5, Load: waiting}}
	}
	return []Cheat{
		{Name: "mallory works for 800 ms right after each reading", Watts: 400, Load: always(func() Load { return afterReadings(800) })},
		{Name: "mallory works 20 % of the time, on 8 of 304 compute units", Watts: 400, Units: 8, Load: always(func() Load { return Bursts(20, 0.2, 15) })},
		{Name: "mallory works 60 % of the time at 100 W, on 8 of 304 compute units", Watts: 100, Ordinary: 400, Units: 8, Load: always(func() Load { return Bursts(20, 0.6, 15) })},
		{Name: "mallory works 20 % of the time at 590 W, on all 304 compute units", Watts: 590, Ordinary: 200, Units: allUnits, Load: always(func() Load { return Bursts(20, 0.2, 15) })},
		{Name: "one wave of mallory waits on one compute unit and does no work", Watts: 5, Units: 1, Load: waiting},
		{Name: "mallory's waves wait on all 304 compute units and do no work", Watts: 5, Units: allUnits, Load: waiting},
	}
}
