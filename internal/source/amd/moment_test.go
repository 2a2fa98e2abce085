package amd_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/source/amd"
)

// running returns a source with the clock of a synctest bubble. The source's Run method runs until the test ends.
func (d *tree) running() *amd.Source {
	began := time.Now()
	now := func() gpu.Instant { return gpu.Instant{Wall: time.Now(), Boot: time.Hour + time.Since(began)} }
	s := amd.New(amd.Config{
		Sys: d.path("sys"), Proc: d.path("proc"), Tick: time.Second, CallTimeout: gputest.HangTimeout, Now: now,
		Log: slog.New(slog.NewTextHandler(&d.log, nil)),
	})
	ctx, cancel := context.WithCancel(d.t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	d.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			d.t.Error(err)
		}
	})
	return s
}

func (d *tree) occupies(pid, units int) {
	d.write(fmt.Sprintf("%s%d/vram_40011", kfdProc, pid), "1")
	d.write(fmt.Sprintf("%s%d/stats_40011/cu_occupancy", kfdProc, pid), fmt.Sprint(units))
}

func shares(r gpu.Reading) map[uint32]float64 {
	all := make(map[uint32]float64)
	for _, s := range r.Samples {
		all[s.PID] += s.SM
	}
	return all
}

// A process must not be able to hide by resting at the times of the readings. This process works for a quarter of each
// second.
func TestMomentsAreRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ticks, worked = 200, 250 * time.Millisecond
		d := one(t)
		d.write(metrics1, string(mi300(10, 500).u16(12, 80)))
		d.occupies(100, 0)
		s := d.running()
		seen := 0
		for range ticks {
			if len(gputest.Read(t, s).Readings[0].Samples) > 0 {
				seen++
			}
			d.occupies(100, 304)
			time.Sleep(worked)
			synctest.Wait()
			d.occupies(100, 0)
			time.Sleep(time.Second - worked)
		}
		// The standard deviation is 6, so a difference of 32 is more than five standard deviations.
		if seen < ticks/4-32 || seen > ticks/4+32 {
			t.Errorf("the process was seen working in %d of %d readings, want about %d", seen, ticks, ticks/4)
		}
	})
}

// At the sampled moment, two processes work. Before the reading, one of them ends and a third process starts.
func TestMoment(t *testing.T) {
	average := func(percent uint16) string { return string(mi300(10, 500).u16(12, percent)) }
	sums := func(percent uint16, sum, samples uint32) string {
		return string(mi300(10, 500).u16(12, percent).u32(76, sum).u32(40, samples))
	}
	tests := map[string]struct {
		files [4]string // gpu_metrics at the first two readings, at the sampled moment and at the last reading
		want  float64   // utilisation of the GPU
	}{
		"firmware's average": {[4]string{average(10), average(20), average(80), average(0)}, 0.8},
		"sums":               {[4]string{sums(10, 500, 1000), sums(20, 500, 2000), sums(80, 900, 2500), sums(0, 40_500, 3000)}, 0.4},
	}
	for name, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			d := one(t)
			d.occupies(100, 0)
			d.occupies(101, 0)
			s := d.running()
			for _, file := range tt.files[:2] {
				d.write(metrics1, file)
				time.Sleep(time.Second)
				gputest.Read(t, s)
			}
			d.write(metrics1, tt.files[2])
			d.occupies(100, 30)
			d.occupies(101, 10)
			time.Sleep(time.Second)
			synctest.Wait()
			d.write(metrics1, tt.files[3])
			d.occupies(100, 0)
			if err := os.RemoveAll(d.path(kfdProc + "101")); err != nil {
				t.Fatal(err)
			}
			d.occupies(102, 90)
			r := gputest.Read(t, s).Readings[0]
			if diff := cmp.Diff(&tt.want, r.Gauges[gpu.Utilization]); diff != "" {
				t.Errorf("%s: utilisation (-want +got):\n%s", name, diff)
			}
			want := map[uint32]float64{100: tt.want * 30 / 40, 101: tt.want * 10 / 40}
			if diff := cmp.Diff(want, shares(r), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("%s: activity (-want +got):\n%s", name, diff)
			}
		})
	}
}
