package podmapper_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/podmapper"
	"github.com/gpuledger/gpuledger/test/cgroup"
)

// TestRealCgroups starts real processes in real cgroups of each cgroup version. The cgroups have the names that the
// kubelet and the runtimes use.
func TestRealCgroups(t *testing.T) {
	// The names are unique, because the test reads all processes of the machine, and may run several times at once.
	trainer := trainer
	uid, id := fmt.Sprintf("3f1c2b9a-7d54-4e0b-9c66-%012x", os.Getpid()), fmt.Sprintf("%064x", os.Getpid())
	trainer.UID = uid
	slice := strings.ReplaceAll(uid, "-", "_")
	tests := []struct {
		name, path string
		want       gpu.Owner
	}{
		{"cgroupfs", "kubepods/burstable/pod" + uid + "/" + id, trainer},
		{"systemd", "kubepods.slice/kubepods-pod" + slice + ".slice/cri-containerd-" + id + ".scope", trainer},
		{"CRI-O", "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + slice + ".slice/crio-" + id + ".scope/container", trainer},
		{"Slurm inside", "kubepods/pod" + uid + "/" + id + "/system.slice/slurmstepd.scope/job_1/step_0", trainer},
		{"service", "system.slice/nvidia-persistenced.service", host},
		{"Docker", "docker/" + id, gpu.Owner{Kind: gpu.OwnerHost}},
	}
	for version, hierarchy := range cgroup.Hierarchies(t) {
		for _, tt := range tests {
			t.Run(version+" "+tt.name, func(t *testing.T) {
				n := newNode(t, func(c *podmapper.Config) { c.ProcFS = "/proc" })
				n.link(trainer, id)
				n.serve(holds(holder(trainer, "", gpuA)))
				// The test's root cgroup has a name like the kubelet's root cgroup.
				sleeper := cgroup.Start(t, cgroup.New(t, hierarchy, fmt.Sprintf("kubelet-test-%d/%s", os.Getpid(), tt.path)))
				inPod := tt.want.Kind == gpu.OwnerPod
				n.poll()
				n.wantHeld(exclusive(gpuA, trainer, inPod))

				p := n.process(uint32(sleeper.Process.Pid))
				wantOwner(t, p.Owner, tt.want)
				if p.Name != "sleep" || time.Since(p.StartTime).Abs() > hangTimeout {
					t.Errorf("process %q began %v, want a sleep that began now", p.Name, p.StartTime)
				}
				cgroup.Stop(t, sleeper)
				n.wantHeld(exclusive(gpuA, trainer, false))
				if _, ok := n.Process(p.ID.PID); ok {
					t.Error("Process found a process that ended")
				}
			})
		}
	}
}
