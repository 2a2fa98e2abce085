package simnode

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Unit is a job, container, service or user outside pods.
type Unit struct {
	gpu.Unit
	// Cgroup is the path in the unified hierarchy, to which the Below of each process is appended. It
	// may also be the lines of a cgroup file with %s in place of Below.
	Cgroup    string
	Processes []Process
	Devices   []Device // held
	// Files contains files that exist while the unit exists, by their path below the directory of the
	// node. A prolog or a container engine writes such files.
	Files map[string]string
	Span
}

// withUnits returns the scenario with its units as pods, so that they start, end and are charged in
// the same way.
func (sc Scenario) withUnits() Scenario {
	sc.Pods = append([]Pod(nil), sc.Pods...)
	for i := range sc.Units {
		u := &sc.Units[i]
		sc.Pods = append(sc.Pods, Pod{
			Namespace: u.Manager, Name: u.Name, Span: u.Span, Unit: u,
			Containers: []Container{{Devices: u.Devices, Processes: u.Processes}},
		})
	}
	return sc
}

// cgroup returns the content of a process's cgroup file.
func (u *Unit) cgroup(below string) string {
	if strings.Contains(u.Cgroup, "%s") {
		return strings.ReplaceAll(u.Cgroup, "%s", below)
	}
	return u.Cgroup + below
}

// removeNodeFiles removes files; another unit may have removed them before.
func removeNodeFiles(dir string, files map[string]string) error {
	for name := range files {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// heldDir is the directory of prologs, and dockerRoot and podmanRoot are the directories of the
// container engines, below the directory of the node.
const (
	heldDir    = "held"
	dockerRoot = "docker"
	podmanRoot = "podman"
)

// unitFlags returns the exporter's flags for units. Only a Slurm node has a prolog.
func (n *Node) unitFlags() (flags []string) {
	if slices.ContainsFunc(n.world.scenario.Units, func(u Unit) bool { return u.Manager == "slurm" }) {
		flags = []string{"--units.held-dir=" + filepath.Join(n.dir, heldDir)}
	}
	return append(flags,
		"--units.docker-root="+filepath.Join(n.dir, dockerRoot),
		"--units.podman-root="+filepath.Join(n.dir, podmanRoot),
		"--units.podman-run="+filepath.Join(n.dir, podmanRoot),
	)
}
