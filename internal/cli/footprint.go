package cli

import (
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// The growth of the heap between two garbage collections, in percent of the live heap. Go's
// default is 100.
const (
	// ExporterGrowth is the growth of the exporter. Its heap of a few megabytes is collected in
	// milliseconds, and the garbage of a page with ten thousand series would otherwise double
	// it.
	ExporterGrowth = 15
	// ReconcilerGrowth is the growth of the reconciler, which holds a large cluster in memory
	// and makes little garbage: half of Go's default saves a quarter of the memory at almost no
	// cost.
	ReconcilerGrowth = 50
)

// processors is the number of threads that run Go code at once. By default all processors of
// the machine would: each has its own memory, 8 of the 34 MiB of an idle exporter on a GPU node
// with 224 processors, and each would collect garbage and delay the workload.
const processors = 2

// startup is the time after which a program has run the code that it needs only at its start.
const startup = 10 * time.Second

// LimitFootprint reduces the memory and processors of a program on a node that belongs to
// others. It sets the heap growth and GOMAXPROCS unless $GOGC and $GOMAXPROCS are set, and
// releases the code of the start after a while.
func LimitFootprint(growth int) {
	time.AfterFunc(startup, func() { ReleaseCode() })
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(growth)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(processors, runtime.GOMAXPROCS(0)))
	}
}

// ReleaseCode unmaps the pages of the program's code and returns their number of bytes, 0 if the
// code was not found. Pages in use are mapped again at their next use, from the page cache: code
// that ran only at the start, a quarter of it, no longer counts as resident.
func ReleaseCode() uintptr {
	self, err := procfs.Self()
	if err != nil {
		return 0
	}
	maps, err := self.ProcMaps()
	if err != nil {
		return 0
	}
	here := reflect.ValueOf(ReleaseCode).Pointer()
	for _, m := range maps {
		if m.StartAddr <= here && here < m.EndAddr && !m.Perms.Write {
			size := m.EndAddr - m.StartAddr
			if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.StartAddr, size, unix.MADV_DONTNEED); errno == 0 {
				return size
			}
		}
	}
	return 0
}
