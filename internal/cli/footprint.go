package cli

import (
	"os"
	"runtime"
	"runtime/debug"
)

// These values limit the growth of the heap between two garbage collections, in percent of the live heap. Go's default
// is 100.
const (
	// ExporterGrowth is the limit for the exporter. Its heap has a few megabytes, so a garbage collection takes only
	// milliseconds. With Go's default, the garbage from a page with ten thousand series would double the heap.
	ExporterGrowth = 15
	// ReconcilerGrowth is the limit for the reconciler. It keeps the data about a large cluster in memory, and produces
	// little garbage. Half of Go's default saves a quarter of the memory at almost no cost.
	ReconcilerGrowth = 50
)

// processors is the number of threads that run Go code at the same time. By default, Go uses all processors of the
// machine, and each of them needs memory. On a GPU node with 224 processors, they would need 8 of the 34 MiB of an idle
// exporter. Garbage collection would also run on all processors, and delay the workload.
const processors = 2

// LimitFootprint reduces the memory and the processors that a program uses, because the node's resources are for other
// workloads. It sets the heap growth unless $GOGC is set. It sets GOMAXPROCS unless $GOMAXPROCS is set.
func LimitFootprint(growth int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(growth)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(processors, runtime.GOMAXPROCS(0)))
	}
}
