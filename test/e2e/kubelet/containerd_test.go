//go:build e2e

package kubelet_test

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// containerdConfig selects the kubelet's cgroup driver. containerd copies file systems instead of stacking them,
// because the images are tiny and copies work on every file system. restrict_oom_score_adj lets root without
// CAP_SYS_RESOURCE start containers.
const containerdConfig = `version = 2
root = "DIR/containerd/root"
state = "/run/containerd"

[grpc]
address = "/run/containerd/containerd.sock"

[plugins."io.containerd.grpc.v1.cri"]
restrict_oom_score_adj = true
sandbox_image = "` + pauseImage + `"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
BinaryName = "DIR/toolkit"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "DIR/network"
`

func (n *node) startContainerd() {
	n.t.Helper()
	n.writeFile("containerd.toml", containerdConfig)
	start(n.t, n.dir, "containerd", "--config="+n.path("containerd.toml"))
	eventually(n.t, "containerd responds", func() bool {
		_, err := ctr("version")
		return err == nil
	})
	image{
		tags: []string{pauseImage, workloadImage}, entrypoint: "/workload",
		files: map[string]string{"workload": n.path("workload")},
	}.load(n.t)
}

// ctr uses the namespace that containerd uses for Kubernetes.
func ctr(args ...string) (string, error) {
	return output("ctr", append([]string{"--namespace=k8s.io"}, args...)...)
}

// running describes a running container, as reported by containerd. gpuledger does not use containerd, so these values
// are independent of its results.
type running struct {
	gpu.Owner
	ID      string
	Sandbox bool     // set for the pod's pause container
	PIDs    []uint32 // PIDs, beginning with the container's first process
	Devices []string
}

// containers omits a container that ends during the call.
func containers(t *testing.T) []running {
	t.Helper()
	list, err := ctr("tasks", "list")
	check(t, err)
	var found []running
	for line := range strings.Lines(list) {
		task := strings.Fields(line)
		if len(task) != 3 || task[2] != "RUNNING" {
			continue
		}
		if r, ok := inspect(task[0], task[1]); ok {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, compareRunning)
	return found
}

func compareRunning(a, b running) int {
	return cmp.Or(
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.UID, b.UID),
		cmp.Compare(a.Part, b.Part),
	)
}

// inspect returns false if the container has ended. It reads the labels that the kubelet sets through the CRI.
func inspect(id, pid string) (running, bool) {
	out, err := ctr("containers", "info", id)
	if err != nil {
		return running{}, false
	}
	var info struct{ Labels map[string]string }
	if err := json.Unmarshal([]byte(out), &info); err != nil {
		return running{}, false
	}
	l := info.Labels
	r := running{ID: id, Sandbox: l["io.cri-containerd.kind"] == "sandbox", Owner: gpu.Owner{
		Kind: gpu.OwnerPod, Scope: l["io.kubernetes.pod.namespace"], Name: l["io.kubernetes.pod.name"],
		UID: l["io.kubernetes.pod.uid"], Part: l["io.kubernetes.container.name"],
	}}
	out, err = ctr("tasks", "ps", id)
	if err != nil {
		return running{}, false
	}
	for line := range strings.Lines(out) {
		if n, err := strconv.ParseUint(strings.Fields(line)[0], 10, 32); err == nil {
			r.PIDs = append(r.PIDs, uint32(n))
		}
	}
	slices.Sort(r.PIDs) // a child process has a higher PID than its parent
	r.Devices = devicesOf(pid)
	return r, len(r.PIDs) > 0
}

func devicesOf(pid string) []string {
	env, err := os.ReadFile(filepath.Join("/proc", pid, "environ"))
	if err != nil {
		return nil
	}
	for v := range strings.SplitSeq(string(env), "\x00") {
		if devices, ok := strings.CutPrefix(v, devicesVariable+"="); ok {
			return strings.Split(devices, ",")
		}
	}
	return nil
}
