package source_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/source"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// said is a driver that says what it is told to.
type said struct {
	gpu.Report
	err error
}

func (s *said) Read(context.Context) (gpu.Report, error) {
	if s.err != nil {
		return gpu.Report{}, s.err
	}
	r := s.Report
	s.XIDs = nil // each is told once
	return r, nil
}

func (s *said) Close(time.Duration) error { return nil }

// of makes the driver's report one of one GPU.
func (s *said) of(name string, g gputest.GPU, at gpu.Instant) {
	g.Reading.UUID, g.Reading.At = g.Device.UUID, at
	s.err, s.Report = nil, gpu.Report{Driver: gpu.Driver{Source: name}, Devices: []gpu.Device{g.Device}, Readings: []gpu.Reading{g.Reading}}
}

// both is a source of two drivers that say what they are told to.
type both struct {
	*source.Source
	engine, library said
	clock           *gputest.Clock
}

func newBoth(alone bool) *both {
	b := &both{clock: gputest.NewClock()}
	log := slog.New(slog.DiscardHandler)
	b.Source = source.New(source.Config{
		NVML: &b.library, DCGM: &b.engine, Alone: alone, Now: b.clock.Now, Log: log, Stages: stage.New(log, b.clock.Now),
	})
	return b
}

// ago is a moment before now.
func (b *both) ago(d time.Duration) gpu.Instant {
	now := b.clock.Now()
	return gpu.Instant{Wall: now.Wall.Add(-d), Boot: now.Boot - d}
}

// one reads the source, which must report one GPU.
func (b *both) one(t *testing.T) (gpu.Device, gpu.Reading) {
	t.Helper()
	r := gputest.Read(t, b)
	if len(r.Devices) != 1 || len(r.Readings) != 1 {
		t.Fatalf("%d devices, %d readings", len(r.Devices), len(r.Readings))
	}
	return r.Devices[0], r.Readings[0]
}

// without is a GPU as the engine knows it.
func without(g gputest.GPU) gputest.GPU {
	g.Device.BoardPartNumber = ""
	m := &gpu.MIG{Slices: g.Device.MIG.Slices}
	for _, i := range g.Device.MIG.Instances {
		i.Devices, i.Start = nil, -1
		m.Instances = append(m.Instances, i)
	}
	g.Device.MIG = m
	return g
}

var errDown = errors.New("down")

// metered returns a GPU with a counter of a scope.
func metered(scope gpu.EnergyScope, mJ gpu.Millijoules) gputest.GPU {
	g := gputest.Plain(0)
	g.Device.EnergyScope, g.Reading.Energy = scope, &mJ
	return g
}
