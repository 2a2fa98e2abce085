package unit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuledger/gpuledger/internal/unit"
	"github.com/gpuledger/gpuledger/test/cgroup"
)

// TestRealCgroups starts real processes in real cgroups, in every cgroup version of the machine. Some cgroups belong to
// units of managers. Others belong to users who imitate such units.
func TestRealCgroups(t *testing.T) {
	const user = "user.slice/user-4002.slice/user@4002.service/"
	tests := []struct{ name, path, want string }{
		{"PBS", "pbs_jobs.service/jobid/77.server", "pbs/77.server"},
		{"an element of an array", "pbs_jobs.service/jobid/77[3].server", "pbs/77[3].server"},
		{"HTCondor", "system.slice/condor.service/condor_execute_slot1_1@exec7.example.com", "condor/slot1_1"},
		{"LXC", "lxc.payload.web/system.slice/x.service", "lxc/web"},
		{"libvirt", `machine.slice/machine-qemu\x2d1\x2dwin\x2d11.scope/libvirt/emulator`, "libvirt/win-11"},
		{"Flux", "user.slice/user-4003.slice/user@4003.service/imp-shell-0-f2rKx9.service", "flux/f2rKx9"},
		{"Slurm imitated", user + "slurmstepd.scope/job_1/step_0/user/task_0", "user/4002"},
		{"PBS imitated", user + "pbs_jobs.service/jobid/77.server", "user/4002"},
		{"Flux imitated", user + "imp-shell-0-f2rKx9.service", "user/4002"},
		{"Flux's account imitated", user + "user.slice/user-4003.slice/user@4003.service/imp-shell-0-f2rKx9.service", "user/4002"},
		{"Docker imitated", user + "docker/" + containerID, "user/4002"},
		{"HTCondor imitated in a machine", "lxc.payload.web/condor.service/condor_execute_slot1_1@exec7.example.com", "lxc/web"},
		{"PBS imitated in a service", "system.slice/x.service/pbs_jobs.service/jobid/77.server", "systemd/x"},
		{"PBS imitated in a scope", "system.slice/run-r1.scope/pbs_jobs.service/jobid/77.server", "host"},
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "flux.conf"), []byte("uid = 4003\npath = /(?:imp-)?shell-[0-9]+-(.+)\\.service\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	known, err := unit.LoadManagers([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	for version, hierarchy := range cgroup.Hierarchies(t) {
		for _, tt := range tests {
			t.Run(version+" "+tt.name, func(t *testing.T) {
				m := newMachine(t, func(c *unit.Config) { c.ProcFS, c.Known, c.Max = "/proc", known, 1000 })
				p := cgroup.Start(t, cgroup.New(t, hierarchy, fmt.Sprintf("gpuledgertest%d.slice/%s", os.Getpid(), tt.path)))
				e, err := m.Explain(t.Context(), uint32(p.Process.Pid))
				if err != nil || e.Owner != tt.want {
					t.Errorf("the process belongs to %s (error %v), want %s\n%s", e.Owner, err, tt.want, e.Cgroup)
				}
			})
		}
	}
}
