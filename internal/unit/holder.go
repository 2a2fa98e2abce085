package unit

import (
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

type heldDir struct{ path, manager string }

func slurmDirs(paths ...string) (dirs []heldDir) {
	for _, p := range paths {
		dirs = append(dirs, heldDir{p, Slurm})
	}
	return dirs
}

func (cfg *Config) heldDirs() []heldDir {
	dirs := slurmDirs(cfg.HeldDirs...)
	for _, m := range cfg.known() {
		for _, path := range m.Held {
			dirs = append(dirs, heldDir{path, m.Name})
		}
	}
	return dirs
}

// jobKey identifies a unit in the files that list GPUs. The key is the job id for a Slurm job, and manager/unit for
// another unit.
type jobKey string

func keyOf(u gpu.Unit) jobKey {
	if u.Manager == Slurm {
		return jobKey(u.Name)
	}
	return jobKey(u.Manager + "/" + u.Name)
}

func (k jobKey) unit() gpu.Unit {
	if manager, name, ok := strings.Cut(string(k), "/"); ok {
		return gpu.Unit{Manager: manager, Name: name}
	}
	return gpu.Unit{Manager: Slurm, Name: string(k)}
}

func (d heldDir) key(name string) jobKey { return keyOf(gpu.Unit{Manager: d.manager, Name: name}) }

// isJob reports whether the name of a file can be the name of a unit. Other files are ignored, because they may be
// incomplete.
func (d heldDir) isJob(name string) bool {
	if d.manager == Slurm {
		return isNumber(name)
	}
	return validName(name) && name[0] != '.'
}

// parseJob parses manager/unit, or the name of a unit of the given manager.
func parseJob(s, manager string) (jobKey, bool) {
	if other, name, ok := strings.Cut(s, "/"); ok {
		manager, s = other, name
	}
	d := heldDir{manager: manager}
	return d.key(s), managerName.MatchString(manager) && d.isJob(s)
}
