//go:build e2e

package kubelet_test

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/host"
	"github.com/gpuledger/gpuledger/internal/owner"
	"github.com/gpuledger/gpuledger/internal/proc"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/podmapper"
)

// In TestRealKubelet, each subtest creates its own pods and removes them.
func TestRealKubelet(t *testing.T) {
	n := startNode(t)
	t.Run("processes and allocations", n.testMapping)
	t.Run("init containers", n.testInit)
	t.Run("finished pod", n.testFinished)
	t.Run("another pod of the same name", n.testSameName)
	t.Run("kubelet restart", n.testRestart)
	t.Run("pods API", n.testPodsAPI)
	t.Run("pods API watch", n.testPodsAPIWatch)
	t.Run("exporter", n.testExporter)
	t.Run("sidecar whose image is missing", n.testSidecarWithoutImage)
	t.Run("sidecar that crashes", n.testSidecarCrashes)
	t.Run("sidecar that eats its memory", n.testSidecarEats)
	t.Run("replaced plugin pod", n.testReplacedPod)
}

type mapper struct {
	*podmapper.Mapper
	*owner.Chain
}

func newMapper() mapper {
	log := slog.New(slog.DiscardHandler)
	m := podmapper.New(podmapper.Config{
		ProcFS: "/proc", ContainerLogs: containerLogs, PodResources: podResources,
		Now: host.Now, Log: log, Stages: stage.New(log, host.Now),
	})
	return mapper{m, owner.NewChain(proc.Tree{Root: "/proc"}, host.Now, m)}
}

// testMapping checks that every process in a pod and every allocation is mapped to its container. All other processes
// must be mapped to the host.
func (n *node) testMapping(t *testing.T) {
	n.run(t, trainer())
	n.run(t, server())
	n.run(t, longName())
	m := newMapper()
	check(t, m.Refresh(t.Context()))

	all := containers(t)
	checkProcesses(t, m, all)
	checkAllocations(t, m, all)
	if got := len(m.Allocations().List); got != len(gpus) {
		t.Errorf("%d allocations, want %d", got, len(gpus))
	}
	links, err := os.ReadDir(containerLogs)
	check(t, err)
	if !slices.ContainsFunc(links, func(l os.DirEntry) bool { return len(l.Name()) == 255 }) {
		t.Error("no log link has a name of 255 bytes, want a link with a truncated name")
	}
	for what, pid := range map[string]int{"the test": os.Getpid(), "the kubelet": n.kubelet.cmd.Process.Pid} {
		p, ok := m.Process(uint32(pid))
		if want := (gpu.Owner{Kind: gpu.OwnerHost}); !ok || p.Owner != want {
			t.Errorf("owner of %s: %+v, want %+v", what, p.Owner, want)
		}
	}
	for _, r := range all {
		t.Logf("%s %s: %s", r.Name, cmp.Or(r.Part, "pause"), cgroupOf(t, r.PIDs[0]))
	}
}

// checkProcesses checks that the mapper maps each process to the container that containerd reports.
func checkProcesses(t *testing.T, m mapper, all []running) {
	t.Helper()
	for _, r := range all {
		want := r.Owner
		if r.Sandbox { // a process that belongs to the pod but to no named container
			want = gpu.Owner{Kind: gpu.OwnerPending}
		}
		for _, pid := range r.PIDs {
			p, ok := m.Process(pid)
			if !ok {
				t.Errorf("the mapper does not find process %d", pid)
			}
			if diff := gocmp.Diff(want, p.Owner); diff != "" {
				t.Errorf("owner of process %d (-containerd +gpuledger):\n%s", pid, diff)
			}
		}
	}
}

// checkAllocations compares the allocations with the devices in the containers' environment, which the device plugin
// wrote.
func checkAllocations(t *testing.T, m mapper, all []running) {
	t.Helper()
	want := []gpu.Allocation{}
	for _, r := range all {
		for _, uuid := range r.Devices {
			want = append(want, gpu.Allocation{
				Device: gpu.DeviceName{UUID: uuid}, Owner: r.Owner, Resource: resource,
				Sharing: gpu.SharingExclusive, Replicas: 1, Live: true,
			})
		}
	}
	slices.SortFunc(want, func(a, b gpu.Allocation) int { return cmp.Compare(a.Device.UUID, b.Device.UUID) })
	got := m.Allocations()
	if diff := gocmp.Diff(want, got.List); diff != "" || !got.Known {
		t.Errorf("allocations (-device plugin +gpuledger):\n%s", diff)
	}
}

// testInit checks that the kubelet passes an init container's devices on to the next containers, and lists these
// containers as holders from the start. The init container's process must still be mapped to the init container. The
// devices of a native sidecar must not be passed on.
func (n *node) testInit(t *testing.T) {
	p := batch()
	p.containers = []container{{name: "prepare", kind: initial, gpus: 1}, {name: "proxy", kind: nativeSidecar, gpus: 1}, {name: "main", gpus: 1}}
	n.write(t, p)
	t.Cleanup(func() { n.remove(t, p) })
	first := n.await(t, pod{p.name, p.uid, p.containers[:1]})
	m := newMapper()
	check(t, m.Refresh(t.Context()))
	checkProcesses(t, m, containers(t))
	if holder := holderOf(m, first[0].Devices[0]); holder.Part != "proxy" || holder.UID != p.uid {
		t.Errorf("while the init container runs, the holder of its device is %+v, want the native sidecar", holder)
	}
	check(t, syscall.Kill(int(first[0].PIDs[0]), syscall.SIGTERM))
	second := n.await(t, pod{p.name, p.uid, p.containers[1:]})
	check(t, m.Refresh(t.Context()))
	checkProcesses(t, m, containers(t))
	checkAllocations(t, m, second)
}

func holderOf(m mapper, uuid string) gpu.Owner {
	for _, a := range m.Allocations().List {
		if a.Device.UUID == uuid {
			return a.Owner
		}
	}
	return gpu.Owner{}
}

func (n *node) testFinished(t *testing.T) {
	batch := batch()
	up := n.run(t, batch)
	n.run(t, server())
	m := newMapper()
	check(t, m.Refresh(t.Context()))
	checkAllocations(t, m, containers(t))
	before, _ := m.Process(up[0].PIDs[0])

	check(t, syscall.Kill(int(up[0].PIDs[0]), syscall.SIGTERM))
	eventually(t, "the process is gone", func() bool {
		_, ok := m.Process(up[0].PIDs[0])
		return !ok
	})
	eventually(t, "the pause container is gone too", func() bool { return !runs(t, batch) })
	check(t, m.Refresh(t.Context()))
	for _, a := range m.Allocations().List {
		if a.Owner.Name == batch.fullName() && a.Live {
			t.Errorf("the finished pod still holds %s", a.Device.UUID)
		}
	}
	if got := m.Owner(before.ID); got != before.Owner {
		t.Errorf("owner of the ended process: %+v, want %+v", got, before.Owner)
	}
	eventually(t, "the kubelet no longer lists the pod", func() bool { return !listed(t, batch) })
	check(t, m.Refresh(t.Context()))
	checkAllocations(t, m, containers(t)) // only the other pod still runs
}

// runs includes the pause container.
func runs(t *testing.T, p pod) bool {
	t.Helper()
	return slices.ContainsFunc(containers(t), func(r running) bool { return r.Name == p.fullName() })
}

func listed(t *testing.T, p pod) bool {
	t.Helper()
	list, err := listPodResources()
	check(t, err)
	return slices.ContainsFunc(list, func(r *podresources.PodResources) bool {
		return r.GetName() == p.fullName() && slices.ContainsFunc(r.GetContainers(), func(c *podresources.ContainerResources) bool {
			return len(c.GetDevices()) > 0
		})
	})
}

// testSameName creates a pod again under its old name. It must count as a new pod.
func (n *node) testSameName(t *testing.T) {
	old := server()
	again := old
	again.uid = newUID()
	first := n.run(t, old)
	m := newMapper()
	check(t, m.Refresh(t.Context()))
	before, _ := m.Process(first[0].PIDs[0])

	n.write(t, again) // replaces the old pod's manifest
	for ended := false; !ended; {
		check(t, m.Refresh(t.Context()))
		ended = !alive(first[0].PIDs[0])
		for _, a := range m.Allocations().List {
			if uid := a.Owner.UID; uid != "" && uid != old.uid && uid != again.uid {
				t.Errorf("%s is held by a pod with UID %s, want the UID of the old or the new pod", a.Device.UUID, uid)
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	second := n.await(t, again)
	check(t, m.Refresh(t.Context()))
	checkProcesses(t, m, containers(t))
	checkAllocations(t, m, containers(t))
	if second[0].UID != again.uid || second[0].ID == first[0].ID {
		t.Errorf("containerd runs %+v, want a new container of the new pod", second[0])
	}
	if got := m.Owner(before.ID); got != before.Owner || got.UID != old.uid {
		t.Errorf("owner of the old pod's process: %+v, want %+v", got, before.Owner)
	}
}

func alive(pid uint32) bool { return syscall.Kill(int(pid), 0) == nil }

// testRestart checks that the mapper keeps the last list while no kubelet runs. It must read the list of a new kubelet.
func (n *node) testRestart(t *testing.T) {
	n.run(t, trainer())
	m := newMapper()
	check(t, m.Refresh(t.Context()))
	all, socket := containers(t), inode(podResources)

	n.kubelet.stop(t)
	if inode(podResources) != socket {
		t.Error("the socket changed when the kubelet stopped")
	}
	if err := m.Refresh(t.Context()); err == nil {
		t.Error("Refresh without a kubelet returns no error")
	}
	checkProcesses(t, m, all)
	checkAllocations(t, m, all)

	n.startKubelet()
	if inode(podResources) == socket {
		t.Error("the new kubelet did not replace the socket")
	}
	n.awaitPolls(t, m, len(m.Allocations().List))
	if diff := gocmp.Diff(all, containers(t)); diff != "" {
		t.Errorf("containers (-before the restart +after it):\n%s", diff)
	}
	checkProcesses(t, m, all)
	checkAllocations(t, m, all)

	n.run(t, server()) // a new kubelet, but the same mapper
	check(t, m.Refresh(t.Context()))
	checkProcesses(t, m, containers(t))
	checkAllocations(t, m, containers(t))
}

// awaitPolls polls for at most 20 s, until the mapper has the given number of allocations. The exporter polls twice in 20 s.
// A new kubelet responds immediately, but its list is empty until it has read its manifests.
func (n *node) awaitPolls(t *testing.T, m mapper, allocations int) {
	t.Helper()
	began, polls, empty := time.Now(), 0, 0
	for len(m.Allocations().List) != allocations || polls == 0 {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("the new kubelet's list has %d allocations, want %d", len(m.Allocations().List), allocations)
		}
		check(t, m.Refresh(t.Context()))
		polls++
		if len(m.Allocations().List) == 0 {
			empty++
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Logf("complete list after %v and %d polls, %d of them with an empty list", time.Since(began), polls, empty)
}

// cgroupOf returns the line of a process's cgroup file that names the pod, or "none".
func cgroupOf(t *testing.T, pid uint32) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	check(t, err)
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, "kubepods") {
			return strings.TrimSpace(line)
		}
	}
	return "none"
}
