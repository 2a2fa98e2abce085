package nvml_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

func divided() gputest.Node {
	return gputest.Node{GPUs: []gputest.GPU{gputest.Divided(0), gputest.Full(1)}}
}

// While a function fails, no GPU may be lost, no process may seem to have ended, and every reported instance must be
// correct.
func TestMIGCallFails(t *testing.T) {
	calls := []string{
		"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
		"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetAttributes", "nvmlDeviceGetGpuInstanceProfileInfo",
		"nvmlDeviceGetGpuInstanceById", "nvmlGpuInstanceGetInfo",
	}
	for _, code := range []string{"fail:1", "fail:3", "fail:4", "fail:15", "fail:999"} {
		for _, call := range calls {
			t.Run(call+" "+code, func(t *testing.T) {
				d := newDriver(t, divided())
				s := d.open(gputest.NewClock().Now)
				d.fault(anyGPU, call, code)
				wantDivided(t, gputest.Read(t, s))
				d.healed()
				report := gputest.Read(t, s)
				if code != "fail:3" && code != "fail:4" { // permanent errors
					gputest.Check(t, report, divided())
				}
				d.fault(anyGPU, call, code)
				wantDivided(t, gputest.Read(t, s))
			})
		}
	}
}

func wantDivided(t *testing.T, report gpu.Report) {
	t.Helper()
	if len(report.Devices) != 2 || len(report.Readings) != 2 {
		t.Fatalf("%d devices, %d readings", len(report.Devices), len(report.Readings))
	}
	whole := divided().GPUs
	for i, r := range report.Readings {
		if diff := cmp.Diff(whole[i].Reading.Energy, r.Energy); diff != "" {
			t.Errorf("energy of GPU %d (-want +got):\n%s", i, diff)
		}
		known := r.ContextsKnown && report.Devices[i].Partitions != nil
		if diff := cmp.Diff(whole[i].Reading.Contexts, r.Contexts); known && diff != "" {
			t.Errorf("contexts of GPU %d (-want +got):\n%s", i, diff)
		}
	}
	if m := report.Devices[0].Partitions; m != nil {
		want := *whole[0].Device.Partitions
		if m.Slices == 0 {
			want.Slices = 0
		}
		if m.Instances[0].ProfileID < 0 {
			want.Instances[0].ProfileID, want.Instances[0].Start = -1, -1
		}
		if diff := cmp.Diff(want, *m); diff != "" {
			t.Errorf("MIG (-want +got):\n%s", diff)
		}
	}
}

// The process lists of the whole GPU are empty in MIG mode, so they must not be used while the mode is unknown.
func TestMIGModeUnknown(t *testing.T) {
	d := newDriver(t, divided())
	d.fault(anyGPU, "nvmlDeviceGetMigMode", "fail:999")
	for _, r := range gputest.Read(t, d.open(gputest.NewClock().Now)).Readings {
		if r.ContextsKnown {
			t.Errorf("contexts of %s are known: %+v", r.UUID, r.Contexts)
		}
	}
}

// If one of several MIG devices cannot be read, the processes must be unknown. If a device does not support one of the
// process lists, the processes must still be known.
func TestMIGDeviceFails(t *testing.T) {
	n := divided()
	d := newDriver(t, n)
	d.fault(n.GPUs[0].Device.Partitions.Instances[1].Devices[0].UUID, "nvmlDeviceGetComputeRunningProcesses", "fail:3")
	s := d.open(gputest.NewClock().Now)
	if r := gputest.Read(t, s).Readings[0]; !r.ContextsKnown {
		t.Error("contexts are unknown because one of three lists is missing")
	}
	d.fault(n.GPUs[0].Device.Partitions.Instances[1].Devices[0].UUID, "*", "fail:15")
	n.GPUs[0].Reading.Contexts, n.GPUs[0].Reading.ContextsKnown = nil, false
	gputest.Check(t, gputest.Read(t, s), n)
}

func TestMIGHole(t *testing.T) {
	d, want := newDriver(t, divided()), divided()
	first := &want.GPUs[0].Device.Partitions.Instances[0]
	d.fault(first.Devices[0].UUID, "nvmlDeviceGetMigDeviceHandleByIndex", "drop")
	s := d.open(gputest.NewClock().Now)
	first.Devices = first.Devices[1:]
	want.GPUs[0].Reading.Contexts = want.GPUs[0].Reading.Contexts[:1] // the other process is on the skipped device
	gputest.Check(t, gputest.Read(t, s), want)
	d.healed()
	gputest.Check(t, gputest.Read(t, s), divided())
}

// While nothing changes, a reading must make only the calls that detect changes.
func TestMIGIsReadOnce(t *testing.T) {
	d := newDriver(t, divided())
	d.plain = true // the details of the health contain the mode
	s := d.open(gputest.NewClock().Now)
	const readings, devices = 5, 3
	for range readings {
		gputest.Read(t, s)
	}
	want := map[string]int{
		"nvmlDeviceGetMigMode":                 2 * readings,
		"nvmlDeviceGetMaxMigDeviceCount":       readings,
		"nvmlDeviceGetMigDeviceHandleByIndex":  (devices + 4) * readings, // there is no device at four indices
		"nvmlDeviceGetUUID":                    2 + devices*readings,
		"nvmlDeviceGetName":                    2 + devices*readings,
		"nvmlDeviceGetGpuInstanceProfileInfo":  18,
		"nvmlDeviceGetGpuInstanceId":           devices,
		"nvmlDeviceGetAttributes":              2,
		"nvmlDeviceGetGpuInstanceById":         2,
		"nvmlGpuInstanceGetInfo":               1, // the other call is not permitted
		"nvmlDeviceGetComputeRunningProcesses": (1 + devices) * readings,
	}
	got := make(map[string]int)
	for call := range want {
		got[call] = d.calls(call)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestMIGAfterReload(t *testing.T) {
	clock := gputest.NewClock()
	n := divided()
	d := newDriver(t, n)
	s := d.open(clock.Now)
	gputest.Read(t, s)
	n.Loads++
	d.change(n)
	d.fault(anyGPU, "nvmlDeviceGetMaxMigDeviceCount", "fail:999")
	clock.Advance(time.Minute)
	report := gputest.Eventually(t, s, "the driver responds again", func(_ gpu.Report, err error) bool { return err == nil })
	n.GPUs[0].Device.Partitions = nil
	n.GPUs[0].Reading.Contexts, n.GPUs[0].Reading.ContextsKnown = nil, false
	gputest.Check(t, report, n)
}
