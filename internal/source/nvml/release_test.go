package nvml_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
)

func request(clock *gputest.Clock, name string) *nvml.Release {
	now := clock.Now()
	return &nvml.Release{GPU: name, Until: now.Wall.Add(15 * time.Minute), Ends: now.Boot + 15*time.Minute, By: "ada"}
}

func wantRelease(t *testing.T, s *nvml.Source, r *nvml.Release, done bool) {
	t.Helper()
	if got, err := s.Release(r); err != nil || got != done {
		t.Errorf("done: %v, error %v, want %v", got, err, done)
	}
}

// The driver must stay shut down until the release expires or a request ends it. A stuck call must delay the shutdown.
func TestReleaseDriver(t *testing.T) {
	clock := clockAtTwo()
	d := newDriver(t, pair())
	s := d.openWith(100*time.Millisecond, clock.Now)
	read := func() error { _, err := s.Read(context.Background()); return err }
	gputest.Eventually(t, s, "the driver responds", func(_ gpu.Report, err error) bool { return err == nil })
	for _, end := range []func(){func() { clock.Advance(15 * time.Minute) }, func() { wantRelease(t, s, nil, true) }} {
		d.fault(d.node.GPUs[0].Device.UUID, "nvmlDeviceGetPowerUsage", "hang")
		_ = read()
		r := request(clock, "")
		wantRelease(t, s, r, false)
		if err := read(); err == nil || !strings.Contains(err.Error(), "waiting until a stuck driver call returns") {
			t.Errorf("with a stuck call: %v", err)
		}
		wantRelease(t, s, r, false)
		d.healed()
		want := "released until " + r.Until.Format(time.TimeOnly) + " by ada"
		gputest.Eventually(t, s, "the driver is released", func(_ gpu.Report, err error) bool {
			return err != nil && strings.HasSuffix(err.Error(), want)
		})
		wantRelease(t, s, r, true)
		calls := len(d.log())
		if clock.Advance(15*time.Minute - time.Nanosecond); read() == nil || len(d.log()) != calls || d.last() != "nvmlShutdown" {
			t.Errorf("a call during the release: %s", d.log()[calls:])
		}
		clock.Advance(time.Nanosecond - 15*time.Minute)
		end()
		gputest.Eventually(t, s, "the driver responds again", func(_ gpu.Report, err error) bool { return err == nil })
	}
}

// All GPUs except the released GPU must be opened, and the released GPU must be reported without a reading. A GPU that
// cannot be opened by its PCI address must not affect other GPUs.
func TestReleaseGPU(t *testing.T) {
	clock := clockAtTwo()
	d := newDriver(t, eight())
	s := d.open(clock.Now)
	gputest.Check(t, gputest.Read(t, s), d.node)
	opened := func(call string) (uuids []string) {
		log := d.log()
		for line := range strings.Lines(log[strings.LastIndex(log, "\tnvmlInit\t"):]) {
			if field := strings.Split(line, "\t"); field[0] != "" && field[1] == call {
				uuids = append(uuids, field[2])
			}
		}
		slices.Sort(uuids)
		return slices.Compact(uuids)
	}
	const released, failing = 4, 6
	var others []string
	for i, g := range d.node.GPUs {
		if i != released {
			others = append(others, g.Device.UUID)
		}
	}
	slices.Sort(others)
	d.fault(d.node.GPUs[failing].Device.UUID, "nvmlDeviceGetHandleByPciBusId", "fail:999")
	r := request(clock, d.node.GPUs[released].Device.UUID)
	wantRelease(t, s, r, false)
	report := gputest.Read(t, s)
	wantRelease(t, s, r, true)
	if got := opened("nvmlDeviceGetHandleByPciBusId"); !slices.Equal(got, others) || len(opened("nvmlDeviceGetHandleByIndex")) > 0 {
		t.Errorf("opened %v, want %v", got, others)
	}
	has := func(i int) (device, reading bool) {
		uuid := d.node.GPUs[i].Device.UUID
		return slices.ContainsFunc(report.Devices, func(d gpu.Device) bool { return d.UUID == uuid }),
			slices.ContainsFunc(report.Readings, func(r gpu.Reading) bool { return r.UUID == uuid })
	}
	for i := range d.node.GPUs {
		if device, reading := has(i); device != (i != failing) || reading != (i != failing && i != released) {
			t.Errorf("GPU %d: device %v, reading %v", i, device, reading)
		}
	}
	d.healed()
	clock.Advance(15 * time.Minute)
	gputest.Check(t, gputest.Read(t, s), d.node)
	if _, err := s.Release(request(clock, "GPU-0")); err == nil {
		t.Error("an unknown GPU was released")
	}
}

// If the exporter restarts during a release, a GPU is released before the first reading. The first reading must find
// the GPU.
func TestReleaseGPUAtOnce(t *testing.T) {
	clock := clockAtTwo()
	d := newDriver(t, pair())
	s := d.open(clock.Now)
	r := request(clock, d.node.GPUs[1].Device.Serial)
	wantRelease(t, s, r, false)
	gputest.Check(t, gputest.Read(t, s), d.node)
	wantRelease(t, s, r, false)
	_ = gputest.Read(t, s)
	wantRelease(t, s, r, true)
}
