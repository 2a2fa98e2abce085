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

// Unit is a job, a container outside pods, a service or a user.
type Unit struct {
	gpu.Unit
	// Cgroup is the path of the unit's cgroup in the unified hierarchy. The path Below of each process is appended to
	// it. Alternatively, Cgroup contains the lines of a cgroup file, with %s in place of Below.
	Cgroup    string
	Processes []Process
	Devices   []Device // devices that the unit holds
	// Files contains files that exist as long as the unit, by path below the node's directory. On a real machine, a
	// prolog or a container engine writes them.
	Files map[string]string
	Span
}

// withUnits turns units into pods, so that they start, end and use energy like pods.
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

// cgroup returns the content of the cgroup file for a process in the unit.
func (u *Unit) cgroup(below string) string {
	if strings.Contains(u.Cgroup, "%s") {
		return strings.ReplaceAll(u.Cgroup, "%s", below)
	}
	return u.Cgroup + below
}

// Another unit may already have removed a file.
func removeNodeFiles(dir string, files map[string]string) error {
	for name := range files {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Prologs write to heldDir. dockerRoot and podmanRoot are the directories of the container engines. All three are below
// the node's directory.
const (
	heldDir    = "held"
	dockerRoot = "docker"
	podmanRoot = "podman"
)

// Prologs exist only on Slurm nodes.
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
