package dcgm_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// TestOnce counts the calls for two pages. No call may be made between the pages.
func TestOnce(t *testing.T) {
	e := newEngine(t, pair()...)
	e.cfg.Fields = parse(t, temperature)
	s := e.open()
	e.readAll(s)
	first := len(e.calls())
	for range 5 {
		e.pass(time.Second)
		e.readAll(s)
	}
	if calls := e.calls()[first:]; len(calls) > 0 {
		t.Errorf("calls: %v", calls)
	}
	e.pass(10 * time.Second)
	e.readAll(s)
	want := []string{"dcgmGetAllSupportedDevices 0", "dcgmLatestValues 0"}
	if diff := cmp.Diff(want, e.calls()[first:]); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// While the engine is connected, the driver's details must contain the versions of the engine and of the library.
func TestVersions(t *testing.T) {
	e := newEngine(t, pair()...)
	s := e.open()
	want := map[string]string{"nvml_version": "13", "dcgm_version": "4.6.1", "dcgm_library_version": "4.6.1"}
	if diff := cmp.Diff(want, gputest.Read(t, s).Drivers[0].Details); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	e.fields = "\tup=0"
	e.pass(10 * time.Second)
	report, err := s.Read(t.Context())
	if diff := cmp.Diff(map[string]string{"nvml_version": "13"}, report.Drivers[0].Details); diff != "" || err == nil {
		t.Errorf("without an engine: error %v, details (-want +got):\n%s", err, diff)
	}
}

func TestGPUsChange(t *testing.T) {
	e := newEngine(t, pair()...)
	e.cfg.Fields = parse(t, temperature)
	s := e.open()
	for _, gpus := range [][]gputest.GPU{pair(), pair()[:1], pair()} {
		e.node.GPUs = gpus
		e.pass(10 * time.Second)
		if rows := e.readAll(s).Fields.Rows; len(rows) != len(gpus) {
			t.Errorf("%d rows for %d GPUs", len(rows), len(gpus))
		}
	}
}

// The enricher must reconnect to a lost engine immediately, and then at increasing intervals. It must read the same
// values from another engine that replaced the first.
func TestReconnect(t *testing.T) {
	e := newEngine(t, pair()...)
	e.cfg.Fields = parse(t, temperature)
	s := e.open()
	e.readAll(s)
	e.fields = "\tgeneration=1"
	e.pass(10 * time.Second)
	e.readAll(s) // the engine responds again

	e.fields = "\tup=0"
	e.pass(10 * time.Second)
	before := e.count("dcgmConnectTCP -21")
	for range 60 {
		if _, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "localhost:5555") {
			t.Fatal("the engine is down, but the error is", err)
		}
		e.pass(time.Second)
	}
	if n := e.count("dcgmConnectTCP -21") - before; n < 5 || n > 8 {
		t.Errorf("%d attempts to connect in a minute", n)
	}
	e.fields = "\tgeneration=2"
	e.pass(30 * time.Second)
	e.readAll(s)
}

// The last page must stay in use for half a minute after the loss of the engine, even while no driver responds.
func TestPageStays(t *testing.T) {
	e := newEngine(t, pair()...)
	e.cfg.Fields = parse(t, temperature)
	s := e.open()
	first := gputest.Read(t, s).Fields
	e.fields = "\tup=0"
	for passed := range 40 {
		e.pass(time.Second)
		var report gpu.Report
		_ = s.Enrich(t.Context(), &report)
		// The loss is detected ten seconds later, at the next reading of the page.
		if kept := report.Fields == first; kept != (passed+1 < 9+30) || report.Drivers != nil {
			t.Errorf("after %d s the page is %v", passed+1, report.Fields)
		}
	}
}

// A call that does not return must delay only one reading, and only by the timeout. The call must not be repeated.
func TestLateAnswer(t *testing.T) {
	e := newEngine(t, pair()...)
	e.cfg.Fields = parse(t, temperature)
	s := e.open()
	e.readAll(s)
	e.fault("*", "dcgmLatestValues", "hang")
	e.pass(10 * time.Second)
	hasty := gputest.Hasty(s)
	for range 3 {
		if report, err := hasty.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "still waiting") || report.Fields == nil {
			t.Fatal("error is", err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Read(ended); err == nil {
		t.Error("there is an answer although the context has ended")
	}
	e.healed()
	gputest.Eventually(t, s, "the engine responds again", func(_ gpu.Report, err error) bool { return err == nil })
	if n := e.count("dcgmLatestValues 0"); n > 3 {
		t.Errorf("%d reads", n)
	}
}

// After the wall clock was set back, the newest values in the engine are at first older than the change. They must be
// used until they expire.
func TestClockStep(t *testing.T) {
	e := newEngine(t, pair()...)
	e.cfg.Fields = parse(t, temperature)
	back := time.Duration(0)
	e.cfg.Now = func() gpu.Instant {
		now := e.clock.Now()
		now.Wall = now.Wall.Add(-back)
		return now
	}
	s := e.open()
	e.readAll(s)
	back = time.Hour
	for _, g := range e.node.GPUs { // at first, the engine's newest values are older than the change
		e.fault(g.Device.UUID, "*", "hang")
	}
	for passed := 0; passed < 60; passed += 10 {
		e.pass(10 * time.Second)
		// The second page after the change is the first with the new values.
		if n := len(page(t, s)["DCGM_FI_DEV_GPU_TEMP"]); (n == 2) != (passed <= 30) {
			t.Errorf("%d s after the change there are %d values", passed, n)
		}
	}
}

// Close must not call an engine that does not respond.
func TestStuckClose(t *testing.T) {
	e := newEngine(t, pair()...)
	e.cfg.Fields = parse(t, temperature)
	s := e.open()
	e.readAll(s)
	e.fault("*", "dcgmLatestValues", "hang")
	e.pass(10 * time.Second)
	_, _ = gputest.Hasty(s).Read(t.Context())
	if err := s.Close(50 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "not disconnected") {
		t.Error("error is", err)
	}
	if _, err := s.Read(t.Context()); err == nil || err.Error() != "closed" {
		t.Error("reading a closed engine:", err)
	}
}

// If the library has version 4.6 and the engine is older, the error must contain the reason. Any other library that is
// newer than the engine must be logged once. A library that is older than the engine must not be logged.
func TestSkew(t *testing.T) {
	e := newEngine(t, pair()...)
	e.fields = "\tversion=4.5.2"
	s := e.open()
	_, err := s.Read(t.Context())
	if want := "libdcgm 4.6.1 is newer than host engine 4.5.2, so the host engine does not support the requests of libdcgm"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want %q", err, want)
	}
	e.fields = "\tversion=4.5.2\tlibrary=4.4.0\tgeneration=1"
	e.pass(time.Minute)
	e.readAll(s)
	if strings.Contains(e.logged.String(), "WARN") {
		t.Errorf("an older client library causes a warning: %s", e.logged.String())
	}
	e.fields = "\tversion=4.4.9\tlibrary=4.5.0\tgeneration=2"
	e.pass(time.Minute)
	e.readAll(s)
	e.pass(time.Second)
	e.readAll(s)
	if n := strings.Count(e.logged.String(), "libdcgm is newer than the host engine"); n != 1 {
		t.Errorf("logged %d times: %s", n, e.logged.String())
	}
}

// If no driver is loaded, the engine responds to every call, but has no GPUs. It must count as down until the driver is
// loaded.
func TestNoDriver(t *testing.T) {
	e := newEngine(t, pair()...)
	e.node.Down = true
	s := e.open()
	if _, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "the host engine reports no driver") {
		t.Errorf("error is %v", err)
	}
	e.node.Down = false
	e.pass(time.Minute)
	e.readAll(s)
}

func TestNoGPUs(t *testing.T) {
	e := newEngine(t)
	e.readAll(e.open())
}
