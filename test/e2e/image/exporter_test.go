//go:build e2e

package image_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/host"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/internal/state"
	"github.com/gpuledger/gpuledger/test/exposition"
)

// TestExporter checks that the exporter in its image reads a simulated node and charges the node's pods. The fake
// driver's library is in the folder of the real library, so the loader finds it.
func TestExporter(t *testing.T) {
	node, folder := startNode(t)
	library, err := fakes.Compile(t.TempDir())
	check(t, err)
	address := freeAddress(t)
	exporter := container{
		image: open(t, "gpuledger", "amd64"),
		args:  append(node.Flags(), "--web.listen-address="+address),
		env:   node.Env(),
		mounts: []mount{
			{source: folder, target: folder, writable: true},
			{source: library, target: "/usr/lib/x86_64-linux-gnu/" + filepath.Base(library)},
		},
	}
	exporter.start(t)

	var p exposition.Page
	eventually(t, "a container is charged", func() bool {
		p = scrape("http://" + address + "/metrics")
		return p.Sum("gpuledger_container_energy_joules_total", map[string]string{"method": "exclusive"}) > 0
	})
	if got := len(p.UUIDs()); got != 8 {
		t.Errorf("the page has %d GPUs, want 8", got)
	}
	for _, stage := range []string{"pod_resources", "processes", "state"} {
		if p.Sum("gpuledger_stage_up", map[string]string{"stage": stage}) != 1 {
			t.Errorf("stage %s is down", stage)
		}
	}
	build := p.Matches("gpuledger_build_info", map[string]string{"version": version()})
	if len(build) != 1 {
		t.Errorf("gpuledger_build_info of version %s is missing", version())
	}
}

// TestCleanup checks that the program in the image removes an exporter's files from a node. The program runs as uid 0
// without capabilities, with the arguments and mounts of manifests/uninstall/host.
func TestCleanup(t *testing.T) {
	folder := t.TempDir()
	run, kubelet := filepath.Join(folder, "run"), filepath.Join(folder, "kubelet")
	check(t, os.MkdirAll(filepath.Join(kubelet, "pods-api"), 0o750))
	books, err := state.Open(filepath.Join(run, "gpuledger"), "boot")
	check(t, err)
	check(t, books.Save(slices.Values([]any{1})))
	check(t, books.Close())
	container{
		image:  open(t, "gpuledger", "amd64"),
		args:   []string{"cleanup", "--state.path=/host/run/gpuledger", "--kubelet.pods-api-socket=/host/kubelet/pods-api/pods-api.sock"},
		mounts: []mount{{source: run, target: "/host/run", writable: true}, {source: kubelet, target: "/host/kubelet", writable: true}},
	}.output(t)
	for _, folder := range []string{run, kubelet} {
		left, err := os.ReadDir(folder)
		check(t, err)
		if len(left) > 0 {
			t.Errorf("files after the clean-up: %v, want none", left)
		}
	}
}

func startNode(t *testing.T) (*simnode.Node, string) {
	t.Helper()
	scenario, err := simnode.Lookup("dgx-h100")
	check(t, err)
	folder, err := os.MkdirTemp("", "node") // a short path, because the length of a socket's path is limited
	check(t, err)
	node, err := simnode.Open(folder, scenario, host.Now())
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.RunLive(ctx, host.Now) }()
	t.Cleanup(func() {
		cancel()
		check(t, <-done)
		check(t, node.Close())
		check(t, os.RemoveAll(folder))
	})
	return node, folder
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	return l.Addr().String()
}

// scrape returns an empty page if the scrape fails.
func scrape(url string) exposition.Page {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	p, err := exposition.Parse(response.Body)
	if err != nil {
		return nil
	}
	return p
}
