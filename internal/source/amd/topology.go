package amd

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// After topologyAge, the topology is read again even if amdkfd's counter of changes (generation_id) is unchanged.
const topologyAge = 10 * time.Second

// topology contains the nodes by the PCI address of their GPU.
type topology struct {
	nodes      map[string][]node
	generation string
	at         time.Duration // boot-clock time of the last reading
}

// A node is one GPU or one partition of a GPU in amdkfd's topology
// (/sys/class/kfd/kfd/topology/nodes/<n>).
type node struct {
	id     string // gpu_id, which names the files of a process
	minor  string // minor number of its render node
	number int    // number of the partition on its GPU
	xcc    int    // number of compute dies
}

// Without amdkfd the topology is empty.
func readTopology(sys string) topology {
	t := topology{nodes: make(map[string][]node)}
	root := filepath.Join(sys, "class/kfd/kfd/topology")
	t.generation = readText(root, "generation_id")
	entries, _ := os.ReadDir(filepath.Join(root, "nodes"))
	for _, e := range entries {
		id := readText(root, "nodes", e.Name(), "gpu_id")
		if id == "" || id == "0" { // a CPU
			continue
		}
		p := properties(readText(root, "nodes", e.Name(), "properties"))
		location := p["location_id"]
		// The highest bits, above the bus, device and function, contain the number of the partition.
		n := node{id: id, number: int(location >> 28 & 0xf), xcc: int(min(p["num_xcc"], 64))}
		if minor := p["drm_render_minor"]; minor > 0 {
			n.minor = strconv.FormatUint(minor, 10)
		}
		address := pciAddress(p["domain"], location&0xffff)
		t.nodes[address] = append(t.nodes[address], n)
	}
	for _, nodes := range t.nodes {
		number(nodes)
	}
	return t
}

// If the driver has not numbered the partitions of a GPU, they get numbers in the order of their render nodes.
func number(nodes []node) {
	slices.SortFunc(nodes, func(a, b node) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(len(a.minor), len(b.minor)), cmp.Compare(a.minor, b.minor))
	})
	for i := range nodes {
		nodes[i].number = i
	}
}

func properties(text string) map[string]uint64 {
	p := make(map[string]uint64)
	for line := range strings.Lines(text) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 64); err == nil {
			p[name] = n
		}
	}
	return p
}

// pciAddress formats a PCI address as the kernel does. location encodes the bus, the device and the function.
func pciAddress(domain, location uint64) string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", domain, location>>8&0xff, location>>3&0x1f, location&7)
}
