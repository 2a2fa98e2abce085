// Package fleet runs a fleet on one machine, on loopback: simulated nodes with the real exporter, a
// real Prometheus for each cluster, and their long-term stores. The demo and the tests of the
// long-term record use it.
package fleet

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// Programs has the folders of the programs that a fleet runs.
type Programs struct {
	Bin        string // with gpuledger, simnode and lib/libnvidia-ml.so.1, as make build leaves them
	Prometheus prometheus.Programs
	Thanos     string // with thanos; needed by fleets that start a part of it
	History    string // with backfill; needed by fleets with a past
}

// Flags defines the flags for the folders that the demo needs.
func (p *Programs) Flags() {
	flag.StringVar(&p.Bin, "bin", "bin", "`folder` that make build filled")
	flag.StringVar((*string)(&p.Prometheus), "prometheus", "", "`folder` with prometheus, as tools/servers prints it")
	flag.StringVar(&p.History, "history", "", "`folder` with backfill, as tools/servers prints it")
}

// Fleet is a running fleet. Its methods must not be called concurrently.
type Fleet struct {
	*program.Group
	programs Programs
}

// Open creates a fleet and its folder. Close ends the fleet.
func Open(programs Programs) (*Fleet, error) {
	if err := programs.find(); err != nil {
		return nil, err
	}
	group, err := program.Open("fleet")
	return &Fleet{Group: group, programs: programs}, err
}

// find checks that the programs exist that every fleet needs.
func (p Programs) find() error {
	for _, path := range []string{
		filepath.Join(p.Bin, "simnode"), filepath.Join(p.Bin, "gpuledger"), filepath.Join(string(p.Prometheus), "prometheus"),
	} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("find the programs: %w", err)
		}
	}
	return nil
}

// Programs returns the folders of the fleet's programs.
func (f *Fleet) Programs() Programs { return f.programs }
