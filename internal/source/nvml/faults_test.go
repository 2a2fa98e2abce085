package nvml_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
)

// TestCallFails makes each call fail for one of eight GPUs. It uses error codes after which the program repeats the
// call. Only the values of this call may be missing, and they must return when the call works again.
func TestCallFails(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	for name, call := range calls {
		if call.gpu == none {
			continue
		}
		for _, code := range []string{"fail:1", "fail:999", "fail:4711"} {
			t.Run(name+" "+code, func(t *testing.T) {
				clock := gputest.NewClock()
				d := newDriver(t, eight())
				uuid := d.node.GPUs[call.gpu].Device.UUID
				d.fault(uuid, name, code)
				s := d.open(clock.Now)
				wantEight(t, "at first", s, call.gpu, call.first)
				d.healed()
				clock.Advance(time.Minute)
				wantEight(t, "healed", s, none, nothing)
				d.fault(uuid, name, code)
				wantEight(t, "later", s, call.gpu, call.later)
				d.healed()
				wantEight(t, "healed again", s, none, nothing)
			})
		}
	}
}

// wantEight reads until each GPU has had time to respond, and then checks the report. The fault affects one of the
// GPUs.
func wantEight(t *testing.T, when string, s *nvml.Source, affected int, e effect) {
	t.Helper()
	n := eight()
	if affected != none && e != nil {
		e(&n.GPUs[affected])
	}
	want := 8
	if slices.ContainsFunc(n.GPUs, func(g gputest.GPU) bool { return g.Lost }) {
		want--
	}
	checkEight(t, when, gputest.Eventually(t, s, "they answer", func(r gpu.Report, err error) bool {
		return err == nil && len(r.Readings) == want
	}), affected, e)
}

func checkEight(t *testing.T, when string, report gpu.Report, affected int, e effect) {
	t.Helper()
	if t.Failed() {
		return // further differences follow from the first difference
	}
	n := eight()
	if affected != none && e != nil {
		e(&n.GPUs[affected])
	}
	if gputest.Check(t, report, n); t.Failed() {
		t.Log(when)
	}
}

// TestDriverCallFails makes each call fail that concerns the driver instead of a single GPU. If the driver can be
// opened without the call, all GPUs must be reported. Otherwise, the driver must be opened as soon as the call works
// again.
func TestDriverCallFails(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	for name, call := range calls {
		if call.gpu != none {
			continue
		}
		for _, fault := range []string{"fail:1", "fail:3", "fail:999", "hang"} {
			t.Run(name+" "+fault, func(t *testing.T) {
				clock := gputest.NewClock()
				d := newDriver(t, eight())
				d.fault(anyGPU, name, fault)
				s := d.open(clock.Now)
				if strings.HasPrefix(name, "nvmlEventSet") {
					watch(t, s)
				}
				_, _ = gputest.Hasty(s).Read(t.Context())
				d.healed()
				clock.Advance(time.Minute)
				gputest.Check(t, gputest.Eventually(t, s, "the driver is open", complete), eight())

				d.node.Loads++ // makes the program open the driver again while the call fails
				d.fault(anyGPU, name, fault)
				hasty := gputest.Hasty(s)
				for range 3 {
					_, _ = hasty.Read(t.Context())
				}
				d.healed()
				clock.Advance(time.Minute)
				gputest.Check(t, gputest.Eventually(t, s, "the driver is open again", complete), eight())
			})
		}
	}
}

func complete(r gpu.Report, err error) bool {
	silent := func(d gpu.Device) bool { return !d.ReportsEvents }
	return err == nil && len(r.Readings) == 8 && !slices.ContainsFunc(r.Devices, silent)
}

// TestOthersAreUnharmed breaks each call for one of eight GPUs: with permanent error codes, empty responses, empty
// lists and wrong energy. The values of the seven other GPUs must be exact. After a driver reload, the broken GPU must
// be read again.
func TestOthersAreUnharmed(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	for name, call := range calls {
		if call.gpu == none {
			continue
		}
		faults := []string{"fail:3", "fail:6", "fail:9", "fail:15", "blank", "drop", "size:0"}
		if strings.Contains(name, "Energy") || strings.Contains(name, "FieldValues") {
			faults = append(faults, "glitch-low", "glitch-high")
		}
		t.Run(name, func(t *testing.T) {
			clock := gputest.NewClock()
			d := newDriver(t, eight())
			s := d.open(clock.Now)
			gputest.Read(t, s)
			uuid := d.node.GPUs[call.gpu].Device.UUID
			for _, fault := range faults {
				d.fault(uuid, name, fault)
				for range 2 {
					clock.Advance(time.Second)
					others(t, fault+" later", gputest.Eventually(t, s, "they answer", answered(uuid)), uuid)
				}
				d.healed()
				clock.Advance(time.Minute)
			}
			for _, fault := range []string{"fail:3", "fail:15", "blank", "drop"} {
				d.node.Loads++
				d.fault(uuid, name, fault)
				others(t, fault+" first", gputest.Eventually(t, s, "the driver is open", answered(uuid)), uuid)
				d.healed()
			}
			d.node.Loads++
			d.write()
			clock.Advance(time.Minute)
			checkEight(t, "healed", gputest.Eventually(t, s, "it answers", complete), none, nothing)
		})
	}
}

func answered(one string) func(gpu.Report, error) bool {
	return func(r gpu.Report, err error) bool {
		others := slices.DeleteFunc(slices.Clone(r.Readings), func(r gpu.Reading) bool { return r.UUID == one })
		return err == nil && len(others) == 7
	}
}

// The indices of the other GPUs depend on whether the driver counts the given GPU.
func others(t *testing.T, when string, report gpu.Report, one string) {
	t.Helper()
	if t.Failed() {
		return
	}
	report.Devices = slices.DeleteFunc(slices.Clone(report.Devices), func(d gpu.Device) bool { return d.UUID == one })
	report.Readings = slices.DeleteFunc(slices.Clone(report.Readings), func(r gpu.Reading) bool { return r.UUID == one })
	n := eight()
	n.GPUs = slices.DeleteFunc(n.GPUs, func(g gputest.GPU) bool { return g.Device.UUID == one })
	for _, d := range report.Devices {
		if i := slices.IndexFunc(n.GPUs, func(g gputest.GPU) bool { return g.Device.UUID == d.UUID }); i >= 0 {
			n.GPUs[i].Device.Index = d.Index
		}
	}
	if gputest.Check(t, report, n); t.Failed() {
		t.Log(when)
	}
}
