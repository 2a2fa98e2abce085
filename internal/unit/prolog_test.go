package unit_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

const scripts = "../../manifests/examples/slurm/"

// script runs a prolog or epilog by sh with nothing else in its environment.
func script(t *testing.T, name, dir string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", scripts+name)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "GPULEDGER_HELD_DIR=" + dir}, env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, name)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// TestProlog runs the prolog and the epilog of two jobs, and reads their files.
func TestProlog(t *testing.T) {
	m := newMachine(t, nil)
	dir := m.path("held")
	first := []string{
		"SLURM_JOB_ID=4711", "SLURM_JOB_UID=1001", "SLURM_JOB_USER=ada", "SLURM_JOB_ACCOUNT=physics", "SLURM_JOB_PARTITION=gpu",
		"SLURM_CLUSTER_NAME=alps", "SLURM_JOB_SLUID=s8FXKTA79XAR00", "CUDA_VISIBLE_DEVICES=GPU-5d2f,1,MIG-77,NoDevFiles,../x", "SLURM_JOB_GPUS=0,1",
	}
	second := []string{"SLURM_JOB_ID=4712", "SLURM_JOB_UID=1002", "SLURM_JOB_GPUS=1,2"}
	script(t, "prolog.sh", dir, first...)
	script(t, "prolog.sh", dir, second...)
	if diff := cmp.Diff([]string{"1", "2", "GPU-5d2f", "MIG-77", "jobs/4711", "jobs/4712"}, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	m.refresh()
	holders := make(map[string][]string)
	for _, a := range m.Allocations(gpu.Allocations{Known: true}).List {
		name := a.Device.UUID
		if a.Device.Index != nil {
			name = string(rune('0' + *a.Device.Index))
		}
		if !slices.Contains(holders[name], a.Owner.Name) {
			holders[name] = append(holders[name], a.Owner.Name)
			slices.Sort(holders[name])
		}
	}
	want := map[string][]string{"1": {"4711", "4712"}, "2": {"4712"}, "GPU-5d2f": {"4711"}, "MIG-77": {"4711"}}
	if diff := cmp.Diff(want, holders); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
	info := gpu.UnitInfo{SLUID: "s8FXKTA79XAR00", UID: "1001", Account: "physics", Partition: "gpu", Cluster: "alps"}
	if diff := cmp.Diff(info, m.Units()[gpu.Unit{Manager: "slurm", Name: "4711"}]); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
	script(t, "epilog.sh", dir, first...)
	if diff := cmp.Diff([]string{"1", "2", "jobs/4712"}, files(t, dir)); diff != "" {
		t.Errorf("files after the first job (-want +got):\n%s", diff)
	}
	script(t, "epilog.sh", dir, second...)
	script(t, "epilog.sh", dir, second...)
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("files after both jobs: %q", left)
	}
}

// TestEightGPUs checks that a job that holds eight GPUs and runs nothing holds all of them.
func TestEightGPUs(t *testing.T) {
	m := newMachine(t, nil)
	script(t, "prolog.sh", m.path("held"), "SLURM_JOB_ID=4711", "SLURM_JOB_UID=1001", "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7")
	m.job(10, "4711", "s8FXKTA79XAR00")
	m.now += time.Hour
	m.refresh()
	held := make(map[int]bool)
	for _, a := range m.Allocations(gpu.Allocations{Known: true}).List {
		if a.Owner.UID == "slurm/4711" && a.Live {
			held[*a.Device.Index] = true
		}
	}
	if len(held) != 8 {
		t.Errorf("the job holds %v, want 8 GPUs", held)
	}
}

// TestScriptsNeverFail checks that the scripts succeed without a job, without room and in a place
// where they cannot write.
func TestScriptsNeverFail(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	job := []string{"SLURM_JOB_ID=4711", "CUDA_VISIBLE_DEVICES=0"}
	for _, name := range []string{"prolog.sh", "epilog.sh"} {
		script(t, name, t.TempDir())
		script(t, name, blocked, job...)
		script(t, name, "/proc/nowhere", job...)
		script(t, name, t.TempDir(), "SLURM_JOB_ID=../../x", "CUDA_VISIBLE_DEVICES=0")
		script(t, name, t.TempDir(), "SLURM_JOB_ID=4711")
	}
}
