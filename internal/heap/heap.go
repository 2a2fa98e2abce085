// Package heap keeps the programs small: it sets how much the heap grows between two
// collections.
package heap

import (
	"os"
	"runtime/debug"
)

// The growth in percent of what lives on the heap. Go's default is 100.
const (
	// Exporter is that of the exporter. A heap of a few megabytes is collected in some
	// milliseconds, and what a page of ten thousand series takes to make would else double
	// it.
	Exporter = 15
	// Reconciler is that of the reconciler. A large cluster is held in memory for long and
	// little garbage is made: half of Go's default saves a quarter of the memory and costs
	// hardly any time.
	Reconciler = 50
)

// Grow sets the growth, unless $GOGC does.
func Grow(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
