// Package inventory defines the exporter's page /inventory, which identifies the GPUs of a node. The page contains the
// unchanged strings of the driver and the firmware. The reconciler and other tools read it.
package inventory

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Version changes when the meaning of a field changes, but not when fields are added.
const Version = 1

// Path is the HTTP path of the page.
const Path = "/inventory"

// Page contains the inventory of a node.
type Page struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"`
	// DriverUp is false while the driver does not respond. GPUs then comes from the last successful reading.
	DriverUp bool         `json:"driver_up"`
	Drivers  []gpu.Driver `json:"drivers,omitempty"`
	Node     gpu.Node     `json:"node"`
	// GPUs contains all GPUs that were seen since the node booted, including lost GPUs, sorted by PCI address.
	GPUs []GPU `json:"gpus"`
}

// GPU describes one GPU of the node.
type GPU struct {
	gpu.Device
	Present bool `json:"present"`
}

// New returns the page for a snapshot.
func New(s *gpu.Snapshot) Page {
	p := Page{
		Version: Version, Time: s.At.Wall.UTC(),
		DriverUp: len(s.Drivers) > 0, Drivers: s.Drivers, Node: s.Node,
		GPUs: make([]GPU, 0, len(s.GPUs)),
	}
	for i := range s.GPUs {
		p.GPUs = append(p.GPUs, GPU{Device: s.GPUs[i].Device, Present: s.GPUs[i].Present})
	}
	return p
}
