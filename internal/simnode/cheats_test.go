package simnode_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// The driver's state and the log directories must show the effects of the tricks, because the exporter reads them.
func TestCheatsAreVisible(t *testing.T) {
	n := open(t, "cheats")
	pids := make(map[string]bool)
	for i := range 10 {
		at := time.Duration(i) * 100 * time.Millisecond
		run(t, n, at, at+100*time.Millisecond, 100*time.Millisecond)
		for _, p := range driverState(t, n)["process"] {
			pids[p["gpu"]+" "+p["pid"]] = true
		}
	}
	sc, _, _ := simnode.Cheats()
	workers := 0
	for p := range pids {
		if strings.HasPrefix(p, sc.GPUs[5].UUID) {
			workers++
		}
	}
	if workers != 4 {
		t.Errorf("%d processes with a lifetime of 300 ms were on a GPU in a second, want 4", workers)
	}
	links, err := filepath.Glob(filepath.Join(n.Dir(), "log/containers/ppp*"))
	if err != nil || len(links) != 2 {
		t.Fatalf("the pod with the long name has the links %q, error %v; want 2", links, err)
	}
	for _, link := range links {
		if name := filepath.Base(link); len(name) != 255 {
			t.Errorf("the name of a link has %d bytes, want 255: %s", len(name), name)
		}
	}
	dirs, err := os.ReadDir(filepath.Join(n.Dir(), "log/pods"))
	if err != nil || len(dirs) != len(sc.Pods) {
		t.Errorf("%d log directories, want %d: %v", len(dirs), len(sc.Pods), err)
	}
}

// The tricks must not change the work.
func TestHonestTwin(t *testing.T) {
	cheating, honest, names := simnode.Cheats()
	if len(names) != len(cheating.GPUs) {
		t.Errorf("%d GPUs, %d tricks, want one trick per GPU", len(cheating.GPUs), len(names))
	}
	if got, want := loads(cheating), loads(honest); got != want {
		t.Errorf("load on each GPU with tricks: %v, without tricks: %v", got, want)
	}
}

func loads(sc simnode.Scenario) (sum [8]int) {
	processes := make([]simnode.Process, 0, len(sc.Daemons))
	for _, d := range sc.Daemons {
		processes = append(processes, d.Process)
	}
	for _, p := range sc.Pods {
		for _, c := range p.Containers {
			processes = append(processes, c.Processes...)
		}
	}
	for _, p := range processes {
		for _, w := range p.Work {
			sum[w.GPU] += w.Watts * w.Load.High
		}
	}
	return sum
}
