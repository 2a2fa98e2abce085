package simnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// kfdTree is amdkfd's directory of processes, /sys/class/kfd/kfd/proc. Processes appear and disappear atomically, as in
// [procTree]. The directory contains PIDs of the initial namespace.
type kfdTree struct {
	dir, scratch string
	// running contains the paths of the occupancy files with values other than 0.
	running map[string]bool
}

// start adds a process that uses AMD GPUs for work other than graphics. As in the kernel, it creates files only for the
// GPUs that the process uses.
func (t *kfdTree) start(sc *Scenario, p *process) error {
	files := make(map[string]string)
	queues := 0
	for _, k := range p.work {
		g := &sc.GPUs[k.GPU]
		if g.AMD == nil || k.Context == Graphics {
			continue
		}
		id := g.kfdID(k.Instance)
		files["vram_"+id], files["sdma_"+id] = strconv.FormatUint(k.Memory, 10), "0"
		files["stats_"+id+"/evicted_ms"], files["stats_"+id+"/cu_occupancy"] = "0", "0"
		if k.Context == Monitor {
			continue
		}
		queue := fmt.Sprintf("queues/%d/", queues)
		files[queue+"gpuid"], files[queue+"size"], files[queue+"type"] = id, "4096", "0" // compute
		queues++
	}
	if len(files) == 0 {
		return nil
	}
	files["pasid"] = strconv.FormatUint(uint64(0x8000+p.id.PID%0x4000), 10)
	scratch := filepath.Join(t.scratch, p.name())
	if err := writeFiles(scratch, files); err != nil {
		return err
	}
	return os.Rename(scratch, filepath.Join(t.dir, p.name()))
}

func (t *kfdTree) end(p *process) error {
	scratch := filepath.Join(t.scratch, p.name())
	err := os.Rename(filepath.Join(t.dir, p.name()), scratch)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, os.RemoveAll(scratch))
}

// update writes the number of compute units that each process occupies now.
func (t *kfdTree) update(w *world) error {
	running := make(map[string]bool)
	for _, p := range w.processes() {
		for _, k := range p.work {
			b := w.boards[k.GPU]
			if b.AMD == nil || k.Context == Graphics {
				continue
			}
			path, occupied := filepath.Join(t.dir, p.name(), "stats_"+b.kfdID(k.Instance), "cu_occupancy"), 0
			if b.running[k.Instance] == p.id.PID {
				running[path], occupied = true, b.unitsOf(k.Instance)
			}
			if running[path] == t.running[path] {
				continue
			}
			if err := replaceFile(path, []byte(strconv.Itoa(occupied)+"\n")); err != nil {
				return err
			}
		}
	}
	t.running = running
	return nil
}
