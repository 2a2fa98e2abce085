package amd

import (
	"path/filepath"
	"strconv"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// whole is the mode of a GPU without partitions.
const whole = "SPX"

// partitioning returns nil if the GPU is not divided. Each of the GPU's nodes in the topology of amdkfd is a partition,
// and all partitions have the same size. The first partition is the PCI device itself; the others are platform devices.
// Device plugins use the names of these devices.
func partitioning(mode, address string, nodes []node, platforms map[string]string) *gpu.Partitioning {
	if mode == "" || mode == whole || len(nodes) < 2 {
		return nil
	}
	p := &gpu.Partitioning{}
	for _, n := range nodes {
		name := address
		if n.number > 0 {
			name = platforms[n.minor]
		}
		device := gpu.PartitionDevice{UUID: name, Index: n.number}
		if n.minor != "" {
			device.Node = "dri/renderD" + n.minor
		}
		slices := max(n.xcc, 1)
		p.Slices += slices
		p.Instances = append(p.Instances, gpu.Partition{
			ID: strconv.Itoa(n.number), Profile: mode, ProfileID: -1, Start: -1, Slices: slices,
			Devices: []gpu.PartitionDevice{device},
		})
	}
	return p
}

// renderMinor returns an empty string if the device has no render node.
func renderMinor(device string) string {
	matches, _ := filepath.Glob(filepath.Join(device, "drm", "renderD*")) // the pattern is valid
	if len(matches) == 0 {
		return ""
	}
	return filepath.Base(matches[0])[len("renderD"):]
}
