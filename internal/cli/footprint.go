package cli

import (
	"os"
	"runtime"
	"runtime/debug"
)

// The growth of the heap between two garbage collections, in percent of the live heap. Go's
// default is 100.
const (
	// ExporterGrowth is the growth of the exporter. Its heap of a few megabytes is collected in
	// milliseconds, and the garbage of a page with ten thousand series would otherwise double
	// it.
	ExporterGrowth = 15
	// ReconcilerGrowth is the growth of the reconciler, which holds the data of a large cluster in
	// memory and produces little garbage. Half of Go's default saves a quarter of the memory at
	// almost no cost.
	ReconcilerGrowth = 50
)

// processors is the number of threads that run Go code at once. By default Go uses all processors
// of the machine. Each needs memory, in total 8 of the 34 MiB of an idle exporter on a GPU node
// with 224 processors, and each would collect garbage and delay the workload.
const processors = 2

// LimitFootprint reduces the memory and the processors that a program uses on a node that exists
// for other workloads. It sets the heap growth and GOMAXPROCS unless $GOGC and $GOMAXPROCS are set.
func LimitFootprint(growth int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(growth)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(processors, runtime.GOMAXPROCS(0)))
	}
}
