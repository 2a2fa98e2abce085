package podmapper_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/owner"
	"github.com/gpuledger/gpuledger/internal/proc"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/podmapper"
)

// run starts Run. The returned function stops Run and waits until it has ended.
func (n *node) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Errorf("Run = %v, want nil", err)
		}
	})
	n.t.Cleanup(stop)
	return stop
}

func (n *node) waitPolled() {
	n.t.Helper()
	select {
	case <-n.Polled():
	case <-time.After(hangTimeout):
		n.t.Fatal("the first poll never ended")
	}
}

func TestRunPolls(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) { c.Poll = 10 * time.Millisecond })
	k := n.serve(holds())
	stop := n.run()
	for range 3 {
		k.wait(t)
	}
	stop()
	n.wantHeld()
}

// TestRunPollsForANewContainer checks that a process of a container without an allocation causes an immediate poll. The
// poll interval is longer than the test.
func TestRunPollsForANewContainer(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) { c.Poll = time.Hour })
	k := n.serve(holds(holder(trainer, "", gpuA)))
	n.run()
	n.waitPolled()
	k.wait(t)
	n.link(trainer, id)
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	wantOwner(t, n.process(10).Owner, trainer)
	k.wait(t)
	n.poll() // the call waits until a poll in progress has ended
	n.wantHeld(exclusive(gpuA, trainer, true))
}

func TestRunEndsDuringACall(t *testing.T) {
	n := newNode(t)
	k := n.serve(func(ctx context.Context) (*podresources.ListPodResourcesResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	stop := n.run()
	k.wait(t)
	stop()
	for _, s := range n.stages.Snapshot() {
		if s.Failures > 0 {
			t.Errorf("stage %s counts the shutdown as a failure", s.Name)
		}
	}
}

func TestPolled(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) { c.Poll = 50 * time.Millisecond })
	k := n.serve(func(ctx context.Context) (*podresources.ListPodResourcesResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	select {
	case <-n.Polled():
		t.Error("polled before the first poll")
	default:
	}
	n.run()
	k.wait(t)
	n.waitPolled()
	n.wantStage(stage.PodResources, false)
	n.wantStage(stage.Processes, true)
	n.pollFails("list pod resources") // the poll fails a second time
}

// TestRunPollsAtOnce checks that Run polls when it starts, even after a separate Refresh.
func TestRunPollsAtOnce(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) { c.Poll = time.Hour })
	k := n.serve(holds())
	n.poll()
	n.waitPolled()
	k.wait(t)
	n.run()
	k.wait(t)
}

// TestRefreshEndsDuringAScan checks that a cancelled scan does not count as a failure, and that the mapper does not use
// the scan's result.
func TestRefreshEndsDuringAScan(t *testing.T) {
	n := newNode(t)
	n.serve(holds(holder(trainer, "", gpuA)))
	n.start(10, 5, "python3", "")
	n.remove("proc/10/cgroup")
	check(t, syscall.Mkfifo(n.path("proc/10/cgroup"), 0o644))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Refresh(ctx) }()
	pipe, err := os.OpenFile(n.path("proc/10/cgroup"), os.O_WRONLY, 0) // the call returns when the scan opens the pipe
	check(t, err)
	cancel()
	check(t, pipe.Close())
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Refresh = %v, want %v", err, context.Canceled)
	}
	for _, s := range n.stages.Snapshot() {
		if s.Failures > 0 {
			t.Errorf("stage %s counts the cancellation as a failure", s.Name)
		}
	}
	n.wantUnknown()
}

// TestConcurrentUse makes the calls of the sampler while Run runs, so that the race detector can check them.
func TestConcurrentUse(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) { c.Poll = time.Millisecond })
	k := n.serve(holds(holder(trainer, "", gpuA)))
	n.link(trainer, id)
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.start(11, 5, "python3", cgroupPath(sidecar, otherID))
	n.run()
	var samplers sync.WaitGroup
	for range 3 {
		chain := owner.NewChain(proc.Tree{Root: n.path("proc")}, n.now, n.Mapper) // only one goroutine uses the chain, like the sampler
		samplers.Go(func() {
			for range 200 {
				for _, pid := range []uint32{10, 11, 12} {
					p, _ := chain.Process(pid)
					chain.Owner(p.ID)
				}
				n.Allocations()
				n.pass(time.Millisecond)
			}
		})
	}
	samplers.Wait()
	k.wait(t)
	wantOwner(t, n.process(10).Owner, trainer)
}

// BenchmarkRefresh measures one poll of a node with 500 known processes and 1,000 known containers that each hold a
// GPU. The time includes the work of the fake kubelet.
func BenchmarkRefresh(b *testing.B) {
	b.Run("links", func(b *testing.B) { benchmarkRefresh(b, false) })
	b.Run("pods-api", func(b *testing.B) { benchmarkRefresh(b, true) })
}

func benchmarkRefresh(b *testing.B, api bool) {
	n := newNode(b)
	n.crowd(api)
	n.poll()
	n.pass(time.Minute)
	n.poll()
	before := cpuTime(b)
	b.ReportAllocs()
	for b.Loop() {
		check(b, n.Refresh(b.Context()))
	}
	b.ReportMetric(float64((cpuTime(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
}

// crowd adds 1,000 pods and 500 processes to the node. A pod in the Pods API has 10 kB.
func (n *node) crowd(api bool) {
	n.t.Helper()
	var listed []*podresources.PodResources
	var pods [][]byte
	for i := range 1000 {
		uid := fmt.Sprintf("00000000-0000-0000-0000-%012d", i)
		id := fmt.Sprintf("%064x", i)
		c := gpu.Owner{Kind: gpu.OwnerPod, Scope: "bench", Name: fmt.Sprintf("pod-%d", i), UID: uid, Part: "main"}
		n.link(c, id)
		listed = append(listed, holder(c, "", fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", i)))
		pods = append(pods, append(apiPod(c, "Running", map[string]string{"main": id}), message(99, strings.Repeat("x", 10_000))...))
		if i < 500 {
			n.start(uint32(1000+i), uint64(i), "python3", cgroupPath(c, id))
		}
	}
	n.serve(holds(listed...))
	if api {
		n.servePods(pods...)
	}
}

// BenchmarkAllocations measures the call of Allocations that the sampler makes in every tick. There are 500 pods, and
// the call checks for each pod whether it is alive.
func BenchmarkAllocations(b *testing.B) {
	n := newNode(b)
	n.crowd(false)
	n.poll()
	b.ReportAllocs()
	for b.Loop() {
		n.Allocations()
	}
}

// BenchmarkProcess measures the lookup of a known process, which the sampler makes in every tick.
func BenchmarkProcess(b *testing.B) {
	n := newNode(b)
	n.link(trainer, id)
	pid := uint32(os.Getpid())
	n.start(pid, 5, "python3", cgroupPath(trainer, id))
	b.ReportAllocs()
	for b.Loop() {
		n.Process(pid)
	}
}
