package amd

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Graphics, media and Vulkan programs use a GPU through DRM, so amdkfd does not list them.
// /proc/<pid>/fdinfo describes this use for each device node that a process has opened (Linux,
// drm-usage-stats). Reading the fdinfo files of other users' processes requires CAP_SYS_PTRACE.
// Landlock denies reading them.

type clientFile struct {
	pid  uint32
	path string // path of the description in fdinfo
}

// maxClientFiles is the maximum number of files that are read.
const maxClientFiles = 4096

// listClientFiles maps the name of a device node, such as renderD128, to its open files. It does not query a GPU. It
// omits processes that cannot be read, and returns the first error.
func listClientFiles(proc string) (files map[string][]clientFile, first error) {
	files = make(map[string][]clientFile)
	entries, first := os.ReadDir(proc)
	n := 0
	for _, e := range entries {
		pid, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil {
			continue
		}
		open, err := os.ReadDir(filepath.Join(proc, e.Name(), "fd"))
		if refused(err) && first == nil {
			first = err
		}
		for _, fd := range open {
			target, _ := os.Readlink(filepath.Join(proc, e.Name(), "fd", fd.Name())) // the file may have been closed
			if node, ok := strings.CutPrefix(target, "/dev/dri/"); ok && n < maxClientFiles {
				files[node] = append(files[node], clientFile{uint32(pid), filepath.Join(proc, e.Name(), "fdinfo", fd.Name())})
				n++
			}
		}
	}
	return files, first
}

type client struct {
	id, address string
	memory      uint64        // bytes
	busy        time.Duration // busy time of the engines gfx and compute
	// used is set if an engine was ever busy. It is not set for monitoring programs, which open a device node but start
	// no work.
	used bool
}

// Several files may describe one client.
func parseClient(text string) (c client, ok bool) {
	driver := ""
	resident := uint64(0)
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		number, unit, _ := strings.Cut(value, " ")
		n, err := strconv.ParseUint(number, 10, 63)
		c.used = c.used || strings.HasPrefix(key, "drm-engine-") && err == nil && n > 0
		switch key {
		case "drm-driver":
			driver = value
		case "drm-pdev":
			c.address = value
		case "drm-client-id":
			c.id = value
		case "drm-engine-gfx", "drm-engine-compute":
			if err != nil || unit != "ns" {
				return client{}, false
			}
			c.busy += time.Duration(n)
		case "drm-memory-vram", "drm-resident-vram":
			if err == nil && unit == "KiB" && n < 1<<40 {
				resident = max(resident, n<<10)
			}
		}
	}
	c.memory = resident
	return c, driver == "amdgpu" && c.id != "" && c.busy >= 0
}

// use contains the memory of a process that uses the GPU through DRM, and its busy time since the last reading.
type use struct {
	memory uint64
	busy   time.Duration
}

// The driver's busy time may decrease for a moment, so readClients uses the highest value. A client that is read for
// the first time gets no busy time.
func (r *reader) readClients() map[uint32]use {
	uses := make(map[uint32]use)
	clients := make(map[string]client)
	for _, f := range r.files {
		text, err := readFile(f.path)
		if err != nil { // the process has ended or has closed the file
			continue
		}
		c, ok := parseClient(string(text))
		if _, twice := clients[c.id]; !ok || twice || c.address != r.card.address {
			continue
		}
		last, known := r.clients[c.id]
		c.busy, c.used = max(c.busy, last.busy), c.used || last.used
		clients[c.id] = c
		if !c.used {
			continue
		}
		u := uses[f.pid]
		u.memory += c.memory
		if known {
			u.busy += c.busy - last.busy
		}
		uses[f.pid] = u
	}
	r.clients = clients
	return uses
}

func (r *reader) addClients(out *gpu.Reading, uses map[uint32]use) {
	if !out.ContextsKnown || r.device.Partitions != nil {
		return
	}
	for pid, u := range uses {
		if !slices.ContainsFunc(out.Contexts, func(c gpu.Context) bool { return c.PID == pid }) {
			out.Contexts = append(out.Contexts, gpu.Context{PID: pid, MemoryUsed: new(u.memory)})
		}
	}
	slices.SortFunc(out.Contexts, func(a, b gpu.Context) int { return cmp.Compare(a.PID, b.PID) })
}
