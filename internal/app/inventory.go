package app

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// inventoryVersion changes when a field of the page changes its meaning.
const inventoryVersion = 1

// inventory is the page /inventory: who the GPUs of this node are, with the
// strings as driver and firmware gave them.
type inventory struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"`
	// DriverUp is false while the driver does not answer. What is said of the
	// GPUs is then what was true before.
	DriverUp bool           `json:"driver_up"`
	Driver   *gpu.Driver    `json:"driver,omitempty"`
	Node     gpu.Node       `json:"node"`
	GPUs     []inventoryGPU `json:"gpus"`
}

type inventoryGPU struct {
	gpu.Device
	Present bool `json:"present"`
}

func inventoryHandler(latest func() *gpu.Snapshot) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := latest()
		if s == nil {
			http.Error(w, "not ready: nothing was read yet", http.StatusServiceUnavailable)
			return
		}
		page := inventory{
			Version: inventoryVersion, Time: s.At.Wall.UTC(),
			DriverUp: s.Driver != nil, Driver: s.Driver, Node: s.Node,
			GPUs: make([]inventoryGPU, 0, len(s.GPUs)),
		}
		for i := range s.GPUs {
			page.GPUs = append(page.GPUs, inventoryGPU{Device: s.GPUs[i].Device, Present: s.GPUs[i].Present})
		}
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		_ = e.Encode(page) // an error here is the client's going away
	})
}
