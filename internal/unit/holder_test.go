package unit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/unit"
)

func withPBS(t *testing.T, dir string) func(*unit.Config) {
	t.Helper()
	return func(c *unit.Config) {
		managers := t.TempDir()
		m := machine{t: t, dir: managers}
		m.write("pbs.conf", "path = /pbs_jobs\\.service/jobid/(.+)\nheld = "+dir+"\n")
		known, err := unit.LoadManagers([]string{managers})
		if err != nil {
			t.Fatal(err)
		}
		c.Known, c.Max = known, 100
	}
}

// TestHoldersOfManagers checks files in which managers other than Slurm list the GPUs of their units. The directory or
// the line determines the manager.
func TestHoldersOfManagers(t *testing.T) {
	pbs := t.TempDir()
	m := newMachine(t, withPBS(t, pbs))
	own := machine{t: t, dir: pbs}
	own.write("0", "77.server 1001\n")
	own.write("jobs/78[3].server", "user=grace\nuid=1002\naccount=physics\ngpus=1,GPU-0a\n")
	m.write("held/2", "4711\npbs/77.server\nsystemd/whisper 0\n")
	m.start(10, "python3", "/pbs_jobs.service/jobid/77.server", "")
	m.start(11, "python3", "/pbs_jobs.service/jobid/78[3].server", "")
	m.start(12, "python3", "/system.slice/whisper.service", "")
	m.job(20, "4711", "job_4711")
	m.now += time.Hour // no file counts as just written
	m.refresh()
	want := []string{
		"slurm/4711 time-slicing", "pbs/77.server time-slicing", "systemd/whisper time-slicing",
		"pbs/77.server exclusive", "pbs/78[3].server exclusive", "pbs/78[3].server exclusive",
	}
	m.wantHeld(want...)
	got := m.Units()[gpu.Unit{Manager: "pbs", Name: "78[3].server"}]
	if diff := cmp.Diff(gpu.UnitInfo{UID: "1002", Account: "physics"}, got); diff != "" {
		t.Errorf("description (-want +got):\n%s", diff)
	}

	m.remove("proc/10")
	m.remove("proc/11")
	m.refresh()
	m.wantHeld("slurm/4711 time-slicing", "systemd/whisper time-slicing", "none", "none", "none", "none")
}

// TestHoldersDisabled checks a manager that is not in --units. Its units must hold no GPU, and its files must not count
// as outdated.
func TestHoldersDisabled(t *testing.T) {
	pbs := t.TempDir()
	m := newMachine(t, func(c *unit.Config) {
		withPBS(t, pbs)(c)
		c.Managers = []string{unit.Slurm}
	})
	(&machine{t: t, dir: pbs}).write("0", "77.server\n")
	m.start(10, "python3", "/pbs_jobs.service/jobid/77.server", "")
	m.refresh()
	m.wantHeld()
}

// TestBadHolders checks that malformed lines are errors. In the directory of a manager, a name without a prefix must be
// a unit of this manager.
func TestBadHolders(t *testing.T) {
	for line, ok := range map[string]bool{
		"77.server": true, "77.server 1001": true, "slurm/4711": true, "docker/train": true,
		"slurm/x": false, "PBS/77": false, "/77": false, "pbs/": false, "77.server x": false, "77.server 1 2": false, "77\x01": false,
	} {
		pbs := t.TempDir()
		m := newMachine(t, withPBS(t, pbs))
		(&machine{t: t, dir: pbs}).write("0", line+"\n")
		err := m.Refresh(t.Context())
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "malformed line") {
			t.Errorf("%q: error %v, want none: %v", line, err, ok)
		}
	}
	m := newMachine(t, withPBS(t, t.TempDir()))
	m.write("held/0", "77.server\n")
	if err := m.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "malformed line") {
		t.Errorf("a PBS job in the directory of Slurm: %v", err)
	}
}

// TestUserInPath checks that a manager from a file finds the user of a unit in the cgroup path. It must reject root and
// strings that are not uids.
func TestUserInPath(t *testing.T) {
	for _, tt := range []struct{ segment, want string }{{"uid_1002", "1002"}, {"uid_0", ""}, {"uid_x", ""}} {
		m := newMachine(t, func(c *unit.Config) {
			managers := machine{t: t, dir: t.TempDir()}
			managers.write("oar.conf", "path = /oar/uid_(?P<uid>.+)/job_([0-9]+)\n")
			known, err := unit.LoadManagers([]string{managers.dir})
			if err != nil {
				t.Fatal(err)
			}
			c.Known, c.Managers = known, unit.Names(known)
		})
		m.start(10, "python3", "/oar/"+tt.segment+"/job_7", "")
		m.want(10, "oar/7")
		m.refresh()
		if diff := cmp.Diff(map[gpu.Unit]gpu.UnitInfo{{Manager: "oar", Name: "7"}: {UID: tt.want}}, m.Units()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.segment, diff)
		}
	}
}
