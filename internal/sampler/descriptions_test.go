package sampler_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// newJobWorld returns a world with the job 4711 on a GPU. An exporter has run for 30 ticks and has ended.
func newJobWorld(t *testing.T, info gpu.UnitInfo) (*world, gpu.Unit) {
	w, job := newWorld(t), gpu.Unit{Manager: "slurm", Name: "4711"}
	w.runs(first, 42, job.Owner())
	w.units = map[gpu.Unit]gpu.UnitInfo{job: info}
	s := w.sampler()
	w.ticks(s, 30)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return w, job
}

// A job must keep its description until its series end, even if the epilog has removed the job's files and the exporter
// has restarted. The exporter must not store data about users.
func TestDescriptionAfterRestart(t *testing.T) {
	described := gpu.UnitInfo{SLUID: "s8FXKTA79XAR00", User: "ada", UID: "1001", Account: "physics", Partition: "gpu", Cluster: "alps"}
	tests := []struct {
		name      string
		now, want gpu.UnitInfo
	}{
		{"ended", gpu.UnitInfo{}, gpu.UnitInfo{SLUID: "s8FXKTA79XAR00", Account: "physics", Partition: "gpu", Cluster: "alps"}},
		{"without its file", gpu.UnitInfo{SLUID: "s8FXKTA79XAR00", UID: "1001"}, gpu.UnitInfo{SLUID: "s8FXKTA79XAR00", UID: "1001", Account: "physics", Partition: "gpu", Cluster: "alps"}},
		{"a second run", gpu.UnitInfo{SLUID: "s8FXKTA79XAR01", UID: "1001"}, gpu.UnitInfo{SLUID: "s8FXKTA79XAR01", UID: "1001"}},
		{"another account", gpu.UnitInfo{Account: "biology"}, gpu.UnitInfo{SLUID: "s8FXKTA79XAR00", Account: "biology", Partition: "gpu", Cluster: "alps"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, job := newJobWorld(t, described)
			if data, err := os.ReadFile(filepath.Join(w.root, "state", "jobs.json")); err != nil || strings.Contains(string(data), "ada") || strings.Contains(string(data), "1001") {
				t.Errorf("file of descriptions: %s, error %v", data, err)
			}
			w.processes, w.contexts = nil, nil
			if w.units = nil; tt.now != (gpu.UnitInfo{}) {
				w.units = map[gpu.Unit]gpu.UnitInfo{job: tt.now}
			}
			for range 2 { // the second exporter must also keep the description
				s := w.sampler()
				if diff := cmp.Diff(tt.want, w.ticks(s, 5).Units[job]); diff != "" {
					t.Errorf("description (-want +got):\n%s", diff)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			w.units = nil
			s := w.sampler()
			if got := w.ticks(s, 400).Units; len(got) > 0 {
				t.Errorf("descriptions %v after the last series, want none", got)
			}
		})
	}
}

// The exporter must ignore a table that no exporter can have written. It must keep the file under another name.
func TestCorruptDescriptions(t *testing.T) {
	for name, file := range map[string]string{
		"garbage":     "{",
		"no unit":     `[{"manager":"slurm","account":"physics"}]`,
		"nothing":     `[{"manager":"slurm","unit":"4711"}]`,
		"a long text": `[{"manager":"slurm","unit":"4711","account":"` + strings.Repeat("x", 256) + `"}]`,
		"too many":    "[" + strings.Repeat(`{"manager":"slurm","unit":"4711","account":"x"},`, 4096) + `{"manager":"slurm","unit":"4711","account":"x"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			w, job := newJobWorld(t, gpu.UnitInfo{Account: "physics"})
			w.write("state/jobs.json", file)
			w.units = nil
			if got := w.ticks(w.sampler(), 5).Units[job]; got != (gpu.UnitInfo{}) {
				t.Errorf("description %+v, want none", got)
			}
			if kept, err := os.ReadFile(filepath.Join(w.root, "state", "jobs.json.bad")); err != nil || string(kept) != file {
				t.Errorf("the file was not kept: %v", err)
			}
		})
	}
}

// The exporter must log a failed save once. A later attempt must save the descriptions.
func TestUnsavedDescriptions(t *testing.T) {
	w, job := newWorld(t), gpu.Unit{Manager: "slurm", Name: "4711"}
	w.runs(first, 42, job.Owner())
	w.units = map[gpu.Unit]gpu.UnitInfo{job: {Account: "physics"}}
	w.write("state/jobs.json.new/stuck", "")
	var logs bytes.Buffer
	w.log = slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s := w.sampler()
	w.ticks(s, 30)
	if n := strings.Count(logs.String(), "cannot save the descriptions of jobs"); n != 1 {
		t.Errorf("%d warnings in 30 seconds, want 1:\n%s", n, logs.String())
	}
	if err := os.RemoveAll(filepath.Join(w.root, "state", "jobs.json.new")); err != nil {
		t.Fatal(err)
	}
	w.ticks(s, 10)
	if data, err := os.ReadFile(filepath.Join(w.root, "state", "jobs.json")); err != nil || !strings.Contains(string(data), "physics") {
		t.Errorf("file of descriptions: %s, error %v", data, err)
	}
}
