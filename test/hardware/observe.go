package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/test/hardware/driver"
)

// settle is the time after which the power of a GPU no longer depends on earlier work.
const settle = 6 * time.Second

func (b *bench) power(ctx context.Context, over time.Duration) (float64, error) {
	var watts []float64
	err := until(ctx, time.Now().Add(over), 50*time.Millisecond, func() error {
		w, err := b.gpu.Power()
		watts = append(watts, w)
		return err
	})
	return mean(watts), err
}

func (b *bench) observeIdle(ctx context.Context) (float64, error) {
	if err := wait(ctx, settle); err != nil {
		return 0, err
	}
	return b.power(ctx, 8*time.Second)
}

// held contains the readings of a GPU with one idle context.
type held struct {
	power, learned float64 // power in W according to the driver and to the exporter
	tick           float64 // time in s between readings of the exporter
	listed         bool    // set if the process is in the driver's list
}

func (b *bench) observeHeld(ctx context.Context) (h held, err error) {
	l, err := b.start(ctx, "held", "--mode=hold")
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, l.end()) }()
	if err := wait(ctx, settle); err != nil {
		return h, err
	}
	if h.power, err = b.power(ctx, 8*time.Second); err != nil {
		return h, err
	}
	pids, err := b.gpu.Processes(false)
	h.listed = slices.Contains(pids, l.PID())
	if err != nil {
		return h, err
	}
	if h.tick, err = b.ticks(ctx, 12*time.Second); err != nil {
		return h, err
	}
	p, err := b.scrape(ctx)
	if err != nil {
		return h, err
	}
	measured := map[string]string{"UUID": b.gpu.UUID, "source": "measured"}
	if len(p.Matches("gpuledger_gpu_idle_power_info", measured)) > 0 { // otherwise the value is an estimate
		h.learned, err = b.gauge(p, "gpuledger_gpu_idle_power_watts")
	}
	return h, err
}

func (b *bench) ticks(ctx context.Context, over time.Duration) (float64, error) {
	var times series
	err := until(ctx, time.Now().Add(over), 100*time.Millisecond, func() error {
		p, err := b.scrape(ctx)
		if err != nil {
			return err
		}
		at, err := b.gauge(p, "gpuledger_gpu_last_reading_timestamp_seconds")
		times = append(times, point{time.Unix(0, int64(at*1e9)), at})
		return err
	})
	return mean(times.changes().gaps()), err
}

// step contains the readings of a GPU at the change from full load to no load. The GPU also has another context that
// never works.
type step struct {
	work          work
	worker, other int // PIDs
	// Powers are in W, and energies are in J. A series is empty if the GPU does not report the value.
	power, instant, energy, energyGPU, energyModule series
	rows                                            []seen[driver.Row]
	samples                                         []seen[driver.Sample]
	samplesErr                                      error
}

// at is the time at which a sample was first visible.
type seen[T any] struct {
	sample T
	at     time.Time
}

func (b *bench) observeStep(ctx context.Context) (s step, err error) {
	other, err := b.start(ctx, "step-other", "--mode=hold")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, other.end()) }()
	worker, err := b.start(ctx, "step-worker", "--mode=full", "--work=10s")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, worker.end()) }()
	s.worker, s.other = worker.PID(), other.PID()
	begin := time.Now()
	newest, newestPower := begin, begin
	err = until(ctx, begin.Add(20*time.Second), 5*time.Millisecond, func() error {
		s.readValues(b.gpu)
		rows, err := b.gpu.Utilization(newest)
		now := time.Now()
		for _, r := range rows {
			s.rows = append(s.rows, seen[driver.Row]{r, now})
			if r.At.After(newest) {
				newest = r.At
			}
		}
		if s.samplesErr == nil {
			var samples []driver.Sample
			samples, s.samplesErr = b.gpu.PowerSamples(newestPower)
			for _, p := range samples {
				s.samples, newestPower = append(s.samples, seen[driver.Sample]{p, time.Now()}), p.At
			}
		}
		return err
	})
	if err == nil {
		s.work, err = worker.result(ctx)
	}
	return s, err
}

func (s *step) readValues(gpu *driver.Device) {
	add := func(to *series, value float64, err error) {
		if err == nil {
			*to = append(*to, point{time.Now(), value})
		}
	}
	field := func(to *series, id, scope int) {
		value, err := gpu.Field(id, scope)
		add(to, value, err)
	}
	power, err := gpu.Power()
	add(&s.power, power, err)
	energy, err := gpu.Energy()
	add(&s.energy, energy, err)
	field(&s.instant, driver.InstantPower, driver.ScopeGPU)
	field(&s.energyGPU, driver.EnergyField, driver.ScopeGPU)
	field(&s.energyModule, driver.EnergyField, driver.ScopeModule)
}

// full returns the readings at full load. It omits the first readings, because they may still be averaged over earlier
// work.
func (s *step) full(of series) series {
	return of.between(s.work.began().Add(4*time.Second), s.work.ended().Add(-100*time.Millisecond))
}

func (s *step) loadPower() float64 { return mean(s.full(s.power).values()) }

// After a process has stopped working, another process works. observeRing measures for how long the driver still keeps
// the samples of the first process. A row contains only the time of a process's newest sample.
func (b *bench) observeRing(ctx context.Context) (kept time.Duration, err error) {
	first, err := b.start(ctx, "ring-first", "--mode=full", "--work=3s")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, first.end()) }()
	w, err := first.result(ctx)
	if err != nil {
		return 0, err
	}
	second, err := b.start(ctx, "ring-second", "--mode=full", "--work=22s")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, second.end()) }()
	err = until(ctx, time.Now().Add(22*time.Second), 100*time.Millisecond, func() error {
		rows, err := b.gpu.Utilization(w.began())
		if i := slices.IndexFunc(rows, func(r driver.Row) bool { return r.PID == first.PID() }); i >= 0 {
			kept = max(kept, time.Since(rows[i].At)) // the newest sample stays visible until it leaves the ring
		}
		return err
	})
	return kept, err
}

// pair contains the results of two loads that run at the same time.
type pair struct {
	// work, charged and sampled are shares of the first load: in the work, in the exporter's charges, and in the
	// samples.
	work, charged, sampled float64
	busy, seen             float64 // share of the time in which the GPU was busy, according to the loads and to the samples
}

func (b *bench) observePair(ctx context.Context, first, second []string) (p pair, err error) {
	names := [2]string{first[0], second[0]}
	var loads [2]*load
	for i, args := range [][]string{first, second} {
		if loads[i], err = b.start(ctx, names[i], args[1:]...); err != nil {
			return p, err
		}
		defer func() { err = errors.Join(err, loads[i].end()) }()
	}
	sums, busy, err := b.watch(ctx, loads)
	if err != nil {
		return p, err
	}
	var works [2]work
	for i, l := range loads {
		if works[i], err = l.result(ctx); err != nil {
			return p, err
		}
	}
	took := max(works[0].EndedNs, works[1].EndedNs) - min(works[0].BeganNs, works[1].BeganNs)
	p.work = share(works[0].Iterations, works[1].Iterations)
	p.sampled = share(sums[0], sums[1])
	p.seen = busy
	p.busy = (works[0].Iterations + works[1].Iterations) / b.rate / time.Duration(took).Seconds()
	energies, err := b.charged(ctx, loads, names)
	p.charged = share(energies[0], energies[1])
	return p, err
}

// watch adds up the samples of two loads until both have finished their work. busy is the busy share in the ten seconds
// before each reading, averaged over all readings.
func (b *bench) watch(ctx context.Context, loads [2]*load) (sums [2]float64, busy float64, err error) {
	const window = 10 * time.Second
	var whole []float64
	began := time.Now()
	for ended := false; !ended; {
		if err := wait(ctx, time.Second); err != nil {
			return sums, 0, err
		}
		rows, err := b.gpu.Utilization(time.Now().Add(-window))
		if err != nil {
			return sums, 0, err
		}
		total := 0.0
		for _, r := range rows {
			total += r.SM
			for i, l := range loads {
				if r.PID == l.PID() {
					sums[i] += r.SM
				}
			}
		}
		if time.Since(began) > window+time.Second {
			whole = append(whole, total)
		}
		ended = loads[0].worked() && loads[1].worked()
	}
	return sums, median(whole), nil
}

// charged ends two loads and returns the energies that the exporter has charged to them. It waits first, because the
// exporter can charge an interval ten seconds late.
func (b *bench) charged(ctx context.Context, loads [2]*load, names [2]string) (joules [2]float64, err error) {
	for _, l := range loads {
		l.Stop()
	}
	if err := wait(ctx, 12*time.Second); err != nil {
		return joules, err
	}
	page, err := b.scrape(ctx)
	for i, name := range names {
		joules[i] = page.Sum("gpuledger_unit_energy_joules_total", map[string]string{"UUID": b.gpu.UUID, "unit": name})
	}
	return joules, err
}

// share returns 0 if the sum of a and b is 0.
func share(a, b float64) float64 {
	if a+b == 0 {
		return 0
	}
	return a / (a + b)
}
