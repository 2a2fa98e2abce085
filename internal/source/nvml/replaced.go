package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Replaced is the error after the driver was replaced. The driver in the kernel and the loaded library then have
// different versions. A process cannot load a second version of the library, so a restart is required.
type Replaced struct {
	// Kernel and Library are the versions of the kernel module and of the loaded library.
	Kernel, Library string
	// Path is the path of the library. NewFile is set if another file has replaced the library at this path. If the
	// program is executed again, it loads the new file. If NewFile is not set, this process cannot see the new library.
	// A container keeps the file that was mounted at the container's creation.
	Path    string
	NewFile bool
}

func (r Replaced) Error() string {
	return fmt.Sprintf("driver %s is loaded in the kernel, but this process has the library of %s", r.Kernel, r.Library)
}

type replacement struct {
	mu sync.Mutex // guards the other fields
	// path is the path of the library, and file describes the file that was at this path when the
	// library was loaded.
	path string
	file os.FileInfo
	// used is set after the driver was read successfully. Until then a restart would not help,
	// because a new container would get the same library.
	used    bool
	current *Replaced     // set if the last reading found a mismatch
	since   time.Duration // boot-clock time of the first mismatch, if current is set
	ended   bool          // set when a restart is due
}

// loaded records the file of the library when the library is first loaded. After a restart the
// recorded file is the new file, so each change of the file causes at most one restart.
func (m *replacement) loaded(s *Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		m.path = cmp.Or(s.cfg.LibraryPath, mappedLibrary())
		m.file, _ = os.Stat(m.path)
	}
}

// mappedLibrary returns an empty text if the loader has not loaded the library.
func mappedLibrary() string {
	maps, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(maps)) {
		i := strings.IndexByte(line, '/')
		if i < 0 || !strings.HasPrefix(filepath.Base(line[i:]), "libnvidia-ml.so") {
			continue
		}
		return filepath.Join(filepath.Dir(line[i:]), defaultLibrary) // the target of the link has a version in its name
	}
	return ""
}

// check adds the two versions and the program's next step to the error if the driver was replaced. The time until a
// restart is counted from the first mismatch. A timeout between two mismatches does not restart the count.
func (m *replacement) check(s *Source, err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.compare(s, err)
	if r == nil {
		if m.used = m.used || err == nil; err == nil || errors.As(err, new(gonvml.Return)) || errors.As(err, new(Release)) {
			m.current = nil
		}
		return err
	}
	now := s.cfg.Now()
	if m.current == nil {
		m.since = now.Boot
	}
	m.current = r
	return fmt.Errorf("%w: %s", *r, m.plan(s.cfg.RestartAfter, now.Boot, now.Wall))
}

// compare returns nil if there is no mismatch or a version is unknown.
func (m *replacement) compare(s *Source, err error) *Replaced {
	if !hasCode(err, gonvml.ERROR_LIB_RM_VERSION_MISMATCH) {
		return nil
	}
	// The file /proc/driver/nvidia/version is not read. In a container, it is a copy from the container's creation
	// (libnvidia-container, nvc_mount.c).
	module, _ := os.ReadFile(filepath.Join(s.cfg.SysFS, "module/nvidia/version"))
	r := &Replaced{Kernel: strings.TrimSpace(string(module)), Library: (&library{Interface: s.nvml}).version(), Path: m.path}
	if r.Kernel == "" || r.Library == "" || r.Kernel == r.Library {
		return nil
	}
	return r
}

func (m *replacement) plan(wait, boot time.Duration, wall time.Time) string {
	file, err := os.Stat(m.path)
	m.current.NewFile = err == nil && m.file != nil && !os.SameFile(file, m.file)
	at := m.since + wait
	m.ended = wait > 0 && boot >= at && (m.current.NewFile || m.used && err == nil)
	when := wall.Add(at - boot).Format(time.TimeOnly)
	switch {
	case wait == 0:
		return "restart this process to load the new library"
	case m.current.NewFile:
		return fmt.Sprintf("the process executes itself again at %s to load the new file %s", when, m.path)
	case err != nil:
		return "the process waits for the new library: " + err.Error()
	case m.used:
		return fmt.Sprintf("the process exits at %s, because %s has not changed and only a new container gets the new library", when, m.path)
	}
	return m.path + " has not changed: load a driver of the library's version (or reboot), install the library of the loaded driver, or replace the pod"
}

func (m *replacement) due() *Replaced {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		return nil
	}
	return m.current
}

// Replaced returns an error if the version of the driver in the kernel differs from the version of the library.
func (s *Source) Replaced() error {
	s.replacement.mu.Lock()
	defer s.replacement.mu.Unlock()
	if s.replacement.current == nil {
		return nil
	}
	return *s.replacement.current
}
