package simnode

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// A process that uses an AMD GPU opens the GPU's render node, and /proc/<pid>/fdinfo describes the open file. The
// description contains the busy time of graphics (Linux, drm-usage-stats), but not of compute.

// firstFile is the number of the first open file of a process.
const firstFile = 8

// A process opens two files for each AMD GPU. The second file is a duplicate of the first.
func (sc *Scenario) addFiles(dir string, p *process) error {
	for i, k := range p.work {
		if sc.GPUs[k.GPU].AMD == nil {
			continue
		}
		node := "/dev/dri/renderD" + strconv.Itoa(sc.drmDevices(k.GPU)[k.Instance].minor)
		for _, fd := range filesOf(i) {
			if err := writeFiles(filepath.Join(dir, "fdinfo"), map[string]string{fd: sc.clientOf(p, i)}); err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Join(dir, "fd"), 0o755); err != nil {
				return err
			}
			if err := os.Symlink(node, filepath.Join(dir, "fd", fd)); err != nil {
				return err
			}
		}
	}
	return nil
}

func filesOf(work int) []string {
	return []string{strconv.Itoa(firstFile + 2*work), strconv.Itoa(firstFile + 2*work + 1)}
}

func (sc *Scenario) clientOf(p *process, work int) string {
	k := p.work[work]
	text := fmt.Sprintf("pos:\t0\nflags:\t02100002\nmnt_id:\t27\nino:\t651\ndrm-driver:\tamdgpu\ndrm-client-id:\t%d\ndrm-pdev:\t%s\n"+
		"drm-memory-vram:\t%d KiB", 8*uint64(p.id.PID)+uint64(work), sysfsAddress(sc.GPUs[k.GPU].Bus), k.Memory>>10)
	if busy := p.rendered[k.GPU]; busy > 0 {
		text += fmt.Sprintf("\ndrm-engine-gfx:\t%d ns", busy.Nanoseconds())
	}
	return text
}

func (t procTree) updateFiles(w *world) error {
	for _, p := range w.processes() {
		for i, k := range p.work {
			if p.rendered[k.GPU] == 0 {
				continue
			}
			for _, fd := range filesOf(i) {
				if err := replaceFile(filepath.Join(t.dir, p.name(), "fdinfo", fd), []byte(w.scenario.clientOf(p, i)+"\n")); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func render(gpu int, loads []load) {
	for _, l := range loads {
		if l.context != Graphics || l.percent == 0 {
			continue
		}
		if l.process.rendered == nil {
			l.process.rendered = make(map[int]time.Duration)
		}
		l.process.rendered[gpu] += step * time.Duration(l.percent) / 100
	}
}
