//go:build realtime

package main_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

// TestUnusableState corrupts the state file of a killed exporter. The next exporter must log the failure once and count
// it once. It must start to count energy at its own first reading, and another restart must continue these accounts.
func TestUnusableState(t *testing.T) {
	n := newNode(t, "timeslice")
	good := leftBehind(t, n)
	replace := func(old, with string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(with), 1) }
	}
	tests := map[string]func([]byte) []byte{
		"empty":            func([]byte) []byte { return nil },
		"truncated":        func(b []byte) []byte { return b[:len(b)/2] },
		"a byte short":     func(b []byte) []byte { return bytes.TrimSuffix(b, []byte("}\n")) },
		"a line short":     func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] },
		"corrupt":          func(b []byte) []byte { return append(bytes.Clone(b[:len(b)/2]), make([]byte, len(b)/2)...) },
		"of another boot":  replace(`"boot_id":"`, `"boot_id":"0`),
		"newer":            replace(`"version":3`, `"version":4`),
		"out of balance":   replace(`"retired":0`, `"retired":1000`),
		"of negative time": replace(`"allocated":`, `"allocated":-`),
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			spoilt := spoil(good)
			if bytes.Equal(spoilt, good) {
				t.Fatal("the test did not change the file")
			}
			if err := os.WriteFile(filepath.Join(dir, "ledger.json"), spoilt, 0o600); err != nil {
				t.Fatal(err)
			}
			e := cleanStart(t, n, dir)
			p := e.scrape()
			of := map[string]string{"stage": "state"}
			if up, failures := p.Sum("gpuledger_stage_up", of), p.Sum("gpuledger_stage_failures_total", of); up != 1 || failures != 1 {
				t.Errorf("stage up %v after %v failures, want up after 1", up, failures)
			}
			if logged := e.warnings("state", "starting new books"); logged != 1 {
				t.Errorf("logged %d times, want once", logged)
			}
			e.kept(n, dir)
		})
	}
}

// An exporter that can no longer save its state must continue its accounts, log the failure once, and count every
// attempt. The last saved state is older than the served values. Therefore the next exporter must begin new accounts.
func TestUnwritableState(t *testing.T) {
	tests := map[string]func(dir string) error{
		"full": func(dir string) error {
			return os.Symlink("/dev/full", filepath.Join(dir, "ledger.json.new"))
		},
		"a folder in the way": func(dir string) error {
			return os.Mkdir(filepath.Join(dir, "ledger.json.new"), 0o755)
		},
		"no folder": func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, "timeslice")
			dir := filepath.Join(t.TempDir(), "state")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "ledger.json"), leftBehind(t, n), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			e := start(t, n, "--tick=200ms", "--state.path="+dir)
			e.cannotSave()
			_ = e.cmd.Process.Kill()
			<-e.exited
			cleanStart(t, n, dir).cannotSave()
		})
	}
}

// The exporter must keep running while its stage "state" is down.
func (e *exporter) cannotSave() {
	e.t.Helper()
	of := map[string]string{"stage": "state"}
	before := e.scrape().Sum("gpuledger_gpu_energy_joules_total", nil)
	p := e.scrapeUntil("the exporter tried several times to save its state", func(p page) bool {
		return p.Sum("gpuledger_stage_failures_total", of) >= 5 && p.Sum("gpuledger_gpu_energy_joules_total", nil) > before
	})
	checkBalance(e.t, p)
	if p.Sum("gpuledger_stage_up", of) != 0 {
		e.t.Error("the stage state is up")
	}
	if logged := e.warnings("state", ""); logged != 1 {
		e.t.Errorf("logged %d times, want once", logged)
	}
}

// leftBehind runs an exporter, kills it after it has charged energy on every GPU, and returns its state file.
func leftBehind(t *testing.T, n *simnode.Node) []byte {
	t.Helper()
	dir := t.TempDir()
	e := start(t, n, "--tick=200ms", "--state.path="+dir)
	e.scrapeUntil("every GPU was charged", charged(100_000))
	_ = e.cmd.Process.Kill()
	<-e.exited
	file, err := os.ReadFile(filepath.Join(dir, "ledger.json"))
	if err != nil {
		t.Fatal(err)
	}
	// The exporter pads the file with empty lines.
	return append(bytes.TrimRight(file, "\n"), '\n')
}

// The returned function reports whether every GPU on a page has used at least the given energy.
func charged(least gpu.Millijoules) func(page) bool {
	return func(p page) bool {
		for _, uuid := range p.UUIDs() {
			if p.Millijoules("gpuledger_gpu_energy_joules_total", map[string]string{"UUID": uuid}) < least {
				return false
			}
		}
		return len(p.UUIDs()) > 0
	}
}

// These counters are not part of the accounts, so they do not restart with new accounts.
var withoutBooks = []string{
	"gpuledger_gpu_xid_errors_total", "gpuledger_board_xid_errors_total", "gpuledger_board_losses_total",
	"gpuledger_board_remapped_rows_total", // counts since the board was made and has no created timestamp
}

// cleanStart starts an exporter on a state directory. Its accounts must be new: they must not contain more energy than
// the boards have counted since the exporter's start.
func cleanStart(t *testing.T, n *simnode.Node, dir string) *exporter {
	t.Helper()
	began, before := time.Now(), readCounters(t, n)
	e := start(t, n, "--tick=200ms", "--state.path="+dir)
	e.scrapeUntil("every GPU was charged again", charged(1000))
	p, err := e.scrapeCounters()
	if err != nil {
		t.Fatal(err)
	}
	checkBalance(t, p)
	after := readCounters(t, n)
	for _, uuid := range p.UUIDs() {
		energy := p.Millijoules("gpuledger_gpu_energy_joules_total", map[string]string{"UUID": uuid})
		since := before[uuid][len(before[uuid])-1]
		if counted := after[uuid][len(after[uuid])-1] - since; energy > counted {
			t.Errorf("%s: the book holds %d mJ, but the board counted only %d mJ since the start", uuid, energy, counted)
		}
	}
	for series, s := range counters(p) {
		if s.created.Before(began) && !slices.ContainsFunc(withoutBooks, func(name string) bool { return strings.HasPrefix(series, name) }) {
			t.Errorf("%s was created at %v, before the exporter started at %v", series, s.created, began)
		}
	}
	return e
}

// kept kills the exporter, and checks that the next exporter continues its accounts.
func (e *exporter) kept(n *simnode.Node, dir string) {
	e.t.Helper()
	before, err := e.scrapeCounters()
	if err != nil {
		e.t.Fatal(err)
	}
	_ = e.cmd.Process.Kill()
	<-e.exited
	after, err := start(e.t, n, "--tick=200ms", "--state.path="+dir).scrapeCounters()
	if err != nil {
		e.t.Fatal(err)
	}
	now := counters(after)
	for series, was := range counters(before) {
		if is := now[series]; is.value < was.value || !is.created.Equal(was.created) {
			e.t.Errorf("%s was %v (created %v) and is %v (created %v) after a restart", series, was.value, was.created, is.value, is.created)
		}
	}
}

func (e *exporter) warnings(stage, word string) int {
	n := 0
	for _, line := range e.logged() {
		if strings.Contains(line, `"level":"WARN"`) && strings.Contains(line, `"stage":"`+stage+`"`) && strings.Contains(line, word) {
			n++
		}
	}
	return n
}
