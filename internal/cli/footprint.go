package cli

import (
	"os"
	"runtime"
	"runtime/debug"
)

// The growth of the heap between two collections in percent of what lives on it. Go's
// default is 100.
const (
	// ExporterGrowth is that of the exporter. A heap of a few megabytes is collected in some
	// milliseconds, and what a page of ten thousand series takes to make would else double
	// it.
	ExporterGrowth = 15
	// ReconcilerGrowth is that of the reconciler. A large cluster is held in memory for long and
	// little garbage is made: half of Go's default saves a quarter of the memory and costs
	// hardly any time.
	ReconcilerGrowth = 50
)

// processors is how many run Go code at once. By default all of the machine's would: each
// has memory of its own, which for the 224 of a GPU node come to 8 MiB of an idle exporter's
// 34, and each would help when garbage is collected, in the way of the workload.
const processors = 2

// LimitFootprint keeps a program small on nodes that belong to others. It sets the growth and the number of processors, unless $GOGC and $GOMAXPROCS do.
func LimitFootprint(growth int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(growth)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(processors, runtime.GOMAXPROCS(0)))
	}
}
