//go:build realtime

package main_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// hostileSocket listens on a socket, and answers each request with the next element of answers.
func hostileSocket(t *testing.T, answers ...[]byte) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hostile") // a short path, for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	server := grpc.NewServer(grpc.ForceServerCodecV2(verbatim{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		return stream.SendMsg(answers[int(asked.Add(1)-1)%len(answers)])
	}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// verbatim is a codec that sends bytes unchanged.
type verbatim struct{}

func (verbatim) Name() string                         { return "proto" }
func (verbatim) Unmarshal(mem.BufferSlice, any) error { return nil }
func (verbatim) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func wire(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

func manyDevices() (list []byte) {
	for p := range 200 {
		container := wire(1, []byte("main"))
		for d := range 1000 {
			id := fmt.Sprintf("GPU-5d2f9a60-0000-4000-8000-%012d", p*1000+d)
			container = append(container, wire(2, append(wire(1, []byte("nvidia.com/gpu")), wire(2, []byte(id))...))...)
		}
		pod := append(wire(1, fmt.Appendf(nil, "pod-%d", p)), wire(2, []byte("ml"))...)
		list = append(list, wire(1, append(pod, wire(3, container)...))...)
	}
	return list
}

// The links in manyLogs are hard links to one symbolic link.
func manyLogs(t *testing.T, links int) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "links") // in memory, because there are many
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	name := func(i int) string { return filepath.Join(dir, fmt.Sprintf("train-0_ml_main-%064x.log", i)) }
	if err := os.Symlink("/var/log/pods/ml_train-0_5d2f9a60-0000-4000-8000-000000000001/main/0.log", name(0)); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < links; i++ {
		if err := os.Link(name(0), name(i)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The exporter has the memory limit of its container. The kubelet, the log folder and the driver return far more data
// than the exporter accepts. The exporter must continue to run, log the inputs that it ignores, and charge energy.
func TestHostileInputs(t *testing.T) {
	long := wire(1, make([]byte, 63<<20))
	empty := []byte(strings.Repeat("\x0a\x00", 7<<20))
	devices := manyDevices()
	containers := wire(1, wire(3, []byte(strings.Repeat("\x42\x00", 6<<20)))) // response with the status of a pod
	everywhere := func(do string, calls ...string) (faults []simnode.Fault) {
		for _, call := range calls {
			faults = append(faults, simnode.Fault{GPU: "*", Call: call, Do: do})
		}
		return faults
	}
	lists := []string{
		"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses",
		"nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetProcessUtilization",
	}
	tests := []struct {
		name    string
		listed  [][]byte // response of the pod-resources API
		pods    [][]byte // response of the Pods API
		links   int
		faults  []simnode.Fault
		exceeds []string // stages
	}{
		{name: "long message", listed: [][]byte{long}, exceeds: []string{"pod_resources"}},
		{name: "devices", listed: [][]byte{devices}, exceeds: []string{"pod_resources"}},
		{name: "pods", pods: [][]byte{long, empty}, exceeds: []string{"pods_api"}},
		{name: "links", links: 400_000, exceeds: []string{"container_logs"}},
		{name: "processes", faults: everywhere("many:1000000", lists...), exceeds: []string{"gpu_processes"}},
		{
			name: "all", listed: [][]byte{long, devices, empty}, pods: [][]byte{containers, empty, long}, links: 400_000,
			faults: everywhere("many:1000000", lists...), exceeds: []string{"pod_resources", "pods_api", "container_logs", "gpu_processes"},
		},
		{name: "just below", faults: everywhere("many:4000", "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetProcessUtilization")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMemoryGroup(t)
			n := newNode(t, "dgx-h100")
			if err := n.SetFaults(tt.faults...); err != nil {
				t.Fatal(err)
			}
			var flags []string
			if tt.listed != nil {
				flags = append(flags, "--kubelet.pod-resources-socket="+hostileSocket(t, tt.listed...))
			}
			if tt.pods != nil {
				flags = append(flags, "--kubelet.pods-api-socket="+hostileSocket(t, tt.pods...))
			}
			if tt.links > 0 {
				flags = append(flags, "--path.container-logs="+manyLogs(t, tt.links))
			}
			e := run(t, withLimits(n.Env()), onNode(n, flags...)...)
			for _, stage := range tt.exceeds {
				e.scrapeUntil(stage+" exceeds a limit repeatedly", func(p page) bool {
					return p.Sum("gpuledger_stage_oversized_total", map[string]string{"stage": stage}) >= 3
				})
			}
			p := e.scrapeUntil("every GPU was charged", charged(10_000))
			checkBalance(t, p)
			e.ends()
			if n := m.killed(); n > 0 {
				t.Errorf("the exporter was killed %d times at the memory limit", n)
			}
			t.Logf("peak of %d MiB of memory; the limit is %d MiB", m.peak()>>20, memoryLimit>>20)
		})
	}
}
