package amd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// maxProcesses is the maximum length of amdkfd's list of processes. If the list is longer, all
// processes are unknown.
const maxProcesses = 4096

// occupancy is the number of compute units on which the waves of a process run at one moment.
type occupancy struct {
	pid   uint32
	units value
}

// readContexts reads the processes in /sys/class/kfd/kfd/proc, which lists each process that has opened /dev/kfd. A
// process is on the GPU if it has memory or a queue on the GPU. If access to the file of a process is denied, all
// processes are unknown. Otherwise this process would seem to have ended.
func (r *reader) readContexts(out *gpu.Reading) []occupancy {
	root := filepath.Join(r.cfg.Sys, "class/kfd/kfd/proc")
	entries, err := os.ReadDir(root)
	switch {
	case err != nil || len(r.nodes) == 0:
		return nil
	case len(entries) > maxProcesses:
		r.logOnce("the processes of the GPU are unknown", fmt.Errorf("more than %d processes of amdkfd", maxProcesses))
		return nil
	}
	var contexts []gpu.Context
	var occupied []occupancy
	for _, e := range entries {
		pid, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil || pid == 0 {
			continue
		}
		c, on, err := r.context(filepath.Join(root, e.Name()), uint32(pid))
		if err != nil {
			r.logOnce("the processes of the GPU are unknown", err)
			return nil
		}
		if on {
			contexts = append(contexts, c)
			occupied = append(occupied, r.occupancy(filepath.Join(root, e.Name()), c.PID))
		}
	}
	slices.SortFunc(contexts, func(a, b gpu.Context) int { return cmp.Compare(a.PID, b.PID) })
	out.Contexts, out.ContextsKnown = contexts, true
	return append(occupied, r.ended(contexts)...)
}

// A context can name only one partition. If the process uses several partitions, context names the partition on which
// the process uses the most memory.
func (r *reader) context(folder string, pid uint32) (c gpu.Context, on bool, err error) {
	c.PID = pid
	var most uint64
	for _, n := range r.nodes {
		used, err := readNumber(folder, "vram_"+n.id)
		if refused(err) {
			return c, false, err
		}
		known := err == nil
		here := known && used > 0
		if !here {
			if here, err = r.hasQueue(folder, n); err != nil {
				return c, false, err
			}
		}
		if !here {
			continue
		}
		if known {
			if c.MemoryUsed == nil {
				c.MemoryUsed = new(uint64(0))
			}
			*c.MemoryUsed += used
		}
		if r.device.Partitions != nil && (!on || used > most) {
			c.GPUInstance, most = strconv.Itoa(n.number), used
		}
		on = true
	}
	return c, on, nil
}

// refused ignores a missing file, because the process may have ended or may not use the GPU.
func refused(err error) bool { return errors.Is(err, fs.ErrPermission) }

func (r *reader) hasQueue(folder string, n node) (bool, error) {
	queues, err := os.ReadDir(filepath.Join(folder, "queues"))
	if refused(err) {
		return false, err
	}
	for _, q := range queues {
		id, err := readFile(folder, "queues", q.Name(), "gpuid")
		if refused(err) {
			return false, err
		}
		if err == nil && string(bytes.TrimSpace(id)) == n.id {
			return true, nil
		}
	}
	return false, nil
}

// If r.moment is nil, occupancy reads the number of compute units now.
func (r *reader) occupancy(folder string, pid uint32) occupancy {
	if r.moment == nil {
		return occupancy{pid, readUnits(folder, r.nodes)}
	}
	units, listed := r.moment.units[pid]
	if !listed { // the process started later
		units.ok = true
	}
	return occupancy{pid, units}
}

// ended returns the occupancy of the processes that have ended since r.moment.
func (r *reader) ended(contexts []gpu.Context) (ended []occupancy) {
	if r.moment == nil {
		return nil
	}
	for _, pid := range slices.Sorted(maps.Keys(r.moment.units)) {
		units := r.moment.units[pid]
		if units.n > 0 && !slices.ContainsFunc(contexts, func(c gpu.Context) bool { return c.PID == pid }) {
			ended = append(ended, occupancy{pid, units})
		}
	}
	return ended
}

// maxUnits is higher than the number of compute units of any GPU.
const maxUnits = 4096
