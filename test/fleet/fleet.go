// Package fleet runs a fleet on the loopback network of one machine: simulated nodes with the real exporter, a real
// Prometheus for each cluster, and long-term stores. The demo and the tests of long-term storage use it.
package fleet

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// Programs contains the folders of a fleet's programs.
type Programs struct {
	Bin        string // contains gpuledger, simnode and lib/libnvidia-ml.so.1, as written by make build
	Prometheus prometheus.Programs
	Thanos     string // contains thanos; needed by fleets that start components of Thanos
	History    string // contains backfill; needed by fleets with a past
}

// Flags defines a flag for each folder.
func (p *Programs) Flags() {
	flag.StringVar(&p.Bin, "bin", "bin", "`folder` to which make build writes programs")
	flag.StringVar((*string)(&p.Prometheus), "prometheus", "", "`folder` of prometheus, as printed by tools/servers")
	flag.StringVar(&p.History, "history", "", "`folder` of backfill, as printed by tools/servers")
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

// find checks that the files that every fleet needs exist. It reads these files, so that go test runs a test again if
// one of them changed.
func (p Programs) find() error {
	for _, path := range []string{
		filepath.Join(p.Bin, "simnode"), filepath.Join(p.Bin, "gpuledger"), filepath.Join(p.Bin, "lib", "libnvidia-ml.so.1"),
		filepath.Join(string(p.Prometheus), "prometheus"),
	} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("find the programs: %w", err)
		}
	}
	return nil
}

// Programs returns the folders of the fleet's programs.
func (f *Fleet) Programs() Programs { return f.programs }
