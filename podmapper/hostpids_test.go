package podmapper_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/stage"
)

func TestSeesHost(t *testing.T) {
	const own = "pid:[4026532817]"
	slice := strings.ReplaceAll(uid, "-", "_")
	self := "0::/kubepods.slice/kubepods-pod" + slice + ".slice/cri-containerd-" + id + ".scope"
	tests := []struct {
		name, namespace, self, first string
		want                         bool
	}{
		{"host", hostPIDs, self, "0::/init.scope", true},
		{"host, private cgroups", hostPIDs, "0::/", "0::/../../../init.scope", true},
		{"host, nothing readable", hostPIDs, "", "", true},
		{"kind", own, self, "0::/init.scope", true},
		{"kind, private cgroups", own, "0::/", "0::/../../../../init.scope", true},
		{"kind, cgroup v1", own, "4:memory:/docker/" + otherID + "/kubelet/kubepods/pod" + uid + "/" + id, "4:memory:/docker/" + otherID + "/init.scope", true},

		{"own", own, self, self, false},
		{"own, private cgroups", own, "0::/", "0::/", false},
		{"own, sub-cgroups", own, "0::/app.scope", "0::/init.scope", false},
		{"pause of the same pod", own, "0::/", "0::/../cri-containerd-" + otherID + ".scope", false},
		{"pause of the same pod, cgroupfs", own, "0::/", "0::/../" + otherID, false},
		{"another pod's", own, "0::/", "0::/../../kubepods-pod" + slice + ".slice/cri-containerd-" + otherID + ".scope", false},
		{"own, cgroup v1", own, "4:memory:/kubepods/pod" + uid + "/" + id, "4:memory:/kubepods/pod" + uid + "/" + otherID, false},
		{"own, nothing readable", own, "", "", false},
		{"own, garbage", own, "garbage", "garbage", false},
		{"container without a pod", own, "4:memory:/docker/" + id, "4:memory:/docker/" + id, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.serve(holds())
			n.namespace(tt.namespace)
			n.write("proc/self/cgroup", tt.self+"\n")
			n.start(1, 1, "init", "")
			n.write("proc/1/cgroup", tt.first+"\n")
			if got := n.SeesHost(); got != tt.want {
				t.Errorf("SeesHost = %v before the first poll, want %v", got, tt.want)
			}
			if err := n.Refresh(t.Context()); err != nil && !strings.Contains(err.Error(), "cannot read") {
				t.Error(err)
			}
			if got := n.SeesHost(); got != tt.want {
				t.Errorf("SeesHost = %v, want %v", got, tt.want)
			}
			n.wantStage(stage.HostPIDs, tt.want)
		})
	}
}

// TestSeesHostByNSpid checks the host's /proc in a pod with its own PID namespace. In such a pod, the exporter's status
// file contains two PIDs.
func TestSeesHostByNSpid(t *testing.T) {
	tests := []struct {
		name, namespace, status string
		want                    bool
	}{
		{"kind", "pid:[4026532817]", "Name:\tgpuledger\nNSpid:\t4711\n", true},
		{"old kernel", "pid:[4026532817]", "Name:\tgpuledger\n", true},
		{"host", hostPIDs, "Name:\tgpuledger\nNSpid:\t4711\n", true},

		{"the host's tree", "pid:[4026532817]", "Name:\tgpuledger\nNSpid:\t4711\t1\n", false},
		{"the host's tree, in kind", "pid:[4026532817]", "NSpid:\t4711\t95\t1\n", false},
		{"garbage", "pid:[4026532817]", "NSpid:\n", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.namespace(tt.namespace)
			n.write("proc/self/cgroup", "0::/\n")
			n.write("proc/self/status", tt.status)
			n.start(1, 1, "systemd", "/../../../../init.scope")
			if got := n.SeesHost(); got != tt.want {
				t.Errorf("SeesHost = %v, want %v", got, tt.want)
			}
		})
	}
}

// TestSeesNoHostWithoutSelf checks that a /proc without the exporter's own process counts as the /proc of another
// namespace.
func TestSeesNoHostWithoutSelf(t *testing.T) {
	n := newNode(t)
	n.serve(holds())
	n.remove("proc/self")
	n.poll()
	if n.SeesHost() {
		t.Error("SeesHost = true without /proc/self")
	}
	n.wantStage(stage.HostPIDs, false)
	n.namespace(hostPIDs)
	n.poll()
	if !n.SeesHost() {
		t.Error("SeesHost = false once /proc/self can be read")
	}
}

// TestLivesWithoutProcesses checks that a listed pod with logs counts as alive if the host's PIDs are not visible.
func TestLivesWithoutProcesses(t *testing.T) {
	n := newNode(t)
	n.namespace("pid:[4026532817]")
	link := n.link(trainer, id)
	n.serve(holds(holder(trainer, "", gpuA)))
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))
	n.remove(link)
	n.poll()
	n.wantHeld(exclusive(gpuA, withoutUID, false))
	n.link(reborn, otherID)
	n.poll()
	n.wantHeld(exclusive(gpuA, reborn, true))
	n.servePods(apiPod(reborn, "Failed", nil))
	n.poll()
	n.wantHeld(exclusive(gpuA, reborn, false))
}

// TestPodsAPIFailsWithoutProcesses checks the last response of the Pods API while the API fails and the host's PIDs are
// not visible. The response must remain valid for three polls, unless the logs contain another pod with the same name.
func TestPodsAPIFailsWithoutProcesses(t *testing.T) {
	garbage := []byte("\xff")
	n := newNode(t)
	n.namespace("pid:[4026532817]")
	n.serve(holds(holder(trainer, "", gpuA)))
	api := n.servePods(apiPod(trainer, "Running", nil))
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))
	api.now(garbage)
	n.pass(30 * time.Second)
	n.pollFails("list pods")
	n.wantHeld(exclusive(gpuA, trainer, true))

	link := n.link(reborn, otherID)
	n.pollFails("list pods")
	n.wantHeld(exclusive(gpuA, withoutUID, false))
	n.remove(link)
	n.pass(time.Second)
	n.pollFails("list pods")
	n.wantHeld(exclusive(gpuA, withoutUID, false))

	n.link(trainer, id)
	api.now(apiPod(trainer, "Failed", nil))
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, false))
	api.now(garbage)
	n.pollFails("list pods")
	n.wantHeld(exclusive(gpuA, trainer, false))
}
