//go:build e2e

package reconciler_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/internal/inventory"
)

type exporter struct {
	port  int32
	reads atomic.Int64

	mu     sync.Mutex
	answer http.HandlerFunc
	health *health.Page // nil if there is no such page
}

func newExporter(t testing.TB) *exporter {
	t.Helper()
	e := &exporter{answer: http.NotFound}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		answer, health := e.answer, e.health
		e.mu.Unlock()
		if r.URL.Path == "/health.json" && health != nil {
			_ = json.NewEncoder(w).Encode(health) // the client may have closed the connection
			return
		}
		if r.URL.Path != "/inventory" {
			http.NotFound(w, r)
			return
		}
		answer(w, r)
		e.reads.Add(1)
	}))
	t.Cleanup(server.Close)
	e.port = int32(server.Listener.Addr().(*net.TCPAddr).Port)
	return e
}

func (e *exporter) answers(answer http.HandlerFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

func (e *exporter) advises(page health.Page) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.health = &page
}

func (e *exporter) serves(page inventory.Page) { e.answers(serves(page)) }

// serves sets the page's time to the current time.
func serves(page inventory.Page) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		page := page
		page.Time = time.Now().UTC()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(page) // the client may have closed the connection
	}
}

// awaitReads waits until the reconciler has read the exporter the given number of times after this call.
func (e *exporter) awaitReads(t testing.TB, more int64) {
	t.Helper()
	until := e.reads.Load() + more
	eventually(t, fmt.Sprintf("the exporter has been read %d more times", more), func() bool { return e.reads.Load() >= until })
}

func awaitAllReads(t testing.TB, nodes []*node, more int64) {
	t.Helper()
	until := make(map[*node]int64)
	for _, n := range nodes {
		until[n] = n.reads.Load() + more
	}
	for n, count := range until {
		eventually(t, fmt.Sprintf("the exporter of %s has been read %d more times", n.name, more), func() bool { return n.reads.Load() >= count })
	}
}

// An exporter that has just started responds in this way.
func away(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "not ready: no reading yet", http.StatusServiceUnavailable)
}

func page(node string, gpus ...inventory.GPU) inventory.Page {
	return inventory.Page{
		Version: inventory.Version, DriverUp: true,
		Drivers: []gpu.Driver{{Vendor: "NVIDIA", Name: "nvml", Version: "580.82.07"}},
		Node:    gpu.Node{Name: node, SystemUUID: "0001f2c0-0000-4000-8000-" + fmt.Sprintf("%012x", len(node))},
		GPUs:    gpus,
	}
}

// boards derives the UUIDs from the serial numbers.
func boards(serials ...string) []inventory.GPU {
	var gpus []inventory.GPU
	for i, serial := range serials {
		gpus = append(gpus, inventory.GPU{Present: true, Device: gpu.Device{
			UUID: "GPU-" + serial, Index: i, Serial: serial, Vendor: "nvidia", Model: "NVIDIA H100 80GB HBM3",
			PCIBusID: fmt.Sprintf("00000000:%02X:00.0", 0x10+i),
		}})
	}
	return gpus
}
