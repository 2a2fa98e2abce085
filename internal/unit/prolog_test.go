package unit_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/unit"
)

const scripts = "../../manifests/examples/slurm/"

func script(t *testing.T, name, dir string, env ...string) string {
	t.Helper()
	return scriptIn(t, "", name, dir, env...)
}

func scriptIn(t *testing.T, working, name, dir string, env ...string) string {
	t.Helper()
	path, err := filepath.Abs(scripts + name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", path)
	cmd.Dir = working
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "GPULEDGER_HELD_DIR=" + dir}, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
	return string(out)
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
	if diff := cmp.Diff([]string{"1", "2", "GPU-5d2f", "MIG-77", "jobs/4711", "jobs/4712", "names/4711", "names/4712"}, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if err := m.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), `(1, the first is "../x"`) {
		t.Errorf("error %v, want an error with the malformed name", err)
	}
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
	if diff := cmp.Diff([]string{"1", "2", "jobs/4712", "names/4712"}, files(t, dir)); diff != "" {
		t.Errorf("files after the first job (-want +got):\n%s", diff)
	}
	m.refresh()
	if diff := cmp.Diff(info, m.Units()[gpu.Unit{Manager: "slurm", Name: "4711"}]); diff != "" {
		t.Errorf("info after the epilog (-want +got):\n%s", diff)
	}
	script(t, "epilog.sh", dir, second...)
	script(t, "epilog.sh", dir, second...)
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("files after both jobs: %q", left)
	}
}

// TestTaskProlog checks that a job's user can name the job. The user must not be able to name other jobs or to change
// the name later.
func TestTaskProlog(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change the owner of a file and run a script as another user")
	}
	root, err := os.MkdirTemp("/tmp", "prolog") // other users may not have access to TMPDIR
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "held")
	copied := filepath.Join(root, "taskprolog.sh") // nor to the checkout
	text, err := os.ReadFile(scripts + "taskprolog.sh")
	if err == nil {
		err = os.WriteFile(copied, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	taskProlog := func(uid string, env ...string) {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", copied)
		cmd.Dir, cmd.Env = root, append([]string{"GPULEDGER_HELD_DIR=" + dir}, env...)
		id, _ := strconv.ParseUint(uid, 10, 32)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id)}}
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("task prolog of %s: %v\n%s", uid, err, out)
		}
	}
	m := newMachine(t, func(c *unit.Config) { c.HeldDirs = []string{dir} })
	script(t, "prolog.sh", dir, "SLURM_JOB_ID=4711", "SLURM_JOB_UID=1001", "SLURM_JOB_GPUS=0")
	script(t, "prolog.sh", dir, "SLURM_JOB_ID=4712", "SLURM_JOB_UID=1002", "SLURM_JOB_GPUS=1")
	taskProlog("1001", "SLURM_JOB_ID=4711", "SLURM_JOB_NAME=train resnet", "SLURM_ARRAY_JOB_ID=4709", "SLURM_ARRAY_TASK_ID=2")
	taskProlog("1001", "SLURM_JOB_ID=4712", "SLURM_JOB_NAME=forged")
	taskProlog("1002", "SLURM_JOB_ID=4713", "SLURM_JOB_NAME=no file")
	m.refresh()
	names := func(job string) [2]string {
		info := m.Units()[gpu.Unit{Manager: "slurm", Name: job}]
		return [2]string{info.JobName, info.ArrayElement}
	}
	if got, want := names("4711"), [2]string{"train resnet", "4709_2"}; got != want {
		t.Errorf("job 4711 is named %q, want %q", got, want)
	}
	if got := names("4712"); got != [2]string{} {
		t.Errorf("job 4712 of another user is named %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "names/4711"), []byte("name=later\n"), 0o644); err != nil { // simulates the user, who still owns the file
		t.Fatal(err)
	}
	m.refresh()
	if got, want := names("4711"), [2]string{"train resnet", "4709_2"}; got != want {
		t.Errorf("job 4711 is named %q after its user changed the file, want %q", got, want)
	}
}

// TestRequeued checks a job that runs twice. Only the file of the second run may describe it. The mapper must drop the
// description together with the job.
func TestRequeued(t *testing.T) {
	m := newMachine(t, nil)
	job := gpu.Unit{Manager: "slurm", Name: "4711"}
	run := func(more ...string) []string {
		return append([]string{"SLURM_JOB_ID=4711", "SLURM_JOB_UID=1001", "CUDA_VISIBLE_DEVICES=0"}, more...)
	}
	first := run("SLURM_JOB_ACCOUNT=physics", "SLURM_JOB_PARTITION=gpu", "SLURM_JOB_SLUID=s8FXKTA79XAR00")
	script(t, "prolog.sh", m.path("held"), first...)
	m.refresh()
	script(t, "epilog.sh", m.path("held"), first...)
	m.refresh()
	second := run("SLURM_JOB_ACCOUNT=chemistry", "SLURM_JOB_SLUID=s8FXKTA79XAR01")
	script(t, "prolog.sh", m.path("held"), second...)
	m.refresh()
	want := gpu.UnitInfo{SLUID: "s8FXKTA79XAR01", UID: "1001", Account: "chemistry"}
	if diff := cmp.Diff(want, m.Units()[job]); diff != "" {
		t.Errorf("info of the second run (-want +got):\n%s", diff)
	}
	script(t, "epilog.sh", m.path("held"), second...)
	m.now += 48 * time.Hour
	m.refresh()
	script(t, "prolog.sh", m.path("held"), run()...)
	m.job(10, "4711", "s8FXKTA79XAR02")
	m.refresh()
	if diff := cmp.Diff(gpu.UnitInfo{SLUID: "s8FXKTA79XAR02", UID: "1001"}, m.Units()[job]); diff != "" {
		t.Errorf("info of a later job with this id (-want +got):\n%s", diff)
	}
}

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

// TestScriptsNeverFail checks that the scripts succeed even without a job, without free space, or
// without write access.
func TestScriptsNeverFail(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	job := []string{"SLURM_JOB_ID=4711", "CUDA_VISIBLE_DEVICES=0"}
	for _, name := range []string{"prolog.sh", "epilog.sh", "taskprolog.sh"} {
		script(t, name, t.TempDir())
		script(t, name, blocked, job...)
		script(t, name, "/proc/nowhere", job...)
		script(t, name, t.TempDir(), "SLURM_JOB_ID=../../x", "CUDA_VISIBLE_DEVICES=0")
		script(t, name, t.TempDir(), "SLURM_JOB_ID=4711")
	}
}

// TestEpilogAfterUpdate checks that the epilog removes the files of an earlier version of the prolog, which wrote no
// names.
func TestEpilogAfterUpdate(t *testing.T) {
	dir, job := t.TempDir(), []string{"SLURM_JOB_ID=4711", "CUDA_VISIBLE_DEVICES=0"}
	script(t, "prolog.sh", dir, job...)
	if err := os.RemoveAll(filepath.Join(dir, "names")); err != nil {
		t.Fatal(err)
	}
	script(t, "epilog.sh", dir, job...)
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("files after the job: %q", left)
	}
}

// TestScriptsRefuseDirectories checks that the scripts do not write or remove files in a directory
// that another user can change.
func TestScriptsRefuseDirectories(t *testing.T) {
	chmod := os.Chmod // unlike os.Mkdir, os.Chmod is not limited by the umask
	tests := []struct {
		name   string
		change func(dir string) error
	}{
		{"others may write", func(dir string) error { return chmod(dir, 0o757) }},
		{"the group may write", func(dir string) error { return chmod(dir, 0o775) }},
		{"as in /tmp", func(dir string) error { return chmod(dir, fs.ModeSticky|0o777) }},
		{"others may write jobs", func(dir string) error { return chmod(dir+"/jobs", 0o777) }},
		{"another user's", func(dir string) error { return os.Chown(dir, 12345, 0) }},
		{"jobs of another user", func(dir string) error { return os.Chown(dir+"/jobs", 12345, 0) }},
		{"link", func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".real"), os.Symlink(dir+".real", dir))
		}},
		{"others may write names", func(dir string) error { return chmod(dir+"/names", 0o777) }},
		{"dangling link of names", func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/names"), os.Symlink(dir+".nowhere", dir+"/names"))
		}},
		{"link of jobs", func(dir string) error {
			return errors.Join(os.Rename(dir+"/jobs", dir+".jobs"), os.Symlink(dir+".jobs", dir+"/jobs"))
		}},
	}
	first, second := []string{"SLURM_JOB_ID=4711", "CUDA_VISIBLE_DEVICES=0"}, []string{"SLURM_JOB_ID=4712", "CUDA_VISIBLE_DEVICES=1"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "held")
			script(t, "prolog.sh", dir, first...)
			before := files(t, root)
			if len(before) != 2 {
				t.Fatalf("files of the first job: %q", before)
			}
			if err := tt.change(dir); errors.Is(err, fs.ErrPermission) {
				t.Skip("only root can change the owner of a directory:", err)
			} else if err != nil {
				t.Fatal(err)
			}
			before = files(t, root)
			if out := script(t, "prolog.sh", dir, second...); !strings.Contains(out, "must be a directory of root") {
				t.Errorf("output %q, want the reason", out)
			}
			script(t, "epilog.sh", dir, first...)
			if diff := cmp.Diff(before, files(t, root)); diff != "" {
				t.Errorf("files (-before +after):\n%s", diff)
			}
		})
	}
}

// TestScriptsUseTheirOwnPath checks that the scripts execute no program from the caller's PATH. The shell must not
// expand GPU names to file names.
func TestScriptsUseTheirOwnPath(t *testing.T) {
	foreign, working, dir := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "held")
	for _, name := range []string{"mkdir", "mv", "rm", "ls"} {
		if err := os.WriteFile(filepath.Join(foreign, name), []byte("#!/bin/sh\n: >"+foreign+"/executed\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(working, "7"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + foreign + ":/usr/bin:/bin", "SLURM_JOB_ID=4711", "CUDA_VISIBLE_DEVICES=0,[0-9]*,[!x]"}
	scriptIn(t, working, "prolog.sh", dir, env...)
	if diff := cmp.Diff([]string{"0", "jobs/4711"}, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	scriptIn(t, working, "epilog.sh", dir, env...)
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("files after the job: %q", left)
	}
	if _, err := os.Stat(foreign + "/executed"); err == nil {
		t.Error("a program from the caller's PATH was executed")
	}
}
