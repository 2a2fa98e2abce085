package app

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/cli"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/internal/unit"
	"github.com/gpuledger/gpuledger/podmapper"
)

// Units is the configuration for owners that are not pods.
type Units struct {
	Managers   cli.List
	Dirs       cli.List
	Patterns   unit.Patterns
	Max        int
	Users      unit.Users
	HeldDirs   cli.List
	Numbers    unit.Numbers
	DockerRoot string
	PodmanRoot string
	PodmanRun  string
	Containerd string
	Rootless   string
	// Known contains the managers that are built into the program or defined by the files in Dirs. If Known is nil,
	// only the built-in managers are known.
	Known []unit.Manager
}

// These values of --units stand for several managers, or for none.
const (
	unitsAuto = auto
	unitsNone = "none"
)

func (u *Units) register(fs *flag.FlagSet) {
	fs.TextVar(&u.Managers, "units", cli.List{unitsAuto}, "`managers` whose units are charged energy: any of "+strings.Join(unit.Managers, ", ")+"; none; or auto, which is slurm on Kubernetes nodes and all elsewhere")
	fs.TextVar(&u.Dirs, "units.managers", cli.List{"/usr/share/gpuledger/managers.d", "/etc/gpuledger/managers.d"}, "comma-separated `directories` with files that define managers; a file replaces the file of the same name in earlier directories, and the built-in file of the same name")
	fs.Var(&u.Patterns, "units.pattern", "`manager=path` defines another manager by a path pattern, in the syntax of the files in --units.managers; the group of the pattern matches the unit's name (repeatable)")
	fs.IntVar(&u.Max, "units.max", 1000, "`maximum` number of units with their own series; the other units are summed up in unit=\"other\"")
	fs.TextVar(&u.Users, "units.users", unit.UsersUID, "`data` about users that the pages show: uid, name or none")
	fs.TextVar(&u.HeldDirs, "units.held-dir", cli.List{}, "comma-separated `directories` in which Slurm prologs list the GPUs that each job holds")
	fs.TextVar(&u.Numbers, "units.held-numbers", unit.Index, "`meaning` of the numbers of GPUs in --units.held-dir: index (in the driver's order), minor (n in /dev/nvidia<n>), minor:LIST (a position in a list of minor numbers, such as minor:4-7), or amd (position among AMD's GPUs and partitions); a number n of 128 or more means /dev/dri/renderD<n>")
	fs.StringVar(&u.DockerRoot, "units.docker-root", "/var/lib/docker", "data `directory` of Docker")
	fs.StringVar(&u.PodmanRoot, "units.podman-root", "/var/lib/containers/storage", "data `directory` of root's Podman")
	fs.StringVar(&u.Containerd, "units.containerd-run", "/run/containerd", "state `directory` of containerd, to read the names of nerdctl's containers")
	fs.StringVar(&u.Rootless, "units.rootless-dir", "/run/gpuledger-names", "`directory` in which trusted users name their rootless containers, with one file per uid; if empty, units of these containers are named by container id")
	fs.StringVar(&u.PodmanRun, "units.podman-run", "/run/containers/storage", "`directory` for temporary data of root's Podman")
}

func (u *Units) load() error {
	known, err := unit.LoadManagers(u.Dirs)
	if err != nil {
		return fmt.Errorf("--units.managers: %w", err)
	}
	u.Known = known
	return nil
}

func (u *Units) names() []string {
	if u.Known == nil {
		return unit.Managers
	}
	return unit.Names(u.Known)
}

func (u *Units) validate() error {
	errs := []error{u.load()}
	known := append([]string{unitsAuto, unitsNone}, u.names()...)
	for _, m := range u.Managers {
		if !slices.Contains(known, m) || len(u.Managers) > 1 && (m == unitsAuto || m == unitsNone) {
			errs = append(errs, fmt.Errorf("--units=%s: must be auto, none, or a list of %q", m, u.names()))
		}
	}
	if u.Max < 1 {
		errs = append(errs, fmt.Errorf("--units.max=%d: must be at least 1; use --units=none for no units", u.Max))
	}
	for name, paths := range map[string][]string{
		"managers": u.Dirs, "held-dir": u.HeldDirs, "docker-root": {u.DockerRoot}, "podman-root": {u.PodmanRoot}, "podman-run": {u.PodmanRun}, "containerd-run": {u.Containerd},
		"rootless-dir": {cmp.Or(u.Rootless, "/")},
	} {
		for _, p := range paths {
			if !filepath.IsAbs(p) {
				errs = append(errs, fmt.Errorf("--units.%s=%s: must be an absolute path", name, p))
			}
		}
	}
	return errors.Join(errs...)
}

// managers returns the names of the selected managers. The meaning of auto depends on whether the machine has a
// kubelet.
func (u *Units) managers(kubelet bool) []string {
	switch {
	case slices.Contains(u.Managers, unitsNone):
		return nil
	case !slices.Contains(u.Managers, unitsAuto):
		return u.Managers
	case kubelet:
		return []string{unit.Slurm}
	}
	return u.names()
}

func (c *Config) units(pods *podmapper.Mapper, now gpu.Clock, log *slog.Logger, stages *stage.Set) unit.Config {
	u := unit.Config{
		ProcFS: c.ProcFS, Known: c.Units.Known, Managers: c.Units.managers(c.PodResources != ""), Patterns: c.Units.Patterns,
		Max: c.Units.Max, Keep: c.Retention + 10*time.Minute, Users: c.Units.Users, Passwd: "/etc/passwd",
		HeldDirs: c.Units.HeldDirs, Numbers: c.Units.Numbers,
		DockerRoot: c.Units.DockerRoot, PodmanRoots: []string{c.Units.PodmanRoot, c.Units.PodmanRun}, ContainerdRun: c.Units.Containerd,
		RootlessDir: c.Units.Rootless,
		Now:         now, Log: log, Stages: stages,
	}
	if c.PodResources != "" {
		u.Pods, u.IsPod = pods, podmapper.IsPod
	}
	return u
}

type allocations struct {
	*podmapper.Mapper
	units *unit.Mapper
}

// Allocations implements [sampler.Mapper].
func (a allocations) Allocations() gpu.Allocations {
	return a.units.Allocations(a.Mapper.Allocations())
}

// Units implements [sampler.Mapper].
func (a allocations) Units() map[gpu.Unit]gpu.UnitInfo { return a.units.Units() }

// Used implements [sampler.Mapper].
func (a allocations) Used(devices []gpu.Device, by map[gpu.Owner][]string) { a.units.Used(devices, by) }
