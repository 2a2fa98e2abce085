package podmapper_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/podmapper"
)

// oversized returns the number of times that the input of a stage exceeded a limit.
func (n *node) oversized(name stage.Name) uint64 {
	for _, s := range n.stages.Snapshot() {
		if s.Name == string(name) {
			return s.Oversized
		}
	}
	return 0
}

func numbered(i int) (gpu.Owner, string) {
	c := gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml-team", Name: fmt.Sprintf("train-%d", i), UID: fmt.Sprintf("5d2f9a60-0000-4000-8000-%012d", i), Part: "trainer"}
	return c, fmt.Sprintf("%064x", i)
}

func holders(pods, replicas int) []*podresources.PodResources {
	list := make([]*podresources.PodResources, pods)
	for i := range list {
		c, _ := numbered(i)
		ids := make([]string, replicas)
		for r := range ids {
			ids[r] = fmt.Sprintf("%s::%d", gpuA, i*replicas+r)
		}
		list[i] = holder(c, "", ids...)
	}
	return list
}

// TestOversizedList checks that a response that exceeds a limit is rejected as a whole. The previous list must stay
// valid until it is stale.
func TestOversizedList(t *testing.T) {
	tests := []struct {
		name string
		pods func() []*podresources.PodResources
		want string
	}{
		{"64 MiB", func() []*podresources.PodResources {
			return []*podresources.PodResources{{Name: strings.Repeat("x", 64<<20)}}
		}, "larger than max"},
		{"a long pod", func() []*podresources.PodResources { return holders(1, 100_000) }, "pod of"},
		{"empty pods", func() []*podresources.PodResources { return make([]*podresources.PodResources, 100_000) }, "more than 50000 pods"},
		{"empty containers", func() []*podresources.PodResources {
			return []*podresources.PodResources{{Containers: make([]*podresources.ContainerResources, 100_000)}}
		}, "more than 50000 pods, containers"},
		{"60,000 devices", func() []*podresources.PodResources { return holders(60, 1000) }, "more than 50000 pods, containers and devices"},
		{"20,000 devices", func() []*podresources.PodResources { return holders(20, 1000) }, "more than 8192 GPUs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			k := n.serve(holds(holder(trainer, "", gpuA)))
			n.link(trainer, id)
			n.start(10, 5, "python3", cgroupPath(trainer, id))
			n.poll()
			k.stop()
			n.serve(holds(tt.pods()...))
			n.pass(10 * time.Second)
			n.pollFails(tt.want)
			n.wantStage(stage.PodResources, false)
			if got := n.oversized(stage.PodResources); got != 1 {
				t.Errorf("counted %d times, want once", got)
			}
			n.wantHeld(exclusive(gpuA, trainer, true))
			n.pass(21 * time.Second)
			n.wantUnknown()
		})
	}
}

func TestOversizedPods(t *testing.T) {
	tests := []struct {
		name string
		pods func() [][]byte
		want string
	}{
		{"64 MiB", func() [][]byte { return [][]byte{make([]byte, 64<<20)} }, "larger than max"},
		{"a long pod", func() [][]byte { return [][]byte{message(9, strings.Repeat("x", 3<<20))} }, "pod of"},
		{"empty pods", func() [][]byte { return make([][]byte, 1_000_000) }, "more than 50000 pods"},
		{"empty containers", func() [][]byte { return [][]byte{message(2, []byte(strings.Repeat("\x12\x00", 100_000)))} }, "more than 50000 pods"},
		{"empty statuses", func() [][]byte { return [][]byte{message(3, []byte(strings.Repeat("\x42\x00", 100_000)))} }, "more than 50000 pods"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.serve(holds())
			n.servePods(tt.pods()...)
			n.pollFails(tt.want)
			n.wantStage(stage.PodsAPI, false)
			if got := n.oversized(stage.PodsAPI); got != 1 {
				t.Errorf("counted %d times, want once", got)
			}
		})
	}
}

// TestBigNode checks that responses for the largest real nodes are far below every limit.
func TestBigNode(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) { c.PodLogs = strings.TrimSuffix(c.ContainerLogs, "containers") + "pods" })
	const pods, replicas = 500, 10 // 5,000 replicas in total, about as many as 8 GPUs with 7 MIG devices each and 90 replicas of each device
	n.serve(holds(holders(pods, replicas)...))
	described := make([][]byte, pods)
	for i := range described {
		c, _ := numbered(i)
		described[i] = append(apiPod(c, "Running", nil), message(1, message(2, strings.Repeat("x", 20<<10)))...) // simulates the size of annotations and other fields
	}
	n.servePods(described...)
	for i := range pods {
		n.link(numbered(i))
	}
	check(t, os.MkdirAll(n.path("pods"), 0o755))
	n.poll()
	if got := len(n.Allocations().List); got != pods {
		t.Errorf("%d allocations, want %d", got, pods)
	}
	c, containerID := numbered(pods - 1)
	n.start(10, 5, "python3", cgroupPath(c, containerID))
	wantOwner(t, n.process(10).Owner, c)
}

// TestOversizedLogs checks a directory with too many links. The mapper must keep known containers, and must identify no
// new containers.
func TestOversizedLogs(t *testing.T) {
	n := newNode(t)
	const most = 50
	n.BoundLogs(most)
	n.serve(holds(holder(trainer, "", gpuA)))
	n.link(trainer, id)
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.poll()
	for i := range most {
		n.link(numbered(i))
	}
	c, containerID := numbered(7)
	n.start(11, 5, "python3", cgroupPath(c, containerID))
	n.pollFails("more than 50 entries")
	n.wantStage(stage.ContainerLogs, false)
	if got := n.oversized(stage.ContainerLogs); got != 1 {
		t.Errorf("counted %d times, want once", got)
	}
	n.wantHeld(exclusive(gpuA, trainer, true))
	wantOwner(t, n.process(10).Owner, trainer)
	wantOwner(t, n.process(11).Owner, gpu.Owner{Kind: gpu.OwnerPending})
}
