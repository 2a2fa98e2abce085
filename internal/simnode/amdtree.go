package simnode

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
)

// amdTree contains the files of amdgpu and amdkfd that change. It replaces a changed file instead of writing into it.
// Thus a reader gets a complete value after each open, as with the kernel's files. In real time, the files are late if
// a step is late; see [maxLate].
type amdTree struct {
	sys string
	kfd kfdTree
	// hung contains the paths of FIFOs, which replace files that hang. written contains the content of all other files,
	// by path.
	hung    map[string]bool
	written map[string]string
}

func newAMDTree(dir string) amdTree {
	sys := filepath.Join(dir, "sys")
	return amdTree{
		sys: sys, kfd: kfdTree{dir: filepath.Join(sys, kfdRoot, "proc"), scratch: filepath.Join(dir, "kfd.new")},
		hung: make(map[string]bool), written: make(map[string]string),
	}
}

// The Call of a fault for an AMD GPU is the name of a file in the GPU's directory. The fault makes the file hang,
// removes it, or sets all bits of its content.
func (t *amdTree) update(w *world, faults []Fault) error {
	for i, b := range w.boards {
		if b.AMD == nil {
			continue
		}
		for name, content := range amdState(w, i) {
			do := ""
			for _, f := range faults {
				if (f.GPU == b.UUID || f.GPU == "*") && (f.Call == name || f.Call == "*") {
					do = f.Do
				}
			}
			if err := t.set(filepath.Join(t.sys, pciFolder(sysfsAddress(b.Bus)), name), content, do); err != nil {
				return err
			}
		}
	}
	return t.kfd.update(w)
}

// A file that hangs is a FIFO, so its readers wait.
func (t *amdTree) set(path string, content []byte, fault string) error {
	switch {
	case fault == "hang" && t.hung[path]:
		return nil
	case fault == "hang":
		t.hung[path] = true
		delete(t.written, path)
		return replaceByFIFO(path)
	case t.hung[path]:
		// When the only writer closes the FIFO, all waiting readers reach the end of the file.
		fifo, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer fifo.Close()
		delete(t.hung, path)
	}
	switch fault {
	case "drop":
		delete(t.written, path)
		return os.RemoveAll(path)
	case "blank":
		content = bytes.Repeat([]byte{0xff}, len(content))
	default:
		if last, exists := t.written[path]; exists && last == string(content) {
			return nil
		}
	}
	t.written[path] = string(content)
	return replaceFile(path, content)
}

func replaceByFIFO(path string) error {
	if err := syscall.Mkfifo(path+".new", 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// close lets the readers of hanging files continue.
func (t *amdTree) close() error {
	for path := range t.hung {
		if err := t.set(path, nil, ""); err != nil {
			return err
		}
	}
	return nil
}
