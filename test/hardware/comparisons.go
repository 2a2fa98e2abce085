package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/test/hardware/driver"
)

// A comparison compares an assumption of the exporter with the GPU.
type comparison struct {
	question, assumed string
	// place is the file with the assumption. constant is the name of the assumption in this file, and code is its value
	// in Go. code is empty if the assumption is not a constant.
	place, constant, code string
	// A measured value between low and high agrees with the assumption.
	low, high float64
	measure   func(context.Context, *bench) (measured, error)
}

// text is the measured value as on the page.
type measured struct {
	value float64
	text  string
}

// comparisons contains all comparisons in the order of measurement. The idle GPU is measured first.
var comparisons = []comparison{
	{
		"Idle power without a context, relative to idle power with a context", "at least 3 % less", "internal/ledger/idle.go", "learn", "",
		0, 0.97, func(ctx context.Context, b *bench) (measured, error) {
			without, err := b.idle.get(ctx, b.observeIdle)
			if err != nil {
				return measured{}, err
			}
			h, err := b.held.get(ctx, b.observeHeld)
			return measured{without / h.power, fmt.Sprintf("%.1f W of %.1f W", without, h.power)}, err
		},
	},
	{
		"Idle power with a context, where none is learned", "1/8 of the power limit ± 25 %", "internal/ledger/idleestimate.go", "idlePower", "",
		0.75, 1.25, func(ctx context.Context, b *bench) (measured, error) {
			h, err := b.held.get(ctx, b.observeHeld)
			return measured{h.power / (b.gpu.Limit / 8), fmt.Sprintf("%.1f W, limit/%.1f", h.power, b.gpu.Limit/h.power)}, err
		},
	},
	{
		"Idle power that the exporter learns, relative to the driver's power", "100 % ± 5 %", "internal/ledger/idle.go", "lowShare", "",
		0.95, 1.05, func(ctx context.Context, b *bench) (measured, error) {
			h, err := b.held.get(ctx, b.observeHeld)
			return measured{h.learned / h.power, fmt.Sprintf("%.1f W of %.1f W", h.learned, h.power)}, err
		},
	},
	{
		"Time between two readings of the exporter", "1 s", "internal/app/config.go", "Tick", "",
		0.9, 1.3, func(ctx context.Context, b *bench) (measured, error) {
			h, err := b.held.get(ctx, b.observeHeld)
			return seconds(h.tick), err
		},
	},
	{
		"The process list has the PID of this machine's /proc", "yes", "internal/source/nvml/lists.go", "", "",
		1, 1, func(ctx context.Context, b *bench) (measured, error) {
			h, err := b.held.get(ctx, b.observeHeld)
			return yes(h.listed), err
		},
	},
	{
		"Energy counter against the integral of power at full load", "100 % ± 5 %", "docs/energy.md", "How accurate", "",
		0.95, 1.05, ofStep(func(s *step) (measured, error) {
			counter := s.energy
			if len(s.energyGPU) > 0 {
				counter = s.energyGPU // preferred by the exporter
			}
			return percent(s.full(counter).slope() / s.loadPower()), nil
		}),
	},
	{
		"Scope of nvmlDeviceGetTotalEnergyConsumption", "the GPU, unless field 191 has the module only", "internal/source/nvml/energy.go", "choose", "",
		0.9, 1.1, ofStep((*step).scope),
	},
	{
		"Refresh of the energy counter", "100 ms", "internal/ledger/reading.go", "counterStep", "100 * time.Millisecond",
		0, 0.15, ofStep(func(s *step) (measured, error) { return seconds(median(s.full(s.energy).changes().gaps())), nil }),
	},
	{
		"Delay of the energy counter at the end of work", "at most 100 ms", "internal/ledger/reading.go", "counterStep", "100 * time.Millisecond",
		-0.15, 0.15, ofStep(func(s *step) (measured, error) { return seconds(s.energy.lag(s.work.ended())), nil }),
	},
	{
		"Power averaging: time of 90 % of the fall of nvmlDeviceGetPowerUsage", "at most 1 s", "internal/ledger/idle.go", "learn", "",
		0, 1.3, ofStep(func(s *step) (measured, error) { return seconds(s.power.fall(s.work.ended())), nil }),
	},
	{
		"Power averaging: the same time of field 186, instant power", "at most 0.2 s", "docs/energy.md", "Readings", "",
		0, 0.3, ofStep(func(s *step) (measured, error) {
			if len(s.instant) == 0 {
				return measured{}, driver.ErrNotSupported
			}
			return seconds(s.instant.fall(s.work.ended())), nil
		}),
	},
	{
		"The same of nvmlDeviceGetSamples(power)", "at most 1 s", "internal/source/nvml/quiet/quiet.go", "longestAveraging", "time.Second",
		0, 1.3, ofPower(func(s *step, samples, _ series) float64 { return samples.fall(s.work.ended()) }),
	},
	{
		"Time between the samples of nvmlDeviceGetSamples(power)", "at most 100 ms", "internal/source/nvml/quiet/quiet.go", "inGaps", "",
		0, 0.1, ofPower(func(_ *step, samples, _ series) float64 { return median(samples.gaps()) }),
	},
	{
		"Delay of the samples of nvmlDeviceGetSamples(power)", "at most 250 ms", "internal/source/nvml/samples.go", "settling", "250 * time.Millisecond",
		-0.05, 0.25, ofPower(func(_ *step, _, delays series) float64 { return quantile(delays.values(), 0.9) }),
	},
	{
		"Time between the samples of nvmlDeviceGetProcessUtilization", "139 to 167 ms", "internal/source/nvml/samples.go", "settling", "250 * time.Millisecond",
		0.1, 0.18, ofStep(func(s *step) (measured, error) { return seconds(s.samplePeriod()), nil }),
	},
	{
		"Delay of these samples", "at most 250 ms", "internal/source/nvml/samples.go", "settling", "250 * time.Millisecond",
		-0.05, 0.25, ofStep(func(s *step) (measured, error) {
			var delays []float64
			for _, r := range s.rows {
				delays = append(delays, r.at.Sub(r.sample.At).Seconds())
			}
			return seconds(median(delays)), nil
		}),
	},
	{
		"The process that these samples name while nothing runs", "a process with a context", "docs/accuracy.md", "How the driver samples", "",
		namesContext, namesContext, ofStep(func(s *step) (measured, error) { return s.names(), nil }),
	},
	{
		"Time that the driver keeps these samples", "10 s or more", "internal/source/nvml/samples.go", "ringSpan", "10 * time.Second",
		9.5, 15, func(ctx context.Context, b *bench) (measured, error) {
			kept, err := b.ring.get(ctx, b.observeRing)
			return seconds(kept.Seconds()), err
		},
	},
	{
		"Sum of the rows of two loads that keep the GPU busy", "100 %", "internal/source/nvml/samples.go", "readRing", "",
		0.85, 1.15, ofPair((*bench).equalLoads, func(p pair) measured { return percent(p.seen) }),
	},
	{
		"Two equal loads: samples of the first", "50 % ± 8", "docs/energy.md", "How accurate", "",
		0.42, 0.58, ofPair((*bench).equalLoads, func(p pair) measured { return percent(p.sampled) }),
	},
	{
		"Two equal loads: charge of the first", "its work ± 6 points", "docs/energy.md", "How accurate", "",
		-0.06, 0.06, ofPair((*bench).equalLoads, charge),
	},
	{
		"Equal work smooth and in bursts: charge of the smooth one", "its work ± 8 points", "docs/energy.md", "How accurate", "",
		// three standard errors of the samples in a minute
		-0.08, 0.08, ofPair((*bench).smoothAndBursts, charge),
	},
	{
		"Equal work smooth and in bursts: busy time by samples", "100 % ± 25 %", "internal/ledger/idle.go", "busyShare", "",
		0.75, 1.25, ofPair((*bench).smoothAndBursts, func(p pair) measured {
			return measured{p.seen / p.busy, fmt.Sprintf("%.1f %% of the time, of %.1f %%", 100*p.seen, 100*p.busy)}
		}),
	},
	{
		"MPS: work in samples that name the server", "100 %", "internal/sampler/mps.go", "passOn", "",
		0.95, 1, func(ctx context.Context, b *bench) (measured, error) {
			s, err := b.mps.get(ctx, b.observeMPS)
			return percent(s.named), err
		},
	},
	{
		"MPS: clients in the list of MPS contexts", "100 %", "internal/sampler/mps.go", "passOn", "",
		1, 1, func(ctx context.Context, b *bench) (measured, error) {
			s, err := b.mps.get(ctx, b.observeMPS)
			return percent(s.listed), err
		},
	},
}

// These values represent the process that samples may name while nothing runs.
const (
	namesNone float64 = iota
	namesLast
	namesContext
)

func seconds(s float64) measured { return measured{s, fmt.Sprintf("%.0f ms", 1000*s)} }
func percent(v float64) measured { return measured{v, fmt.Sprintf("%.1f %%", 100*v)} }

func yes(b bool) measured {
	if b {
		return measured{1, "yes"}
	}
	return measured{0, "no"}
}

func ofStep(measure func(*step) (measured, error)) func(context.Context, *bench) (measured, error) {
	return func(ctx context.Context, b *bench) (measured, error) {
		s, err := b.step.get(ctx, b.observeStep)
		if err != nil {
			return measured{}, err
		}
		return measure(&s)
	}
}

// ofPower returns a function that measures a time in seconds from the power samples and their delays. The n-th delay
// belongs to the n-th sample.
func ofPower(measure func(s *step, samples, delays series) float64) func(context.Context, *bench) (measured, error) {
	return ofStep(func(s *step) (measured, error) {
		var samples, delays series
		for _, p := range s.samples {
			samples = append(samples, point{p.sample.At, p.sample.Power})
			delays = append(delays, point{p.at, p.at.Sub(p.sample.At).Seconds()})
		}
		return seconds(measure(s, samples, delays)), s.samplesErr
	})
}

func ofPair(observe func(*bench, context.Context) (pair, error), measure func(pair) measured) func(context.Context, *bench) (measured, error) {
	return func(ctx context.Context, b *bench) (measured, error) {
		p, err := observe(b, ctx)
		return measure(p), err
	}
}

func (b *bench) equalLoads(ctx context.Context) (pair, error) {
	return b.equal.get(ctx, func(ctx context.Context) (pair, error) {
		return b.observePair(ctx, []string{"equal-a", "--mode=full", "--work=10s"}, []string{"equal-b", "--mode=full", "--work=10s"})
	})
}

func (b *bench) smoothAndBursts(ctx context.Context) (pair, error) {
	return b.patterns.get(ctx, func(ctx context.Context) (pair, error) {
		return b.observePair(ctx, []string{"smooth", "--mode=smooth", "--work=12s"}, []string{"bursts", "--mode=bursts", "--work=12s"})
	})
}

// charge measures how the exporter's charge for the first load differs from the load's work.
func charge(p pair) measured {
	return measured{p.charged - p.work, fmt.Sprintf("%.1f %% for %.1f %% of the work", 100*p.charged, 100*p.work)}
}

// scope measures how the default energy counter differs from the power that the GPU reports.
func (s *step) scope() (measured, error) {
	rate, power := s.full(s.energy).slope(), s.loadPower()
	text := fmt.Sprintf("%.2f × the GPU's power", rate/power)
	for name, of := range map[string]series{"GPU": s.energyGPU, "module": s.energyModule} {
		if len(of) > 0 {
			text += fmt.Sprintf("; field 191 of the %s: %.2f ×", name, s.full(of).slope()/power)
		}
	}
	if len(s.energyGPU) == 0 && len(s.energyModule) > 0 {
		rate = power // here the exporter divides the module's energy
	}
	return measured{rate / power, text}, nil
}

// samplePeriod returns the median interval of the samples that name the working process.
func (s *step) samplePeriod() float64 {
	var times series
	for _, r := range s.rows {
		if r.sample.PID == s.worker && r.sample.At.Before(s.work.ended()) {
			times = append(times, point{r.sample.At, r.sample.SM})
		}
	}
	return median(times.gaps())
}

// names returns the process that samples name more than a second after the end of the work.
func (s *step) names() measured {
	var pids []int
	for _, r := range s.rows {
		if r.sample.At.After(s.work.ended().Add(time.Second)) {
			pids = append(pids, r.sample.PID)
		}
	}
	switch {
	case slices.Contains(pids, s.other):
		return measured{namesContext, "a process with a context, also if it never worked"}
	case slices.Contains(pids, s.worker):
		return measured{namesLast, "the process that worked last"}
	case len(pids) > 0:
		return measured{math.NaN(), "another process"}
	}
	return measured{namesNone, "none: there are no samples"}
}
