// Package fleet runs a fleet on one machine, on loopback: simulated nodes with the
// real exporter on each, a real Prometheus for each cluster, and what they write to. The
// demo and the tests of the long-term record are made of it.
package fleet

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// Programs are the folders of the programs that a fleet runs.
type Programs struct {
	Bin        string // with gpuledger, simnode and lib/libnvidia-ml.so.1, as make build leaves them
	Prometheus prometheus.Programs
	Thanos     string // with thanos; needed by fleets that start a part of it
}

// Flags lets the folders that the demo needs be chosen on the command line.
func (p *Programs) Flags() {
	flag.StringVar(&p.Bin, "bin", "bin", "`folder` that make build filled")
	flag.StringVar((*string)(&p.Prometheus), "prometheus", "", "`folder` with prometheus, as tools/servers prints it")
}

// The folders for tests, beside prometheus.Env: with what make build leaves, and with thanos.
const (
	BinEnv    = "GPULEDGER_E2E_BIN"
	ThanosEnv = "GPULEDGER_E2E_THANOS"
)

// FromEnv returns the folders that the Makefile gave to a test.
func FromEnv() (p Programs, err error) {
	if p.Prometheus, err = prometheus.FromEnv(); err != nil {
		return p, err
	}
	if p.Bin, p.Thanos = os.Getenv(BinEnv), os.Getenv(ThanosEnv); p.Bin == "" {
		return p, fmt.Errorf("%s is not set: run the tests with make e2e, or a part of it", BinEnv)
	}
	return p, nil
}

// Fleet is what runs. Its methods may not be called at the same time.
type Fleet struct {
	*program.Group
	programs Programs
}

// Open makes a place for what a fleet writes. Close ends the fleet.
func Open(programs Programs) (*Fleet, error) {
	for _, path := range []string{
		filepath.Join(programs.Bin, "simnode"), filepath.Join(programs.Bin, "gpuledger"), filepath.Join(string(programs.Prometheus), "prometheus"),
	} {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("find the programs: %w", err)
		}
	}
	group, err := program.Open("fleet")
	return &Fleet{Group: group, programs: programs}, err
}
