//go:build realtime

package main_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

// A reading is a value of a GPU's energy counter, with the time at which the driver first returned it.
type reading struct {
	at     time.Time
	energy gpu.Millijoules
}

// driverReadings reads the call log of the fake driver. The readings of each GPU are sorted by time, without repeated
// values.
func driverReadings(t *testing.T, n *simnode.Node) map[string][]reading {
	t.Helper()
	out := make(map[string][]reading)
	for _, line := range callLog(t, n, "calls.tsv") {
		fields := strings.Split(line, "\t")
		if len(fields) != 5 || fields[3] != "0" || !strings.Contains(fields[1], "Energy") && !strings.Contains(fields[1], "FieldValues") {
			continue
		}
		text := fields[4]
		if _, counter, scoped := strings.Cut(text, "="); scoped {
			text = counter
		}
		var v gpu.Millijoules
		if _, err := fmt.Sscan(text, &v); err != nil {
			continue
		}
		ns, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if c := out[fields[2]]; len(c) == 0 || c[len(c)-1].energy != v {
			out[fields[2]] = append(c, reading{time.Unix(0, ns), v})
		}
	}
	return out
}

// The fake driver does not log reads of AMD's files, so allReadings returns every value that an AMD GPU's counter ever
// had.
func allReadings(t *testing.T, n *simnode.Node, scenario string) map[string][]reading {
	t.Helper()
	sc, err := simnode.Lookup(scenario)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string][]reading)
	if slices.ContainsFunc(sc.GPUs, func(g simnode.GPU) bool { return g.AMD == nil }) {
		out = driverReadings(t, n)
	}
	rows := truth(t, n)
	for _, g := range sc.GPUs {
		if g.AMD == nil {
			continue
		}
		for i := range rows {
			out[g.UUID] = append(out[g.UUID], reading{time.Unix(0, rows[i].Time), *rows[i].GPU(g.UUID).Counter})
		}
	}
	return out
}

func values(readings map[string][]reading) map[string][]gpu.Millijoules {
	out := make(map[string][]gpu.Millijoules)
	for uuid, read := range readings {
		for _, r := range read {
			out[uuid] = append(out[uuid], r.energy)
		}
	}
	return out
}

func readCounters(t *testing.T, n *simnode.Node) map[string][]gpu.Millijoules {
	t.Helper()
	return values(driverReadings(t, n))
}

// The driver's log and the exporter record different times for one reading. aside is the maximum difference. The real
// difference depends on the load of the machine.
const aside = time.Minute

func (r reading) offBy(at time.Time) time.Duration { return r.at.Sub(at).Abs() }

// around returns the readings that the exporter may have made at a time.
func around(read []reading, at time.Time) []reading {
	return slices.DeleteFunc(slices.Clone(read), func(r reading) bool { return r.offBy(at) > aside })
}
