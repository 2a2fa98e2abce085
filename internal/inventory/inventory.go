// Package inventory is the page /inventory of the exporter: who the GPUs of a node
// are, with the strings as driver and firmware gave them. The exporter writes it,
// and the reconciler and other tools read it.
package inventory

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Version changes when a field of the page changes its meaning. New fields do not
// change it.
const Version = 1

// Path is where the exporter serves the page.
const Path = "/inventory"

// Page is what an exporter says of its node.
type Page struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"`
	// DriverUp is false while the driver does not answer. What is said of the
	// GPUs is then what was true before.
	DriverUp bool         `json:"driver_up"`
	Drivers  []gpu.Driver `json:"drivers,omitempty"`
	Node     gpu.Node     `json:"node"`
	// GPUs are all GPUs seen since the node booted, present or lost, by PCI address.
	GPUs []GPU `json:"gpus"`
}

// GPU is one GPU of the node.
type GPU struct {
	gpu.Device
	Present bool `json:"present"`
}

// New returns the page that shows a snapshot.
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
