package unit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Check is the doctor's result for one manager on this machine.
type Check struct {
	Manager string
	// Enabled is set if units of the manager get metrics.
	Enabled bool
	// Units is the number of units that have a process. Example is one of these units, and PID is its oldest known
	// process.
	Units   int
	Example string
	PID     uint32
	// Problem describes units with an unknown name. It is empty if all names are known.
	Problem string
}

// Checks returns a result for each manager. The results are based on the units of the last [Mapper.Refresh].
func (m *Mapper) Checks() (all []Check) {
	m.refresh.Lock()
	defer m.refresh.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	units := make(map[string]map[gpu.Unit]gpu.ProcessID)
	problems := make(map[string]string)
	for c, processes := range m.found.units {
		name := c.id
		if !c.named() {
			if name = cmp.Or(m.jobs[c.id].name, m.names[c.key()].name); name == "" {
				name = c.id
				problems[c.manager] = fmt.Sprintf("%.14s has no name: %s", c.id, m.unnamed(c))
			}
		}
		if units[c.manager] == nil {
			units[c.manager] = make(map[gpu.Unit]gpu.ProcessID)
		}
		units[c.manager][gpu.Unit{Manager: c.manager, Name: name}] = processes[0]
	}
	for _, name := range Names(m.parser.managers) {
		check := Check{Manager: name, Enabled: m.enabled(name), Units: len(units[name])}
		if check.Enabled {
			check.Problem = problems[name]
		}
		for u, id := range units[name] {
			if check.Example == "" || u.Owner().UID < check.Example {
				check.Example, check.PID = u.Owner().UID, id.PID
			}
		}
		all = append(all, check)
	}
	slices.SortFunc(all, func(a, b Check) int { return strings.Compare(a.Manager, b.Manager) })
	return all
}

func (m *Mapper) unnamed(c match) string {
	if c.account != "" {
		return fmt.Sprintf("the file of the user %s below --units.rootless-dir does not name the container", c.account)
	}
	return unnamed[c.manager]
}

var unnamed = map[string]string{
	Slurm:   "no slurmstepd process has the job id in its title",
	Nerdctl: "containerd's files below --units.containerd-run do not contain nerdctl's name of the container",
	Docker:  "no file below --units.docker-root describes the container",
	Podman:  "Podman's container lists below --units.podman-root do not name the container",
}
