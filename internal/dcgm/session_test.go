package dcgm_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// TestOnce counts calls: a tick asks for the newest values, and for nothing that cannot
// have changed.
func TestOnce(t *testing.T) {
	e := newEngine(t, pair()...)
	s := e.open()
	e.readAll(s)
	first := len(e.calls())
	for range 5 {
		e.pass(time.Second)
		e.readAll(s)
	}
	for _, call := range e.calls()[first:] {
		if call != "dcgmLatestValues 0" && call != "dcgmLatestEnergy 0" {
			t.Errorf("a tick calls %s", call)
		}
	}
	e.pass(10 * time.Second)
	e.readAll(s)
	if n := e.count("dcgmGetAllSupportedDevices 0"); n != 2 {
		t.Errorf("GPUs were counted %d times", n)
	}
}

// TestGPUsChange takes a GPU away and gives it back.
func TestGPUsChange(t *testing.T) {
	e := newEngine(t, pair()...)
	s := e.open()
	e.readAll(s)
	e.node.GPUs = e.node.GPUs[:1]
	e.pass(10 * time.Second)
	e.readAll(s)
	e.node.GPUs = pair()
	e.pass(10 * time.Second)
	e.readAll(s)
}

// TestReconnect loses the engine: at once there is another attempt, and then there are
// ever fewer. A new engine is read like the first one.
func TestReconnect(t *testing.T) {
	e := newEngine(t, pair()...)
	s := e.open()
	e.readAll(s)
	e.fields = "\tgeneration=1"
	e.write()
	e.readAll(s) // it is there again

	e.fields = "\tup=0"
	e.pass(time.Second)
	before := e.count("dcgmConnectTCP -21")
	for range 60 {
		if _, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "localhost:5555") {
			t.Fatal("no engine, and the error is", err)
		}
		e.pass(time.Second)
	}
	if n := e.count("dcgmConnectTCP -21") - before; n < 5 || n > 8 {
		t.Errorf("%d attempts in a minute", n)
	}
	e.fields = "\tgeneration=2"
	e.pass(30 * time.Second)
	e.readAll(s)
}

// TestLateAnswer: nobody waits for a call that does not return, and it is not made twice.
func TestLateAnswer(t *testing.T) {
	e := newEngine(t, pair()...)
	s := e.open()
	e.readAll(s)
	e.fault("*", "dcgmLatestValues", "hang")
	e.add("xid\tgpu=%s\tseq=1\tcode=79", e.node.GPUs[0].Device.UUID)
	hasty := gputest.Hasty(s)
	for range 3 {
		if _, err := hasty.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "still waiting") {
			t.Fatal("error is", err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Read(ended); err == nil {
		t.Error("the context has ended, and there is a report")
	}
	e.lines = e.lines[1:]
	e.write()
	var xids []gpu.XID
	gputest.Eventually(t, s, "the engine answers again", func(r gpu.Report, err error) bool {
		xids = append(xids, r.XIDs...)
		return err == nil
	})
	if len(xids) != 1 || xids[0].Code != 79 {
		t.Errorf("errors that came meanwhile are %v", xids)
	}
}

// TestStuckClose leaves an engine that does not answer as it is.
func TestStuckClose(t *testing.T) {
	e := newEngine(t, pair()...)
	s := e.open()
	e.readAll(s)
	e.fault("*", "dcgmLatestValues", "hang")
	_, _ = gputest.Hasty(s).Read(t.Context())
	if err := s.Close(50 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "left as it is") {
		t.Error("error is", err)
	}
	if _, err := s.Read(t.Context()); err == nil || err.Error() != "closed" {
		t.Error("reading a closed source:", err)
	}
}

// TestFull: there is no room in the engine for our groups, or somebody has our fields.
func TestFull(t *testing.T) {
	for _, full := range []string{"\tgroups=64", "\tfield_groups=63"} {
		e := newEngine(t, pair()...)
		e.fields = full
		s := e.open()
		if _, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "Max limit reached") {
			t.Errorf("%s: error is %v", full, err)
		}
		e.fields = ""
		e.pass(time.Minute)
		e.readAll(s)
		if err := s.Close(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSkew: a client that is newer than the engine gets no value, and says why.
func TestSkew(t *testing.T) {
	e := newEngine(t, pair()...)
	e.fields = "\tversion=4.5.2"
	s := e.open()
	_, err := s.Read(t.Context())
	if want := "libdcgm 4.6.1 is newer than the host engine, 4.5.2, which does not know its requests"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want %q", err, want)
	}
	e.fields = "\tversion=4.5.2\tlibrary=4.4.0\tgeneration=1"
	e.pass(time.Minute)
	e.readAll(s)
	if strings.Contains(e.said.String(), "WARN") {
		t.Errorf("an older client is no reason to warn: %s", e.said.String())
	}
	e.fields = "\tversion=4.4.9\tlibrary=4.5.0\tgeneration=2"
	e.pass(time.Minute)
	e.readAll(s)
	e.pass(time.Second)
	e.readAll(s)
	if n := strings.Count(e.said.String(), "libdcgm is newer than the host engine"); n != 1 {
		t.Errorf("told %d times: %s", n, e.said.String())
	}
}

// TestNoDriver: an engine that was started without a driver answers every call and has no
// GPUs. It counts as down until there is a driver.
func TestNoDriver(t *testing.T) {
	e := newEngine(t, pair()...)
	e.node.Down = true
	s := e.open()
	if _, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "the host engine has no driver") {
		t.Errorf("error is %v", err)
	}
	e.node.Down = false
	e.pass(time.Minute)
	e.readAll(s)
}

// TestNoGPUs: a driver without GPUs is no failure.
func TestNoGPUs(t *testing.T) {
	e := newEngine(t)
	e.readAll(e.open())
}
