package nvml_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/nvml"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// watch runs s until the test ends and returns the stages it tells.
func watch(t *testing.T, s *nvml.Source) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error("Run:", err)
		}
	})
}

// wantXIDs reads until there are as many events as wanted.
func wantXIDs(t *testing.T, s *nvml.Source, want ...gpu.XID) {
	t.Helper()
	var got []gpu.XID
	gputest.Eventually(t, s, "the events came", func(r gpu.Report, err error) bool {
		got = append(got, r.XIDs...)
		return len(got) >= len(want)
	})
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(gpu.XID{}, "At")); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestXIDs(t *testing.T) {
	d := newDriver(t, pair())
	one, two := d.node.GPUs[0].Device.UUID, d.node.GPUs[1].Device.UUID
	d.add("xid\tgpu=%s\tseq=1\tcode=13", one) // before anybody was listening
	s := d.open(gputest.NewClock().Now)
	watch(t, s)
	gputest.Read(t, s)
	d.add("xid\tgpu=%s\tseq=2\tcode=79", two)
	d.add("xid\tgpu=%s\tseq=3\tcode=48", one)
	wantXIDs(t, s, gpu.XID{UUID: two, Code: 79}, gpu.XID{UUID: one, Code: 48})

	d.node.Loads++
	d.write()
	gputest.Eventually(t, s, "the driver was reloaded", func(r gpu.Report, err error) bool { return err == nil })
	d.add("xid\tgpu=%s\tseq=4\tcode=31", two)
	wantXIDs(t, s, gpu.XID{UUID: two, Code: 31})
}

// TestXIDRefused has one GPU that gives no events.
func TestXIDRefused(t *testing.T) {
	d := newDriver(t, pair())
	one, two := d.node.GPUs[0].Device.UUID, d.node.GPUs[1].Device.UUID
	d.fault(one, "nvmlDeviceRegisterEvents", "fail:3")
	s := d.open(gputest.NewClock().Now)
	watch(t, s)
	gputest.Read(t, s)
	d.add("xid\tgpu=%s\tseq=1\tcode=63", one)
	d.add("xid\tgpu=%s\tseq=2\tcode=64", two)
	wantXIDs(t, s, gpu.XID{UUID: two, Code: 64})
}

// TestXIDStage tells how waiting goes.
func TestXIDStage(t *testing.T) {
	clock := gputest.NewClock()
	d := newDriver(t, pair())
	log := slog.New(slog.DiscardHandler)
	stages := stage.New(log, clock.Now)
	s := nvml.New(nvml.Config{LibraryPath: libraryPath, CallTimeout: callTimeout, Now: clock.Now, Log: log, Stages: stages})
	t.Cleanup(func() {
		if err := s.Close(time.Minute); err != nil {
			t.Error(err)
		}
	})
	watch(t, s)
	gputest.Eventually(t, s, "the stage is up", func(gpu.Report, error) bool { return stages.Up(stage.XID) })
	d.fault(anyGPU, "nvmlEventSetWait", "fail:999")
	gputest.Eventually(t, s, "the stage is down", func(gpu.Report, error) bool { return !stages.Up(stage.XID) })
	d.healed()
	gputest.Eventually(t, s, "the stage is up again", func(gpu.Report, error) bool { return stages.Up(stage.XID) })
}

// TestRunEndsWhileAWaitHangs does not wait for the driver.
func TestRunEndsWhileAWaitHangs(t *testing.T) {
	d := newDriver(t, pair())
	s := d.open(gputest.NewClock().Now)
	gputest.Read(t, s)
	d.fault(anyGPU, "nvmlEventSetWait", "hang")
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	if err := s.Run(ctx); err != nil {
		t.Error("Run:", err)
	}
}
