package podmapper_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/podmapper"
)

const (
	gpuA = "GPU-5a6b7c8d-0102-0304-0506-0708090a0b0c"
	gpuB = "GPU-6b7c8d9e-0102-0304-0506-0708090a0b0d"
)

func exclusive(uuid string, c gpu.Owner, live bool) gpu.Allocation {
	return gpu.Allocation{
		Device: gpu.DeviceName{UUID: uuid}, Owner: c, Resource: "nvidia.com/gpu",
		Sharing: gpu.SharingExclusive, Replicas: 1, Live: live,
	}
}

func (n *node) wantHeld(want ...gpu.Allocation) {
	n.t.Helper()
	got := n.Allocations()
	if !got.Known {
		n.t.Fatal("allocations are not known")
	}
	if len(want) == 0 {
		want = got.List[:0]
	}
	if diff := cmp.Diff(want, got.List); diff != "" {
		n.t.Errorf("allocations (-want +got):\n%s", diff)
	}
}

func (n *node) wantUnknown() {
	n.t.Helper()
	if got := n.Allocations(); got.Known || len(got.List) > 0 {
		n.t.Errorf("allocations = %+v, want unknown", got)
	}
}

func TestAllocations(t *testing.T) {
	n := newNode(t)
	n.wantUnknown()
	n.link(trainer, id)
	n.link(notebook, otherID)
	n.start(9, 4, "pause", "/kubepods/burstable/pod"+uid+"/"+strings.Repeat("9", 64))
	n.serve(func(context.Context) (*podresources.ListPodResourcesResponse, error) {
		pods := []*podresources.PodResources{
			together(holder(trainer, "", gpuB), holder(trainer, "", gpuA, gpuA), holder(trainer, "nvidia.com/gpu.shared", gpuA+"::2")),
			together(
				holder(notebook, "nvidia.com/gpu.shared", gpuA+"::0", gpuA+"::3", gpuA+"::3", gpuB+"::1"),
				holder(notebook, "", "0:", "MIG-"+gpuA+"/1"),
				holder(notebook, "rdma/hca", gpuA),
			),
			{Namespace: "home", Name: "no-containers"},
		}
		rand.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		return &podresources.ListPodResourcesResponse{PodResources: pods}, nil
	})
	shared := func(uuid string, c gpu.Owner, replicas int, live bool) gpu.Allocation {
		return gpu.Allocation{
			Device: gpu.DeviceName{UUID: uuid}, Owner: c, Resource: "nvidia.com/gpu.shared",
			Sharing: gpu.SharingTimeSlicing, Replicas: replicas, Live: live,
		}
	}
	notUnderstood := exclusive("", notebook, false)
	for range 3 {
		n.poll()
		n.wantHeld(
			notUnderstood,
			shared(gpuA, notebook, 2, false),
			exclusive(gpuA, trainer, true),
			shared(gpuA, trainer, 1, true),
			shared(gpuB, notebook, 1, false),
			exclusive(gpuB, trainer, true),
			notUnderstood,
		)
	}
}

// TestHostWithoutKubelet checks a node on which the directory of the kubelet's socket is missing. This does not prove
// that there is no kubelet, because the exporter's pod may lack a mount.
func TestHostWithoutKubelet(t *testing.T) {
	n := newNode(t)
	n.remove("kubelet")
	n.pollFails("no kubelet on this host")
	n.wantStage(stage.PodResources, false)
	n.wantUnknown()

	check(t, os.Mkdir(filepath.Dir(n.socket), 0o755)) // Kubernetes is being installed
	n.pollFails("list pod resources")
	n.wantUnknown()
}

// TestMachineWithoutKubernetes checks a mapper that is configured without Kubernetes. It must not wait for a kubelet,
// and no stage may be down.
func TestMachineWithoutKubernetes(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) { c.PodResources = "" })
	n.remove("containers")
	n.start(10, 5, "python3", "/system.slice/train.service")
	n.poll()
	n.wantHeld()
	if !n.Allocations().Optional {
		t.Error("there is a kubelet")
	}
	if p := n.process(10); p.Owner.Kind != gpu.OwnerHost {
		t.Errorf("owner is %v, want the host", p.Owner)
	}
	for _, s := range n.stages.Snapshot() {
		if !s.Up || s.Name == string(stage.PodResources) || s.Name == string(stage.ContainerLogs) {
			t.Errorf("stage %+v", s)
		}
	}
}

func TestKubeletRestart(t *testing.T) {
	n := newNode(t)
	n.link(trainer, id)
	k := n.serve(holds(holder(trainer, "", gpuA)))
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, false))

	k.stop() // the socket file remains and refuses connections
	n.pollFails("list pod resources")
	n.wantStage(stage.PodResources, false)
	n.wantHeld(exclusive(gpuA, trainer, false))

	n.link(notebook, otherID)
	n.serve(holds(holder(trainer, "", gpuA), holder(notebook, "", gpuB))) // the new socket has another inode
	n.poll()
	n.wantStage(stage.PodResources, true)
	n.wantHeld(exclusive(gpuA, trainer, false), exclusive(gpuB, notebook, false))
}

func TestAnswerGrowsOld(t *testing.T) {
	n := newNode(t)
	k := n.serve(holds())
	n.poll()
	k.stop()
	n.pass(30 * time.Second)
	n.pollFails("list pod resources")
	n.wantHeld()
	n.pass(time.Second)
	n.wantUnknown()
}

func TestHangingKubelet(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) { c.Poll = 50 * time.Millisecond })
	n.link(trainer, id)
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.serve(func(ctx context.Context) (*podresources.ListPodResourcesResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	n.pollFails("list pod resources")
	n.wantStage(stage.PodResources, false)
	n.wantStage(stage.ContainerLogs, true)
	n.wantStage(stage.Processes, true)
	n.wantUnknown()
	wantOwner(t, n.process(10).Owner, trainer)
}

func TestGarbageFromTheKubelet(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) { c.Poll = 200 * time.Millisecond })
	listener := n.listen(n.socket)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { serveGarbage(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); conns.Wait() })
	n.pollFails("list pod resources")
	n.wantStage(stage.PodResources, false)
	n.wantUnknown()
}

func serveGarbage(conn net.Conn) {
	defer conn.Close()
	fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n\r\n\x00\xff nonsense")
	_, _ = io.Copy(io.Discard, conn)
}

// TestRequestTime checks that the time of a list is the time of its request and not of the response. An allocation that
// was made between these times may be missing from the list.
func TestRequestTime(t *testing.T) {
	n := newNode(t)
	n.link(trainer, id)
	answer := error(nil)
	n.serve(func(context.Context) (*podresources.ListPodResourcesResponse, error) {
		n.pass(time.Second) // simulates a slow call
		return &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{holder(trainer, "", gpuA)}}, answer
	})
	began := n.now().Boot
	n.poll()
	if got := n.Allocations().Requested; got != began {
		t.Errorf("requested at %v, want %v", got, began)
	}
	answer = errors.New("not now")
	n.pollFails("not now")
	if got := n.Allocations().Requested; got != began {
		t.Errorf("after a failed call: requested at %v, want %v", got, began)
	}
}

func TestBigAnswer(t *testing.T) {
	n := newNode(t)
	pods := make([]*podresources.PodResources, 0, 1_001)
	for i := range 1_000 {
		c := gpu.Owner{Kind: gpu.OwnerPod, Scope: "team", Name: fmt.Sprintf("p-%d", i), Part: "c"}
		pods = append(pods, holder(c, "example.com/nic", strings.Repeat("n", 5_000)))
	}
	pods = append(pods, holder(trainer, "", gpuA))
	answer := &podresources.ListPodResourcesResponse{PodResources: pods}
	if len(answer.String()) < 4<<20 {
		t.Fatal("the response is smaller than gRPC's own limit")
	}
	n.serve(holds(pods...))
	n.link(trainer, id)
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, false))
}

func TestNeverTwoCallsAtOnce(t *testing.T) {
	n := newNode(t)
	k := n.serve(func(context.Context) (*podresources.ListPodResourcesResponse, error) {
		<-time.After(10 * time.Millisecond) // gives concurrent calls time to start
		return &podresources.ListPodResourcesResponse{}, nil
	})
	var polls sync.WaitGroup
	for range 8 {
		polls.Go(func() {
			if err := n.Refresh(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	polls.Wait()
	if most := k.most.Load(); most != 1 {
		t.Errorf("%d calls at once, want 1", most)
	}
}

// TestOldKubelet checks the error for a kubelet before 1.20, which does not support version v1 of the API.
func TestOldKubelet(t *testing.T) {
	n := newNode(t)
	n.serveAt(n.socket, func(*grpc.Server) {})
	n.pollFails("this kubelet is too old")
	n.wantStage(stage.PodResources, false)
	n.wantUnknown()
}

// TestSilentKubelet checks that only the UIDs of live pods are known when the list is stale. This includes the UIDs of
// pods that the list never contained.
func TestSilentKubelet(t *testing.T) {
	n := newNode(t)
	k := n.serve(holds(holder(trainer, "", gpuA)))
	n.link(trainer, id)
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.poll()
	k.stop()
	n.pass(31 * time.Second)
	n.start(11, 6, "python3", cgroupPath(notebook, id))
	n.pollFails("list pod resources")
	wantAlive := func(want map[string]bool) {
		t.Helper()
		a := n.Allocations()
		if a.Known || len(a.List) > 0 {
			t.Errorf("allocations while the kubelet does not respond: %+v", a)
		}
		if diff := cmp.Diff(want, a.Alive); diff != "" {
			t.Errorf("live pods (-want +got):\n%s", diff)
		}
	}
	wantAlive(map[string]bool{trainer.UID: true, notebook.UID: true})
	n.exit(10)
	wantAlive(map[string]bool{notebook.UID: true})
}
