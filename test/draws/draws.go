// Package draws defines how many random cases a test draws: a few by default, and many in make test-draws.
package draws

import "os"

// Of returns many if GPULEDGER_DRAWS is "all", and few otherwise.
func Of(few, many int) int {
	if os.Getenv("GPULEDGER_DRAWS") == "all" {
		return many
	}
	return few
}
