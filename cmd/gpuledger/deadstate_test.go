//go:build realtime

package main_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/test/deadfs"
)

const energyTotal = "gpuledger_gpu_energy_joules_total"

func stateDown(p page) bool {
	return p.Sum("gpuledger_stage_up", map[string]string{"stage": "state"}) == 0
}

// The exporter must exit within a second after SIGTERM.
func (e *exporter) ends() {
	e.t.Helper()
	began := time.Now()
	if err := e.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		e.t.Fatal(err)
	}
	select {
	case <-e.exited:
	case <-time.After(30 * time.Second):
		e.t.Fatal("the exporter does not end after SIGTERM")
	}
	if took := time.Since(began); took > time.Second {
		e.t.Errorf("the exporter ended %v after SIGTERM", took)
	}
	if e.err != nil {
		e.t.Errorf("ended with %v", e.err)
	}
}

// In TestDeadState, the file system of the state file stops responding. The exporter must continue to read GPUs, but
// must count no energy. When the file system responds again, no energy may be lost or counted twice.
func TestDeadState(t *testing.T) {
	n := newNode(t, "timeslice")
	dir := filepath.Join(t.TempDir(), "state")
	e := start(t, n, "--tick=200ms", "--state.path="+dir)
	e.scrapeUntil("every GPU was charged", charged(10_000))
	revive := deadfs.Mount(t, dir)
	stood := e.scrapeUntil("the stage state is down", stateDown).Sum(energyTotal, nil)
	readings := e.scrape().Sum("gpuledger_gpu_last_reading_timestamp_seconds", nil)
	p := e.scrapeUntil("the GPUs are read again", func(p page) bool {
		return p.Sum("gpuledger_gpu_last_reading_timestamp_seconds", nil) > readings
	})
	if got := p.Sum(energyTotal, nil); got != stood || stood == 0 {
		t.Errorf("%v J are shown while the state file hangs, want %v J as before", got, stood)
	}
	if logged := e.warnings("state", "did not respond within"); logged != 1 {
		t.Errorf("logged %d times, want once", logged)
	}
	revive()
	e.scrapeUntil("the books continue", func(p page) bool { return !stateDown(p) && p.Sum(energyTotal, nil) > stood })
	e.kept(n, dir)
}

// If the state file hangs at the start, the exporter must become ready without accounts, and must be able to end within
// a second.
func TestDeadStateAtStart(t *testing.T) {
	n := newNode(t, "timeslice")
	dir := t.TempDir()
	deadfs.Mount(t, dir)
	e := start(t, n, "--tick=200ms", "--state.path="+dir)
	p := e.scrapeUntil("the stage state is down", stateDown)
	if len(p.UUIDs()) == 0 || len(p.Matches(energyTotal, nil)) > 0 {
		t.Errorf("%d GPUs, books %v; want GPUs without books", len(p.UUIDs()), p.Matches(energyTotal, nil))
	}
	e.ends()
}

// A hanging write of the state file must not delay the exit.
func TestDeadStateAtEnd(t *testing.T) {
	n := newNode(t, "timeslice")
	dir := t.TempDir()
	e := start(t, n, "--tick=200ms", "--state.path="+dir)
	deadfs.Mount(t, dir)
	e.scrapeUntil("the stage state is down", stateDown)
	e.ends()
}

// A pipe in place of the state file must not be read, and must be replaced with a file.
func TestPipeState(t *testing.T) {
	n := newNode(t, "timeslice")
	// cleanStart needs readings in the driver's call log.
	leftBehind(t, n)
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "ledger.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := cleanStart(t, n, dir)
	if logged := e.warnings("state", "not a regular file"); logged != 1 {
		t.Errorf("logged %d times, want once", logged)
	}
	if info, err := os.Stat(filepath.Join(dir, "ledger.json")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the pipe is still there: %v, %v", info, err)
	}
	e.kept(n, dir)
}
