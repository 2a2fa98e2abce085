package podmapper_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/owner"
	"github.com/gpuledger/gpuledger/internal/proc"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/podmapper"
)

const bootTime = 1_700_000_000

// A node simulates a machine with files: a /proc tree, a directory of log links, and the kubelet's socket. The node's
// mapper uses a test clock.
type node struct {
	t      testing.TB
	dir    string
	socket string
	api    string // path of the socket of the Pods API
	stages *stage.Set
	uptime atomic.Int64 // time on the test clock, in nanoseconds since boot
	*podmapper.Mapper
	*owner.Chain
}

func newNode(t testing.TB, change ...func(*podmapper.Config)) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{t: t, dir: dir, socket: filepath.Join(dir, "kubelet", "sock"), api: filepath.Join(dir, "api")} // the path of a socket has at most 107 bytes
	n.uptime.Store(int64(time.Hour))
	n.stages = stage.New(slog.New(slog.DiscardHandler), n.now)
	cfg := podmapper.Config{
		ProcFS:        n.path("proc"),
		ContainerLogs: n.path("containers"),
		PodResources:  n.socket,
		PodsAPI:       n.api,
		Poll:          10 * time.Second,
		Now:           n.now,
		Log:           slog.New(slog.DiscardHandler),
		Stages:        n.stages,
	}
	for _, c := range change {
		c(&cfg)
	}
	n.Mapper = podmapper.New(cfg)
	n.Chain = owner.NewChain(proc.Tree{Root: cfg.ProcFS}, n.now, n.Mapper)
	n.write("proc/stat", fmt.Sprintf("cpu  1 2 3 4 5 6 7 8 9 10\nbtime %d\n", bootTime))
	n.namespace(hostPIDs)
	check(t, os.MkdirAll(n.path("containers"), 0o755))
	check(t, os.MkdirAll(filepath.Dir(n.socket), 0o755))
	return n
}

const hostPIDs = "pid:[4026531836]"

func (n *node) namespace(name string) {
	n.t.Helper()
	n.remove("proc/self/ns")
	check(n.t, os.MkdirAll(n.path("proc/self/ns"), 0o755))
	check(n.t, os.Symlink(name, n.path("proc/self/ns/pid")))
}

func (n *node) now() gpu.Instant {
	boot := time.Duration(n.uptime.Load())
	return gpu.Instant{Wall: time.Unix(bootTime, 0).Add(boot), Boot: boot}
}

func (n *node) pass(d time.Duration) { n.uptime.Add(int64(d)) }

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

// write replaces a file atomically, because files in /proc also change atomically.
func (n *node) write(name, content string) {
	n.t.Helper()
	check(n.t, os.MkdirAll(filepath.Dir(n.path(name)), 0o755))
	check(n.t, os.WriteFile(n.path("new"), []byte(content), 0o644))
	check(n.t, os.Rename(n.path("new"), n.path(name)))
}

func (n *node) remove(name string) {
	n.t.Helper()
	check(n.t, os.RemoveAll(n.path(name)))
}

// start creates a process in a cgroup (cgroup v2).
func (n *node) start(pid uint32, ticks uint64, name, cgroup string) gpu.ProcessID {
	n.t.Helper()
	n.write(fmt.Sprintf("proc/%d/stat", pid), statLine(pid, ticks, name, 0))
	n.write(fmt.Sprintf("proc/%d/cgroup", pid), "0::"+cgroup+"\n")
	return gpu.ProcessID{PID: pid, Start: ticks}
}

func (n *node) exit(pid uint32) { n.remove(fmt.Sprintf("proc/%d", pid)) }

func statLine(pid uint32, ticks uint64, name string, flags int) string {
	return fmt.Sprintf("%d (%s) S 1 %d %d 0 -1 %d 0 0 0 0 1 2 0 0 20 0 1 0 %d 4096 1 18446744073709551615\n",
		pid, name, pid, pid, flags, ticks)
}

// link creates the kubelet's log link for a container, and returns its name.
func (n *node) link(c gpu.Owner, id string) string {
	n.t.Helper()
	name := fmt.Sprintf("%s_%s_%s-%s", c.Name, c.Scope, c.Part, id)
	name = "containers/" + name[:min(len(name), 251)] + ".log"
	target := fmt.Sprintf("/var/log/pods/%s_%s_%s/%s/0.log", c.Scope, c.Name, c.UID, c.Part)
	check(n.t, os.Symlink(target, n.path(name)))
	return name
}

func (n *node) process(pid uint32) gpu.Process {
	n.t.Helper()
	p, ok := n.Process(pid)
	if !ok {
		n.t.Fatalf("Process(%d): the process does not exist", pid)
	}
	return p
}

func (n *node) poll() {
	n.t.Helper()
	check(n.t, n.Refresh(context.Background()))
}

func (n *node) pollFails(words string) {
	n.t.Helper()
	if err := n.Refresh(context.Background()); err == nil || !strings.Contains(err.Error(), words) {
		n.t.Errorf("Refresh = %v, want an error with %q", err, words)
	}
}

// cgroupPath returns the path that the cgroupfs driver creates for a container.
func cgroupPath(c gpu.Owner, id string) string {
	return "/kubepods/burstable/pod" + c.UID + "/" + id
}

type kubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	answer func(context.Context) (*podresources.ListPodResourcesResponse, error)
	calls  chan struct{} // receives a value for each call, unless the channel is full
	busy   atomic.Int32
	most   atomic.Int32 // maximum number of concurrent calls

	stop func()
}

// serve starts a kubelet that responds with the function answer. The kubelet runs until it is stopped or the test ends.
func (n *node) serve(answer func(context.Context) (*podresources.ListPodResourcesResponse, error)) *kubelet {
	n.t.Helper()
	k := &kubelet{answer: answer, calls: make(chan struct{}, 100)}
	k.stop = n.serveAt(n.socket, func(s *grpc.Server) { podresources.RegisterPodResourcesListerServer(s, k) })
	return k
}

// serveAt starts a gRPC server. The server runs until it is stopped or the test ends.
func (n *node) serveAt(socket string, register func(*grpc.Server)) (stop func()) {
	n.t.Helper()
	server := grpc.NewServer()
	register(server)
	served := make(chan error, 1)
	listener := n.listen(socket)
	go func() { served <- server.Serve(listener) }()
	stop = sync.OnceFunc(func() {
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // the server may be stopped before it starts to serve
			n.t.Errorf("kubelet: %v", err)
		}
	})
	n.t.Cleanup(stop)
	return stop
}

// listen listens on a socket. Like the kubelet's socket file, the socket file remains when the listener is closed.
func (n *node) listen(socket string) net.Listener {
	n.t.Helper()
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		n.t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	check(n.t, err)
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	return listener
}

func (k *kubelet) List(ctx context.Context, _ *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	busy := k.busy.Add(1)
	defer k.busy.Add(-1)
	k.most.Store(max(busy, k.most.Load()))
	select {
	case k.calls <- struct{}{}:
	default:
	}
	return k.answer(ctx)
}

// hangTimeout is the time after which a test fails because a call hangs. It is long enough for a busy machine.
const hangTimeout = 5 * time.Minute

func (k *kubelet) wait(t testing.TB) {
	t.Helper()
	select {
	case <-k.calls:
	case <-time.After(hangTimeout):
		t.Fatal("the kubelet was not called")
	}
}

func holds(pods ...*podresources.PodResources) func(context.Context) (*podresources.ListPodResourcesResponse, error) {
	return func(context.Context) (*podresources.ListPodResourcesResponse, error) {
		return &podresources.ListPodResourcesResponse{PodResources: pods}, nil
	}
}

// holder returns a pod with one container that holds devices. Like the kubelet's response, it contains one entry for
// each device.
func holder(c gpu.Owner, resource string, ids ...string) *podresources.PodResources {
	r := &podresources.ContainerResources{Name: c.Part}
	for _, id := range ids {
		r.Devices = append(r.Devices, &podresources.ContainerDevices{
			ResourceName: cmp.Or(resource, "nvidia.com/gpu"),
			DeviceIds:    []string{id},
		})
	}
	return &podresources.PodResources{Namespace: c.Scope, Name: c.Name, Containers: []*podresources.ContainerResources{r}}
}

// together merges pods with the same name into one.
func together(pods ...*podresources.PodResources) *podresources.PodResources {
	p := &podresources.PodResources{Namespace: pods[0].Namespace, Name: pods[0].Name}
	for _, part := range pods {
		p.Containers = append(p.Containers, part.Containers...)
	}
	return p
}

func (n *node) wantStage(name stage.Name, up bool) {
	n.t.Helper()
	for _, s := range n.stages.Snapshot() {
		if s.Name == string(name) {
			if s.Up != up {
				n.t.Errorf("stage %s up = %v, want %v", name, s.Up, up)
			}
			return
		}
	}
	n.t.Errorf("stage %s was not attempted", name)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	check(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
