// Package draws sets how often tests draw random cases: a few for each change, many in make test-draws.
package draws

import "os"

// Of returns a number of draws: few, or many if GPULEDGER_DRAWS is "all".
func Of(few, many int) int {
	if os.Getenv("GPULEDGER_DRAWS") == "all" {
		return many
	}
	return few
}
