package cli

import (
	"os"
	"runtime"
	"runtime/debug"
)

// These are limits for the growth of the heap between two garbage collections, in percent of the
// live heap. Go's default is 100.
const (
	// ExporterGrowth is the limit for the exporter. The exporter's heap has a few megabytes, so a
	// garbage collection takes only milliseconds. With Go's default, the garbage from a page with
	// ten thousand series would double the heap.
	ExporterGrowth = 15
	// ReconcilerGrowth is the limit for the reconciler, which keeps the data about a large cluster
	// in memory and produces little garbage. Half of Go's default saves a quarter of the memory at
	// almost no cost.
	ReconcilerGrowth = 50
)

// processors is the number of threads that run Go code at the same time. By default Go uses all
// processors of the machine. Each processor needs memory. On a GPU node with 224 processors, the
// processors would need 8 of the 34 MiB of an idle exporter. Garbage collection would also run on
// all processors and delay the workload.
const processors = 2

// LimitFootprint reduces the memory and the number of processors that a program uses, because the
// node's resources are meant for other workloads. If $GOGC is not set, LimitFootprint sets the
// heap growth. If $GOMAXPROCS is not set, it sets GOMAXPROCS.
func LimitFootprint(growth int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(growth)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(processors, runtime.GOMAXPROCS(0)))
	}
}
