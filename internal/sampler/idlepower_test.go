package sampler_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/sampler"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// In newIdleWorld, each GPU draws 100 W, and the first GPU has a process.
func newIdleWorld(t *testing.T) *world {
	w := newWorld(t)
	w.driver = "570.86.15"
	for i := range w.devices {
		w.devices[i].Model, w.devices[i].MaxPower = "NVIDIA H100 80GB HBM3", 1000
	}
	w.runs(first, 42, train)
	return w
}

// reboot starts an exporter in another boot, in which all GPUs are always busy.
func (w *world) reboot(s *sampler.Sampler) *sampler.Sampler {
	w.t.Helper()
	if err := s.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.write("proc/sys/kernel/random/boot_id", "boot-2\n")
	w.now, w.utilization = time.Minute, 1
	w.samples[first] = []gpu.Sample{{PID: 42, SM: 0.5}}
	return w.sampler()
}

// The next boot must use a measured idle power only for GPUs with the same model, power limit and driver. A configured
// value must take precedence.
func TestStoredIdlePower(t *testing.T) {
	stored := gpu.IdlePower{Power: 100, Source: gpu.IdleStored}
	limit := gpu.IdlePower{Power: 100, Source: gpu.IdleLimit} // lowest measured power
	tests := []struct {
		name   string
		change func(w *world)
		want   gpu.IdlePower
	}{
		{"the same", func(*world) {}, stored},
		{"configured", func(w *world) { w.idlePower = map[string]gpu.Watts{"NVIDIA H100 80GB HBM3": 80, "NVIDIA L4": 13} }, gpu.IdlePower{Power: 80, Source: gpu.IdleConfigured}},
		{"another model configured", func(w *world) { w.idlePower = map[string]gpu.Watts{"NVIDIA L4": 13} }, stored},
		{"another driver", func(w *world) { w.driver = "580.1" }, limit},
		{"another model", func(w *world) { w.devices[0].Model = "NVIDIA H200" }, limit},
		{"another limit", func(w *world) { w.devices[0].MaxPower = 900 }, limit},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newIdleWorld(t)
			w.utilization = 0
			s := w.sampler()
			if got := w.ticks(s, 610).GPUs[0].Book.Floor; got != (gpu.IdlePower{Power: 100}) {
				t.Fatalf("idle power %v, want 100 W, measured", got)
			}
			tt.change(w)
			if got := w.ticks(w.reboot(s), 5).GPUs[0].Book.Floor; got != tt.want {
				t.Errorf("idle power %v from %v, want %v from %v", got.Power, got.Source, tt.want.Power, tt.want.Source)
			}
		})
	}
}

// The exporter must ignore a table that no exporter can have written, log this once, and keep the file under another
// name. It must still open its books.
func TestCorruptIdlePowers(t *testing.T) {
	const row = `"model":"NVIDIA H100 80GB HBM3","driver":"570.86.15","power_limit_watts":1000`
	tests := map[string]string{
		"garbage":              "{",
		"cut off":              "[{" + row + `,"idle_power_w`,
		"not a list":           `{"idle_power_watts":5}`,
		"negative":             "[{" + row + `,"idle_power_watts":-5}]`,
		"zero":                 "[{" + row + `}]`,
		"more than the limit":  "[{" + row + `,"idle_power_watts":1001}]`,
		"a number that is too": "[{" + row + `,"idle_power_watts":1e999}]`,
		"no model":             `[{"idle_power_watts":50}]`,
		"oversized":            "[" + strings.Repeat(" ", 1<<20) + "]",
		"too many rows":        "[" + strings.Repeat("{"+row+`,"idle_power_watts":5},`, 100) + "{" + row + `,"idle_power_watts":5}]`,
	}
	for name, file := range tests {
		t.Run(name, func(t *testing.T) {
			w := newIdleWorld(t)
			var log bytes.Buffer
			w.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			w.samples[first] = []gpu.Sample{{PID: 42, SM: 0.5}}
			w.write("state/idle-power.json", file)
			snap := w.ticks(w.sampler(), 3)
			if b := snap.GPUs[0].Book; b.Energy != 200_000 || b.Floor.Source != gpu.IdleLimit || !stageOf(snap, stage.State).Up {
				t.Errorf("energy %d mJ, idle power from %v, stage %+v; want 200000 mJ, limit, up", b.Energy, b.Floor.Source, stageOf(snap, stage.State))
			}
			if n := strings.Count(log.String(), "ignoring the idle powers"); n != 1 {
				t.Errorf("%d log lines, want 1:\n%s", n, log.String())
			}
			if kept, err := os.ReadFile(filepath.Join(w.root, "state", "idle-power.json.bad")); err != nil || string(kept) != file {
				t.Errorf("the file was not kept: %v", err)
			}
		})
	}
}

// If the table cannot be saved, the books must continue. A later attempt must save the table.
func TestIdlePowersNotWritable(t *testing.T) {
	w := newIdleWorld(t)
	w.utilization = 0
	s := w.sampler()
	w.ticks(s, 1)
	w.write("state/idle-power.json.new/stuck", "")
	snap := w.ticks(s, 610)
	if st := stageOf(snap, stage.State); !st.Up || snap.GPUs[0].Book.Energy != 61_000_000 {
		t.Errorf("energy %d mJ, stage %+v; want 61000000 mJ and up", snap.GPUs[0].Book.Energy, st)
	}
	if err := os.RemoveAll(filepath.Join(w.root, "state", "idle-power.json.new")); err != nil {
		t.Fatal(err)
	}
	w.ticks(s, 610)
	if got := w.ticks(w.reboot(s), 5).GPUs[0].Book.Floor; got.Source != gpu.IdleStored {
		t.Errorf("idle power from %v, want stored", got.Source)
	}
}
