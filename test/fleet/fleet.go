// Package fleet runs a fleet on one machine, on loopback: simulated nodes with the
// real exporter on each, and a real Prometheus for each cluster. The demo and the
// tests of the long-term record are made of it.
//
// Everything ends with the process that started it, however that ends.
package fleet

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
)

// Programs are the folders of the programs that a fleet runs.
type Programs struct {
	Bin        string // with gpuledger, simnode and lib/libnvidia-ml.so.1, as make build leaves them
	Prometheus string // with prometheus and promtool, as tools/servers prints it
	Thanos     string // with thanos; needed by fleets that start a part of it
}

// Fleet is what runs. Its methods may not be called at the same time.
type Fleet struct {
	programs Programs
	dir      string // its name is short, for sockets
	running  []*Program
}

// Open makes a place for what a fleet writes. Close ends the fleet.
func Open(programs Programs) (*Fleet, error) {
	for _, path := range []string{
		filepath.Join(programs.Bin, "simnode"), filepath.Join(programs.Bin, "gpuledger"), filepath.Join(programs.Prometheus, "prometheus"),
	} {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("find the programs: %w", err)
		}
	}
	dir, err := os.MkdirTemp("", "fleet")
	return &Fleet{programs: programs, dir: dir}, err
}

// Close ends all programs, the newest first, and removes what they wrote.
func (f *Fleet) Close() error {
	for _, p := range slices.Backward(f.running) {
		p.Stop()
	}
	return os.RemoveAll(f.dir)
}

// Path returns a path in the fleet's folder.
func (f *Fleet) Path(name ...string) string {
	return filepath.Join(append([]string{f.dir}, name...)...)
}

// Start runs a program under a name. Its log is in the fleet's folder.
func (f *Fleet) Start(name, path string, args ...string) (*Program, error) {
	p, err := start(name, f.Path(fmt.Sprintf("%s.%d.log", name, len(f.running))), path, args)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	f.running = append(f.running, p)
	return p, nil
}

// FreeAddress returns an address on loopback that nobody listened on a moment ago.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
