package nvml_test

import (
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/nvml"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// TestCallFails breaks each call on one GPU of eight, with codes that say nothing
// about another time. What could not be read is absent, nothing else is, and all of
// it is back when the call works again.
func TestCallFails(t *testing.T) {
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

// wantEight reads the eight GPUs, of which one is affected, once each was given the
// time to answer.
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

// checkEight checks a report of the eight GPUs, of which one is affected.
func checkEight(t *testing.T, when string, report gpu.Report, affected int, e effect) {
	t.Helper()
	if t.Failed() {
		return // one difference tells more than all that follow from it
	}
	n := eight()
	if affected != none && e != nil {
		e(&n.GPUs[affected])
	}
	if gputest.Check(t, report, n); t.Failed() {
		t.Log(when)
	}
}

// TestDriverCallFails breaks the calls that are about no GPU. A driver that opens
// with one of them failing has all GPUs, and one that does not is opened as soon as
// it can be.
func TestDriverCallFails(t *testing.T) {
	for name, call := range calls {
		if call.gpu != none {
			continue
		}
		for _, fault := range []string{"fail:1", "fail:3", "fail:999", "hang"} {
			t.Run(name+" "+fault, func(t *testing.T) {
				clock := gputest.NewClock()
				d := newDriver(t, eight())
				d.fault(anyGPU, name, fault)
				s := d.impatient(clock.Now)
				if strings.HasPrefix(name, "nvmlEventSet") {
					watch(t, s)
				}
				_, _ = bounded(t, s)
				d.healed()
				clock.Advance(time.Minute)
				gputest.Check(t, gputest.Eventually(t, s, "the driver is open", complete), eight())

				d.node.Loads++ // shut down and opened again, with the call failing
				d.fault(anyGPU, name, fault)
				for range 3 {
					_, _ = bounded(t, s)
				}
				d.healed()
				clock.Advance(time.Minute)
				gputest.Check(t, gputest.Eventually(t, s, "the driver is open again", complete), eight())
			})
		}
	}
}

// complete reports whether all eight GPUs are read and deliver events.
func complete(r gpu.Report, err error) bool {
	silent := func(d gpu.Device) bool { return !d.XIDEvents }
	return err == nil && len(r.Readings) == 8 && !slices.ContainsFunc(r.Devices, silent)
}

// bounded reads, and fails the test if that took too long.
func bounded(t *testing.T, s *nvml.Source) (gpu.Report, error) {
	t.Helper()
	began := time.Now()
	report, err := s.Read(t.Context())
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("Read took %v", took)
	}
	return report, err
}

// shortTimeout is a call timeout for tests that let calls hang by the dozen, and
// wait for what is late.
const shortTimeout = 50 * time.Millisecond

// impatient is open with a short call timeout.
func (d *driver) impatient(now gpu.Clock) *nvml.Source {
	log := slog.New(slog.DiscardHandler)
	s := nvml.New(nvml.Config{
		LibraryPath: libraryPath, CallTimeout: shortTimeout, Now: now, Log: log, Stages: stage.New(log, now),
	})
	d.t.Cleanup(func() {
		d.healed()
		if err := s.Close(time.Minute); err != nil {
			d.t.Error(err)
		}
	})
	return s
}

// TestCallHangs lets each call on one GPU of eight hang, first and later. The seven
// others are read on, the one has no reading, and it has one again when the call
// returns.
func TestCallHangs(t *testing.T) {
	for name, call := range calls {
		if call.gpu == none {
			continue
		}
		t.Run(name, func(t *testing.T) {
			clock := gputest.NewClock()
			d := newDriver(t, eight())
			uuid := d.node.GPUs[call.gpu].Device.UUID
			s := d.impatient(clock.Now)
			if call.first != nil {
				d.fault(uuid, name, "hang")
				d.readOn(s, call.gpu)
				d.healed()
			}
			checkEight(t, "healed", gputest.Eventually(t, s, "it answers", complete), none, nothing)
			if call.later == nil {
				return
			}
			clock.Advance(time.Second)
			d.fault(uuid, name, "hang")
			d.readOn(s, call.gpu)
			d.healed()
			checkEight(t, "healed again", gputest.Eventually(t, s, "it answers again", complete), none, nothing)
		})
	}
}

// TestCallHangsEverywhere lets each call hang on all GPUs. Nobody waits for them, what
// answers in time is true, and all of it is back when the calls return.
func TestCallHangsEverywhere(t *testing.T) {
	for name, call := range calls {
		if call.gpu == none || call.later == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			clock := gputest.NewClock()
			d := newDriver(t, eight())
			s := d.impatient(clock.Now)
			checkEight(t, "well", gputest.Eventually(t, s, "it answers", complete), none, nothing)
			clock.Advance(time.Second)
			d.fault(anyGPU, name, "hang")
			for range 3 {
				report, _ := bounded(t, s)
				if slices.ContainsFunc(report.Readings, func(r gpu.Reading) bool { return r.UUID == d.node.GPUs[call.gpu].Device.UUID }) {
					t.Error("a GPU whose call hangs has a reading")
				}
			}
			d.healed()
			checkEight(t, "healed", gputest.Eventually(t, s, "it answers again", complete), none, nothing)
		})
	}
}

// readOn reads until every GPU but the hung one was read anew twice.
func (d *driver) readOn(s *nvml.Source, hung int) {
	d.t.Helper()
	for range 2 {
		for i := range d.node.GPUs {
			*d.node.GPUs[i].Reading.Energy += 1000
		}
		d.write()
		fresh := make(map[string]bool)
		for deadline := time.Now().Add(20 * time.Second); len(fresh) < 7; {
			report, _ := bounded(d.t, s) // opening may be late, too
			for _, r := range report.Readings {
				i := slices.IndexFunc(d.node.GPUs, func(g gputest.GPU) bool { return g.Device.UUID == r.UUID })
				fresh[r.UUID] = fresh[r.UUID] || *r.Energy == *d.node.GPUs[i].Reading.Energy
			}
			if fresh[d.node.GPUs[hung].Device.UUID] {
				d.t.Fatal("the GPU whose call hangs has a reading")
			}
			if time.Now().After(deadline) {
				d.t.Fatalf("of the others only %d are read on", len(fresh))
			}
		}
	}
	d.node = eight()
	d.write()
}

// TestOthersAreUnharmed gives one GPU of eight every kind of answer that is no good,
// call by call: codes that are for good, empty answers and lists, wrong energy. The
// seven others are read exactly, and with the driver's next life so is the one.
//
// INSUFFICIENT_SIZE comes with a size, of 0 here: without one go-nvml asks for process
// lists with ever more room until the driver is content.
func TestOthersAreUnharmed(t *testing.T) {
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

// answered returns a test for readings of all GPUs but one, which may have one too.
func answered(one string) func(gpu.Report, error) bool {
	return func(r gpu.Report, err error) bool {
		others := slices.DeleteFunc(slices.Clone(r.Readings), func(r gpu.Reading) bool { return r.UUID == one })
		return err == nil && len(others) == 7
	}
}

// others checks all GPUs but one. Their index depends on whether the driver counts
// that one.
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

// TestAbsurdNumbers fills every number that the driver says of one GPU of eight with
// ones, with the greatest of its kind and with what is no number at all, first and
// later. The GPU is read all the same, and what cannot be is absent.
func TestAbsurdNumbers(t *testing.T) {
	for name, i := range map[string]int{"whole": plain, "in MIG mode": parted, "with a scope": scoped} {
		for _, absurd := range []string{"4294967295", "18446744073709551615", "9223372036854775807", "-1", "x"} {
			t.Run(name+" "+absurd, func(t *testing.T) {
				clock := gputest.NewClock()
				d := newDriver(t, eight())
				s := d.open(clock.Now)
				uuid := d.node.GPUs[i].Device.UUID
				for range 2 {
					d.spoil(uuid, absurd)
					report := gputest.Eventually(t, s, "they answer", answered(uuid))
					others(t, absurd, report, uuid)
					checkNumbers(t, report, uuid)
					d.node.Loads++
					d.write()
					clock.Advance(time.Minute)
					checkEight(t, "healed", gputest.Eventually(t, s, "it answers", complete), none, nothing)
				}
			})
		}
	}
}

// TestAbsurdPartition gives a GPU more MIG devices than can be asked for. That ends
// with the number.
func TestAbsurdPartition(t *testing.T) {
	clock := gputest.NewClock()
	d := newDriver(t, eight())
	s := d.impatient(clock.Now)
	wantEight(t, "well", s, none, nothing)
	d.rewrite(func(state string) string { return strings.ReplaceAll(state, "mig_slices=7", "mig_slices=4294967295") })
	for range 3 {
		_, _ = bounded(t, s)
	}
	d.healed()
	clock.Advance(time.Minute)
	wantEight(t, "healed", s, none, nothing)
}

// checkNumbers checks what is said of a GPU whose numbers are absurd.
func checkNumbers(t *testing.T, report gpu.Report, uuid string) {
	t.Helper()
	for _, r := range report.Readings {
		switch {
		case r.UUID != uuid:
		case slices.ContainsFunc(r.Instances, func(s gpu.InstanceSample) bool { return s.SM < 0 || s.SM > 1 }):
			t.Errorf("instances were busy: %+v", r.Instances)
		case r.Energy != nil && *r.Energy < 0:
			t.Errorf("energy is %d mJ", *r.Energy)
		case r.Utilization != nil && (*r.Utilization < 0 || *r.Utilization > 1):
			t.Errorf("utilisation is %v", *r.Utilization)
		case r.Temperature != nil && *r.Temperature > 1e6, r.Power != nil && *r.Power > 1e6, r.SMClock != nil && *r.SMClock > 1e15:
			t.Errorf("gauges of a number that is not there: %+v", r)
		case slices.ContainsFunc(r.Contexts, func(c gpu.Context) bool { return c.PID == 0 }):
			t.Errorf("a process has PID 0: %+v", r.Contexts)
		}
	}
}

// spoil makes every number of a GPU another one, but for its index and its mode,
// until the state is next written.
func (d *driver) spoil(uuid, number string) {
	d.t.Helper()
	digits := regexp.MustCompile(`\t(index|mig)=\d+|=\d+`)
	d.rewrite(func(state string) string {
		lines := strings.Split(state, "\n")
		for i, line := range lines {
			if !strings.Contains(line, "="+uuid) {
				continue
			}
			lines[i] = digits.ReplaceAllStringFunc(line, func(field string) string {
				if field[0] == '\t' {
					return field
				}
				return "=" + number
			})
		}
		return strings.Join(lines, "\n")
	})
}

// rewrite changes the state until it is next written.
func (d *driver) rewrite(change func(state string) string) {
	d.t.Helper()
	state, err := os.ReadFile(d.path)
	if err != nil {
		d.t.Fatal(err)
	}
	next := d.path + ".rewritten"
	if err := os.WriteFile(next, []byte(change(string(state))), 0o644); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(next, d.path); err != nil {
		d.t.Fatal(err)
	}
}
