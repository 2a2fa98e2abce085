package simnode

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
)

// amdTree contains the files of amdgpu and amdkfd that change. They are replaced and not rewritten,
// because a reader of the kernel's files also gets a complete value at each open. In real time they
// can be as late as the step; see [maxLate].
type amdTree struct {
	sys string
	kfd kfdTree
	// hung contains the paths of the files that are FIFOs. written contains the contents of the other files, by path.
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

// update writes the state of the world. A fault names a file of a GPU's folder instead of a call.
// It can make the file hang, drop it, or fill it with all ones.
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

// set replaces a file, or injects a fault. A file that hangs is a FIFO, so that readers wait.
func (t *amdTree) set(path string, content []byte, fault string) error {
	switch {
	case fault == "hang" && t.hung[path]:
		return nil
	case fault == "hang":
		t.hung[path] = true
		delete(t.written, path)
		return replaceByFIFO(path)
	case t.hung[path]:
		// When the only writer closes the FIFO, the waiting readers reach the end of the file.
		fifo, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer fifo.Close()
		delete(t.hung, path)
	}
	switch {
	case fault == "drop":
		delete(t.written, path)
		return os.RemoveAll(path)
	case fault == "blank":
		content = bytes.Repeat([]byte{0xff}, len(content))
	case t.written[path] == string(content):
		return nil
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

// close releases the readers that wait.
func (t *amdTree) close() error {
	for path := range t.hung {
		if err := t.set(path, nil, ""); err != nil {
			return err
		}
	}
	return nil
}
