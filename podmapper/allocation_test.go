package podmapper_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
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

func exclusive(uuid string, c gpu.Container, live bool) gpu.Allocation {
	return gpu.Allocation{
		Device: gpu.DeviceName{UUID: uuid}, Container: c, Resource: "nvidia.com/gpu",
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
				holder(notebook, "", "0:", "MIG-"+gpuA+"/1", "GPU-", "", strings.Repeat("x", 10_000)),
				holder(notebook, "rdma/hca", gpuA),
			),
			{Namespace: "home", Name: "no-containers"},
		}
		rand.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		return &podresources.ListPodResourcesResponse{PodResources: pods}, nil
	})
	shared := func(uuid string, c gpu.Container, replicas int, live bool) gpu.Allocation {
		return gpu.Allocation{
			Device: gpu.DeviceName{UUID: uuid}, Container: c, Resource: "nvidia.com/gpu.shared",
			Sharing: gpu.SharingTimeSlicing, Replicas: replicas, Live: live,
		}
	}
	for range 3 {
		n.poll()
		n.wantHeld(
			shared(gpuA, notebook, 2, false),
			exclusive(gpuA, trainer, true),
			shared(gpuA, trainer, 1, true),
			shared(gpuB, notebook, 1, false),
			exclusive(gpuB, trainer, true),
		)
	}
}

// The runtime starts a container's first process outside and moves it in.
func TestProcessThatMovesIntoItsContainer(t *testing.T) {
	n := newNode(t)
	n.serve(holds(holder(trainer, "", gpuA)))
	n.link(trainer, id)
	n.start(10, 5, "runc:[2:INIT]", "/system.slice/containerd.service")
	for range 3 {
		n.poll()
		n.wantHeld(exclusive(gpuA, trainer, false))
	}
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.pass(2 * time.Second)
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))

	n.pass(time.Minute)
	n.poll()
	n.start(10, 5, "python3", "/system.slice/never.read")
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))
}

func TestAnExitingProcessKeepsNoPodAlive(t *testing.T) {
	n := newNode(t)
	n.serve(holds(holder(trainer, "", gpuA)))
	n.link(trainer, id)
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.write("proc/10/stat", statLine(10, 5, "python3", 4))
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, false))
}

// From a private cgroup namespace no name can be seen of the kernel threads'
// cgroup, which is no trouble.
func TestKernelThreadsAreInNoPod(t *testing.T) {
	n := newNode(t)
	n.serve(holds())
	for pid := range uint32(3) {
		n.start(2+pid, 1, "kthread", "/../../../..")
		n.write(fmt.Sprintf("proc/%d/stat", 2+pid), statLine(2+pid, 1, "kthread", 0x208040))
	}
	n.poll()
	n.wantStage(stage.Processes, true)
}

func TestHostWithoutKubelet(t *testing.T) {
	n := newNode(t)
	n.remove("kubelet")
	n.pollFails("no kubelet on this host")
	n.wantStage(stage.PodResources, false)
	n.wantHeld()

	check(t, os.Mkdir(filepath.Dir(n.socket), 0o755)) // one is being installed
	n.pollFails("list pod resources")
	n.wantUnknown()
	n.remove("kubelet") // gone again, but this is a Kubernetes node now
	n.pollFails("list pod resources")
	n.wantUnknown()
}

// A machine that is said to have no Kubernetes waits for none, and is in no trouble.
func TestMachineWithoutKubernetes(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) { c.PodResources = "" })
	n.remove("containers")
	n.start(10, 5, "python3", "/system.slice/train.service")
	n.poll()
	n.wantHeld()
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

	k.stop() // the socket file stays and refuses connections
	n.pollFails("list pod resources")
	n.wantStage(stage.PodResources, false)
	n.wantHeld(exclusive(gpuA, trainer, false))

	n.link(notebook, otherID)
	n.serve(holds(holder(trainer, "", gpuA), holder(notebook, "", gpuB))) // a new inode
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
	wantOwner(t, n.process(10).Owner, trains)
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
			conns.Go(func() { talkNonsense(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); conns.Wait() })
	n.pollFails("list pod resources")
	n.wantStage(stage.PodResources, false)
	n.wantUnknown()
}

// talkNonsense answers with another protocol until the client hangs up.
func talkNonsense(conn net.Conn) {
	defer conn.Close()
	fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n\r\n\x00\xff nonsense")
	_, _ = io.Copy(io.Discard, conn)
}

func TestBigAnswer(t *testing.T) {
	n := newNode(t)
	pods := make([]*podresources.PodResources, 0, 20_001)
	for i := range 20_000 {
		c := gpu.Container{Namespace: strings.Repeat("n", 63), Pod: fmt.Sprintf("%s-%d", strings.Repeat("p", 200), i), Container: "c"}
		pods = append(pods, holder(c, "example.com/nic", fmt.Sprint(i)))
	}
	pods = append(pods, holder(trainer, "", gpuA))
	answer := &podresources.ListPodResourcesResponse{PodResources: pods}
	if len(answer.String()) < 4<<20 {
		t.Fatal("the answer is not big")
	}
	n.serve(holds(pods...))
	n.link(trainer, id)
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, false))
}

func TestNeverTwoCallsAtOnce(t *testing.T) {
	n := newNode(t)
	k := n.serve(func(context.Context) (*podresources.ListPodResourcesResponse, error) {
		<-time.After(10 * time.Millisecond) // for the others to come, if they may
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

// Devices of all kinds that the kubelet may list, each held by one container.
func TestKindsOfDevices(t *testing.T) {
	const mig = "MIG-7c8d9e0f-0102-0304-0506-0708090a0b0e"
	byUUID := func(uuid string) gpu.DeviceName { return gpu.DeviceName{UUID: uuid} }
	tests := []struct {
		name   string
		listed *podresources.PodResources
		want   gpu.Allocation
	}{
		{"whole", holder(trainer, "", gpuA), gpu.Allocation{Device: byUUID(gpuA), Resource: "nvidia.com/gpu", Sharing: gpu.SharingExclusive, Replicas: 1}},
		{"replicas", holder(trainer, "", gpuA+"::1", gpuA+"::0"), gpu.Allocation{Device: byUUID(gpuA), Resource: "nvidia.com/gpu", Sharing: gpu.SharingTimeSlicing, Replicas: 2}},
		{"MIG", holder(trainer, "nvidia.com/mig-1g.10gb", mig), gpu.Allocation{Device: byUUID(mig), Resource: "nvidia.com/mig-1g.10gb", Sharing: gpu.SharingMIG, Replicas: 1}},
		{"replicas of MIG", holder(trainer, "nvidia.com/mig-1g.10gb.shared", mig+"::0", mig+"::1"), gpu.Allocation{Device: byUUID(mig), Resource: "nvidia.com/mig-1g.10gb.shared", Sharing: gpu.SharingTimeSlicing, Replicas: 2}},
		{"old MIG", holder(trainer, "", "MIG-"+gpuA+"/7/0"), gpu.Allocation{Device: gpu.DeviceName{UUID: gpuA, MIG: &gpu.MIGName{Instance: "7"}}, Resource: "nvidia.com/gpu", Sharing: gpu.SharingMIG, Replicas: 1}},
		{"index", holder(trainer, "", "2"), gpu.Allocation{Device: gpu.DeviceName{Index: new(2)}, Resource: "nvidia.com/gpu", Sharing: gpu.SharingExclusive, Replicas: 1}},
		{"MIG by index", holder(trainer, "", "2:0"), gpu.Allocation{Device: gpu.DeviceName{Index: new(2), MIG: &gpu.MIGName{Ordinal: new(0)}}, Resource: "nvidia.com/gpu", Sharing: gpu.SharingMIG, Replicas: 1}},
		{"claim", claimer(trainer, "mine", "gpu-1"), gpu.Allocation{Device: gpu.DeviceName{Minor: new(1)}, Claim: "mine", Sharing: gpu.SharingExclusive, Replicas: 1}},
		{"claim of MIG", claimer(trainer, "mine", "gpu-1-mig-1g10gb-19-3"), gpu.Allocation{
			Device: gpu.DeviceName{Minor: new(1), MIG: &gpu.MIGName{ProfileID: new(19), Start: new(3)}}, Claim: "mine", Sharing: gpu.SharingMIG, Replicas: 1,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.link(trainer, id)
			n.serve(holds(tt.listed))
			n.poll()
			tt.want.Container = trainer
			n.wantHeld(tt.want)
		})
	}
}

// Who holds the same claimed device shares it, be it by one claim or by several.
func TestSharedClaims(t *testing.T) {
	n := newNode(t)
	n.link(trainer, id)
	n.link(notebook, otherID)
	part := claimer(notebook, "part", "gpu-3")
	part.Containers[0].DynamicResources[0].ClaimResources[0].ShareId = new("a671734a-e8e5-11e4-8fde-42010af09327")
	n.serve(holds(
		together(claimer(trainer, "ours", "gpu-1", "gpu-2", "gpu-vfio-0"), claimer(sidecar, "twice", "gpu-4"), claimer(sidecar, "again", "gpu-4")),
		together(claimer(notebook, "ours", "gpu-1"), claimer(notebook, "monitor", "gpu-2"), part),
	))
	held := func(minor int, c gpu.Container, claim string) gpu.Allocation {
		return gpu.Allocation{
			Device: gpu.DeviceName{Minor: &minor}, Container: c, Claim: claim,
			Sharing: gpu.SharingTimeSlicing, Replicas: 1,
		}
	}
	alone := func(claim string) gpu.Allocation {
		a := held(4, sidecar, claim)
		a.Sharing = gpu.SharingExclusive
		return a
	}
	n.poll()
	n.wantHeld(
		held(1, notebook, "ours"), held(1, trainer, "ours"),
		held(2, notebook, "monitor"), held(2, trainer, "ours"),
		held(3, notebook, "part"),
		alone("again"), alone("twice"),
	)
}

// Which of a claim's devices each container of a pod has cannot be told.
func TestClaimOfSeveralContainers(t *testing.T) {
	const claim = "train-0-extended-resources-x7k2p"
	n := newNode(t)
	two := claimer(trainer, claim, "gpu-0", "gpu-1")
	two.Containers = append(two.Containers, claimer(sidecar, claim, "gpu-0", "gpu-1").Containers...)
	two.Containers = append(two.Containers, claimer(sidecar, "mine", "gpu-2").Containers...)
	served := message(2, claim, 1, message(1, "trainer", 2, "nvidia.com/gpu"), 1, message(1, "sidecar", 2, "nvidia.com/gpu"))
	n.servePods(append(apiPod(trainer, "Running", nil, "sidecar"), message(3, message(18, served))...), apiPod(notebook, "Running", nil))
	held := func(minor int, c gpu.Container, sharing gpu.Sharing) gpu.Allocation {
		return gpu.Allocation{
			Device: gpu.DeviceName{Minor: &minor}, Container: c, Claim: claim,
			Resource: "nvidia.com/gpu", Sharing: sharing, Replicas: 1, Live: true,
		}
	}
	anyOf := trainer
	anyOf.Container = ""
	mine := held(2, sidecar, gpu.SharingExclusive)
	mine.Resource, mine.Claim = "", "mine"
	n.answer(two)
	n.poll()
	n.wantHeld(held(0, anyOf, gpu.SharingExclusive), held(1, anyOf, gpu.SharingExclusive), mine)

	other := held(1, notebook, gpu.SharingTimeSlicing)
	other.Resource = ""
	n.answer(two, claimer(notebook, claim, "gpu-1"))
	n.poll()
	n.wantHeld(held(0, anyOf, gpu.SharingExclusive), other, held(1, anyOf, gpu.SharingTimeSlicing), mine)
}

func TestResources(t *testing.T) {
	tests := []struct {
		resource, id string
		pattern      string // the default if empty
		want         bool
	}{
		{"nvidia.com/gpu", gpuA, "", true},
		{"nvidia.com/gpu.shared", gpuA + "::0", "", true},
		{"nvidia.com/mig-1g.10gb", gpuA, "", true},
		{"nvidia.com/gpu-a100", gpuA, "", true},
		{"nvidia.com/GA100_A100_PCIE_40GB", "37", "", false}, // passed through: an IOMMU group
		{"nvidia.com/pgpu", "37", "", false},
		{"nvidia.com/hostdev", "0000:03:00.2", "", false},
		{"example.com/nvidia.com/gpu", gpuA, "", false},
		{"amd.com/gpu", "0000:0b:00.0", "", false},
		{"amd.com/gpu", "0000:0b:00.0", `^(amd|nvidia)\.com/gpu$`, true},
		{"nvidia.com/a100", gpuA, `^nvidia\.com/a100$`, true},
		{"nvidia.com/gpu", gpuA, `^nvidia\.com/a100$`, false},
	}
	for _, tt := range tests {
		t.Run(tt.resource+" "+tt.pattern, func(t *testing.T) {
			n := newNode(t, func(c *podmapper.Config) {
				if tt.pattern != "" {
					c.Resources = regexp.MustCompile(tt.pattern)
				}
			})
			n.serve(holds(holder(trainer, tt.resource, tt.id)))
			n.poll()
			if got := len(n.Allocations().List) == 1; got != tt.want {
				t.Errorf("held = %v, want %v", got, tt.want)
			}
		})
	}
}

// Kubernetes before 1.20 has no version v1 of the API.
func TestOldKubelet(t *testing.T) {
	n := newNode(t)
	n.serveAt(n.socket, func(*grpc.Server) {})
	n.pollFails("this kubelet is too old")
	n.wantStage(stage.PodResources, false)
	n.wantUnknown()
}
