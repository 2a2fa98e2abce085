package podmapper_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	podsapi "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/podmapper"
)

type podServer struct {
	podsapi.UnimplementedPodsServer
	pods atomic.Pointer[[][]byte]
	err  error
	stop func()
}

func (s *podServer) ListPods(context.Context, *podsapi.ListPodsRequest) (*podsapi.ListPodsResponse, error) {
	return &podsapi.ListPodsResponse{Pods: *s.pods.Load()}, s.err
}

func (n *node) servePods(pods ...[]byte) *podServer {
	n.t.Helper()
	s := &podServer{}
	s.pods.Store(&pods)
	s.stop = n.serveAt(n.api, func(g *grpc.Server) { podsapi.RegisterPodsServer(g, s) })
	return s
}

func (s *podServer) now(pods ...[]byte) { s.pods.Store(&pods) }

// message marshals fields that are strings or messages. The arguments alternate between field numbers and values.
func message(fields ...any) []byte {
	var data []byte
	for i := 0; i < len(fields); i += 2 {
		data = protowire.AppendTag(data, protowire.Number(fields[i].(int)), protowire.BytesType)
		switch v := fields[i+1].(type) {
		case string:
			data = protowire.AppendString(data, v)
		case []byte:
			data = protowire.AppendBytes(data, v)
		}
	}
	return data
}

// apiPod returns a pod with the container c and the containers in others. ids contains container ids by container name.
// Other containers have no id yet.
func apiPod(c gpu.Owner, phase string, ids map[string]string, others ...string) []byte {
	spec := message(2, message(1, c.Part))
	for _, name := range others {
		spec = append(spec, message(2, message(1, name))...)
	}
	state := message(1, phase)
	for name, id := range ids {
		state = append(state, message(8, message(1, name, 2, message(2, ""), 8, "containerd://"+id))...)
	}
	return message(1, message(1, c.Name, 3, c.Scope, 5, c.UID), 2, spec, 3, state)
}

func TestPodsAPINames(t *testing.T) {
	n := newNode(t)
	static := trainer
	static.UID = strings.Repeat("e", 32)
	n.serve(holds(holder(trainer, "", gpuA)))
	n.servePods(
		apiPod(static, "Running", map[string]string{"trainer": id}, "sidecar"),
		apiPod(notebook, "Running", map[string]string{"jupyter": "short"}),
	)
	n.start(10, 5, "python3", cgroupPath(static, id))
	n.start(11, 5, "python3", cgroupPath(static, otherID))
	n.poll()
	n.wantStage(stage.PodsAPI, true)
	wantOwner(t, n.process(10).Owner, static)
	wantOwner(t, n.process(11).Owner, gpu.Owner{})
	n.wantHeld(exclusive(gpuA, static, true))
}

// TestOnlyContainer checks a process with an unknown container id. If a response of the Pods API contains only one
// container of the pod, the process is attributed to this container. The response must be newer than the first
// observation of the process, because an older response may lack a debug container.
func TestOnlyContainer(t *testing.T) {
	sandbox := strings.Repeat("5", 64)
	unnamed := gpu.Owner{}
	debugger := trainer
	debugger.Part = "debugger"
	alone := apiPod(trainer, "Running", map[string]string{"trainer": id})
	tests := []struct {
		name string
		now  []byte
		want gpu.Owner
	}{
		{"only container", alone, trainer},
		{"not started", apiPod(trainer, "Running", nil), unnamed},
		{"a debugger is starting", append(alone, message(2, message(34, message(1, message(1, "debugger"))))...), unnamed},
		{
			"a debugger", apiPod(trainer, "Running", map[string]string{"trainer": id, "debugger": sandbox}),
			debugger,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.serve(holds())
			api := n.servePods(alone)
			n.poll()
			n.start(12, 5, "runsc-sandbox", cgroupPath(trainer, sandbox))
			wantOwner(t, n.process(12).Owner, unnamed)
			n.pass(time.Second)
			wantOwner(t, n.process(12).Owner, unnamed)
			api.now(tt.now)
			n.poll()
			wantOwner(t, n.process(12).Owner, tt.want)
		})
	}
}

func TestPodsAPILiveness(t *testing.T) {
	n := newNode(t)
	n.serve(holds(holder(trainer, "", gpuA)))
	n.start(10, 5, "python3", cgroupPath(trainer, id)) // this process runs until the end of the test
	api := n.servePods(apiPod(notebook, "Running", nil))
	n.poll()
	n.wantHeld(exclusive(gpuA, withoutUID, false))
	for phase, live := range map[string]bool{"Pending": true, "Running": true, "Succeeded": false, "Failed": false} {
		api.now(apiPod(trainer, phase, nil))
		n.poll()
		n.wantHeld(exclusive(gpuA, trainer, live))
	}
	n.exit(10)
	api.now(apiPod(trainer, "Pending", nil))
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))
}

// TestPodsAPIAndARecreatedPod replaces a pod by another pod with the same name between two responses of the Pods API.
// The kubelet's list, which is requested between these responses, may contain either pod.
func TestPodsAPIAndARecreatedPod(t *testing.T) {
	n := newNode(t)
	n.serve(holds(holder(trainer, "", gpuA)))
	api := n.servePods(apiPod(trainer, "Running", nil))
	n.link(trainer, id)
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))

	api.now(apiPod(reborn, "Running", nil))
	n.poll()
	n.wantHeld(exclusive(gpuA, withoutUID, false))
	n.poll()
	n.wantHeld(exclusive(gpuA, reborn, true))

	api.now(apiPod(reborn, "Failed", nil), apiPod(trainer, "Running", nil))
	n.poll()
	n.wantHeld(exclusive(gpuA, withoutUID, false))
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))
	api.now(apiPod(reborn, "Running", nil), apiPod(trainer, "Running", nil))
	n.poll()
	n.wantHeld(exclusive(gpuA, withoutUID, false))

	api.now(apiPod(trainer, "Running", nil))
	n.poll()
	n.wantHeld(exclusive(gpuA, withoutUID, false))
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))
}

// TestPodsAPIFails checks that the mapper uses the other sources and the previous response while the Pods API does not
// respond.
func TestPodsAPIFails(t *testing.T) {
	tests := []struct {
		name string
		fail func(*podServer)
		want string
	}{
		{"not ready", func(s *podServer) { s.err = status.Error(codes.FailedPrecondition, "Kubelet is initializing") }, "Kubelet is initializing"},
		{"down", func(s *podServer) { s.stop() }, "list pods"},
		{"garbage", func(s *podServer) { s.now(apiPod(trainer, "Running", nil), []byte("\xff")) }, "decode pod"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.serve(holds(holder(trainer, "", gpuA)))
			api := n.servePods(apiPod(trainer, "Running", nil))
			n.link(trainer, id)
			n.poll()
			n.wantHeld(exclusive(gpuA, trainer, true))

			tt.fail(api)
			n.pollFails(tt.want)
			n.wantStage(stage.PodsAPI, false)
			n.wantStage(stage.PodResources, true)
			n.wantHeld(exclusive(gpuA, trainer, false))
			n.start(10, 5, "python3", cgroupPath(trainer, id))
			n.pollFails(tt.want)
			n.wantHeld(exclusive(gpuA, trainer, true))

			n.answer(holder(trainer, "", gpuB)) // these devices belong to another pod, because they differ from the stored devices
			n.pollFails(tt.want)
			n.wantHeld(exclusive(gpuB, withoutUID, false))
		})
	}
}

// TestPodsAPIWithOddPods checks that malformed pods are ignored. An example is a static pod whose manifest contains an
// arbitrary UID.
func TestPodsAPIWithOddPods(t *testing.T) {
	odd := notebook
	odd.UID = "made by hand"
	n := newNode(t)
	n.serve(holds(holder(trainer, "", gpuA), holder(notebook, "", gpuB)))
	n.servePods(apiPod(odd, "Running", nil), apiPod(trainer, "Running", nil), nil)
	n.poll()
	odd.UID = ""
	n.wantHeld(exclusive(gpuA, trainer, true), exclusive(gpuB, odd, false))
}

// TestNoPodsAPI checks a kubelet without the Pods API. The directory of the socket may exist nevertheless, because a
// mount may have created it.
func TestNoPodsAPI(t *testing.T) {
	n := newNode(t)
	n.serve(holds())
	n.poll()
	for _, s := range n.stages.Snapshot() {
		if s.Name == string(stage.PodsAPI) {
			t.Error("a missing Pods API was called")
		}
	}
}

func TestBigAnswerOfThePodsAPI(t *testing.T) {
	n := newNode(t)
	n.serve(holds(holder(trainer, "", gpuA)))
	big := append(apiPod(notebook, "Running", nil), message(99, strings.Repeat("x", 1<<20))...)
	n.servePods(big, big, big, big, big, big, apiPod(trainer, "Running", nil))
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, true))
}

// TestExtendedResource checks a container that requests nvidia.com/gpu and gets a device from DRA. The Pods API reports
// the claim for this request.
func TestExtendedResource(t *testing.T) {
	n := newNode(t)
	n.serve(holds(claimer(trainer, "train-0-extended-resources-x7k2p", "gpu-1")))
	served := message(2, "train-0-extended-resources-x7k2p", 1, message(1, "trainer", 2, "nvidia.com/gpu", 3, "request-0"))
	api := n.servePods(append(apiPod(trainer, "Running", nil), message(3, message(18, served))...))
	want := gpu.Allocation{
		Device: gpu.DeviceName{Node: "nvidia1"}, Owner: trainer, Resource: "nvidia.com/gpu",
		Claim: "train-0-extended-resources-x7k2p", Sharing: gpu.SharingExclusive, Replicas: 1, Live: true,
	}
	n.poll()
	n.wantHeld(want)
	api.now(apiPod(trainer, "Running", nil))
	n.poll()
	want.Resource = ""
	n.wantHeld(want)
}

// claimer returns a pod with one container that holds devices through a claim.
func claimer(c gpu.Owner, claim string, names ...string) *podresources.PodResources {
	r := &podresources.DynamicResource{ClaimName: claim, ClaimNamespace: c.Scope}
	for _, name := range names {
		r.ClaimResources = append(r.ClaimResources, &podresources.ClaimResource{
			DriverName: "gpu.nvidia.com", PoolName: "node-1", DeviceName: name,
		})
	}
	return &podresources.PodResources{Namespace: c.Scope, Name: c.Name, Containers: []*podresources.ContainerResources{
		{Name: c.Part, DynamicResources: []*podresources.DynamicResource{r}},
	}}
}

// TestPodLogs checks that the mapper reads a pod's UID and its only container from the log directories if the runtime
// writes no log files.
func TestPodLogs(t *testing.T) {
	dir := func(c gpu.Owner) string {
		return fmt.Sprintf("pods/%s_%s_%s/%s/0.log", c.Scope, c.Name, c.UID, c.Part)
	}
	initContainer := trainer
	initContainer.Part = "fetch"
	two := holder(trainer, "", gpuA)
	two.Containers = append(two.Containers, &podresources.ContainerResources{Name: "sidecar"})
	other := gpu.Owner{}
	tests := []struct {
		name   string
		listed *podresources.PodResources
		logs   []gpu.Owner
		owner  gpu.Owner
	}{
		{"only container", holder(trainer, "", gpuA), []gpu.Owner{trainer}, trainer},
		{"beside another pod", holder(trainer, "", gpuA), []gpu.Owner{trainer, notebook}, trainer},
		{"first of two pods with the name", two, []gpu.Owner{trainer}, other},
		{"init container", holder(trainer, "", gpuA), []gpu.Owner{initContainer}, other},
		{"after an init container", holder(trainer, "", gpuA), []gpu.Owner{initContainer, trainer}, other},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, func(c *podmapper.Config) {
				c.PodLogs = c.ContainerLogs[:len(c.ContainerLogs)-len("containers")] + "pods"
			})
			n.serve(holds(tt.listed))
			for _, c := range tt.logs {
				n.write(dir(c), "")
			}
			n.write("pods/lost+found/x", "")
			n.start(10, 5, "python3", cgroupPath(trainer, id))
			n.poll()
			n.wantHeld(exclusive(gpuA, trainer, true))
			wantOwner(t, n.process(10).Owner, tt.owner)
		})
	}
}

// TestPodLogsWithoutLinks checks a node without the directory of log links. The mapper must report an error, but must
// still read the log directories.
func TestPodLogsWithoutLinks(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) {
		c.PodLogs, c.ContainerLogs = c.ContainerLogs[:len(c.ContainerLogs)-len("containers")]+"pods", ""
	})
	n.serve(holds(holder(trainer, "", gpuA)))
	n.write(fmt.Sprintf("pods/%s_%s_%s/%s/0.log", trainer.Scope, trainer.Name, trainer.UID, trainer.Part), "")
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.pollFails("list container logs")
	n.wantStage(stage.ContainerLogs, false)
	n.wantHeld(exclusive(gpuA, trainer, true))
	wantOwner(t, n.process(10).Owner, trainer)
}

// TestPodLogsAfterLinks checks that the name of a pod without log links stays known while its log directory exists.
func TestPodLogsAfterLinks(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) {
		c.PodLogs = c.ContainerLogs[:len(c.ContainerLogs)-len("containers")] + "pods"
	})
	n.serve(holds(holder(trainer, "", gpuA)))
	n.write(fmt.Sprintf("pods/%s_%s_%s/%s/0.log", trainer.Scope, trainer.Name, trainer.UID, trainer.Part), "")
	link := n.link(trainer, id)
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, false))
	n.remove(link)
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, false))
}

func TestPodLogsOfARecreatedPod(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) {
		c.PodLogs = c.ContainerLogs[:len(c.ContainerLogs)-len("containers")] + "pods"
	})
	n.serve(holds(holder(trainer, "", gpuA)))
	n.poll()
	n.wantHeld(exclusive(gpuA, withoutUID, false)) // a missing root of the log directories is not an error
	n.write("pods", "")
	n.pollFails("list pod logs")
	n.wantStage(stage.ContainerLogs, false)
	n.remove("pods")
	n.write("pods/ml-team_train-0_"+uid+"/trainer/0.log", "")
	n.write("pods/ml-team_train-0_"+otherUID+"/trainer/0.log", "")
	n.poll()
	n.wantHeld(exclusive(gpuA, withoutUID, false))
	n.start(10, 5, "python3", cgroupPath(reborn, id))
	n.poll()
	n.wantHeld(exclusive(gpuA, reborn, true))
	n.remove("pods/ml-team_train-0_" + otherUID)
	n.exit(10)
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, false))
}

// TestRunPollsForAnUnknownContainer checks that a container without a link is identified through the Pods API as soon
// as its process appears.
func TestRunPollsForAnUnknownContainer(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) { c.Poll = time.Hour })
	check(t, os.RemoveAll(n.path("containers")))
	k := n.serve(holds())
	api := n.servePods()
	n.run()
	n.waitPolled()
	k.wait(t)
	p := n.start(10, 5, "python3", cgroupPath(trainer, id))
	api.now(apiPod(trainer, "Running", map[string]string{"trainer": id}, "sidecar"))
	wantOwner(t, n.process(10).Owner, pending)
	k.wait(t)
	if err := n.Refresh(context.Background()); errors.Is(err, context.Canceled) { // Refresh waits until a poll in progress has ended
		t.Error(err)
	}
	wantOwner(t, n.Owner(p), trainer)
}
