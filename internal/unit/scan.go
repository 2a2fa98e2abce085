package unit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/proc"
)

// settleTime is the time after which the cgroup of a process counts as final. Runtimes start a process outside the unit
// and then move it into the unit.
const settleTime = 5 * time.Second

// scan finds the units that have a process. A cgroup does not prove that a unit is alive, because a cgroup can exist
// longer than its processes. scan does not read a process again if the process has not changed since the last scan.
// scan is not safe for concurrent use.
type scan struct {
	tree   proc.Tree
	parser *parser
	// parented returns a possible container id; see [Mapper.ofEngine].
	parented func(m match, isUnit bool, cgroup string) string
	services bool // set if services are units
	seen     map[gpu.ProcessID]scanned
}

type scanned struct {
	match
	isUnit bool
	// parented is a result of [scan.parented].
	parented string
	// hidden is a service with an unknown owner; see [hiddenService].
	hidden string
	job    string        // job of a Slurm step's daemon
	first  time.Duration // boot-clock time at which the process was first seen
	final  bool
}

type live struct {
	// units contains some of the processes of each unit, oldest first.
	units map[match][]gpu.ProcessID
	// jobs contains the job ids by SLUID.
	jobs map[string]string
	// parented contains some of the processes whose cgroup contains a possible container id, by this id. They belong to
	// a container only if an engine lists a container with this id.
	parented map[string][]gpu.ProcessID
}

// run reads all processes. If a process cannot be read, run continues with the other processes, and returns the first
// failure. If ctx ends, run returns no result.
func (s *scan) run(ctx context.Context, now time.Duration) (found live, err error) {
	pids, err := s.tree.PIDs()
	if err != nil {
		return found, fmt.Errorf("list processes: %w", err)
	}
	found = live{make(map[match][]gpu.ProcessID), make(map[string]string), make(map[string][]gpu.ProcessID)}
	seen := make(map[gpu.ProcessID]scanned, len(pids))
	for _, pid := range pids {
		if ctx.Err() != nil {
			return live{}, ctx.Err()
		}
		id, p, readErr := s.read(pid, now)
		if readErr != nil {
			if !errors.Is(readErr, proc.ErrGone) && err == nil {
				err = readErr
			}
			continue
		}
		seen[id] = p
		if p.hidden != "" && err == nil {
			err = fmt.Errorf("%s is in an unknown slice, because the exporter has its own cgroup namespace: start the exporter's container with --cgroupns=host", p.hidden)
		}
		if p.parented != "" {
			add(found.parented, p.parented, id)
		}
		if !p.isUnit {
			continue
		}
		add(found.units, p.unit(), id)
		if p.job != "" {
			found.jobs[p.id] = p.job
		}
	}
	s.seen = seen
	return found, err
}

// maxProcesses is the maximum number of processes that are remembered for each unit. The mapper uses them to check
// whether the unit is alive.
const maxProcesses = 8

// add keeps the maxProcesses oldest processes of the unit.
func add[U comparable](units map[U][]gpu.ProcessID, u U, id gpu.ProcessID) {
	list := units[u]
	i, _ := slices.BinarySearchFunc(list, id, func(a, b gpu.ProcessID) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID))
	})
	if i < maxProcesses {
		units[u] = slices.Insert(list[:min(len(list), maxProcesses-1)], i, id)
	}
}

func anyAlive(tree proc.Tree, list []gpu.ProcessID) bool {
	return slices.ContainsFunc(list, func(id gpu.ProcessID) bool {
		st, err := tree.Stat(id.PID)
		return err == nil && !st.Exiting && st.Start == id.Start
	})
}

// unit returns the process's match without the fields that describe only the process.
func (s scanned) unit() match {
	m := s.match
	m.daemon, m.uid = false, ""
	return m
}

// read treats an exiting process as ended.
func (s *scan) read(pid uint32, now time.Duration) (id gpu.ProcessID, p scanned, err error) {
	st, err := s.tree.Stat(pid)
	if err != nil {
		return id, p, err
	}
	if st.Exiting || st.Kernel {
		return id, p, proc.ErrGone
	}
	old, known := s.seen[gpu.ProcessID{PID: pid, Start: st.Start}]
	if known && old.final {
		return gpu.ProcessID{PID: pid, Start: st.Start}, old, nil
	}
	st, cgroup, err := s.tree.Cgroup(pid, st)
	if err != nil {
		return id, p, err
	}
	id = gpu.ProcessID{PID: pid, Start: st.Start}
	p.first = now
	if known {
		p.first = old.first
	}
	p.match, p.isUnit = s.parser.parse(cgroup)
	p.parented = s.parented(p.match, p.isUnit, cgroup)
	if !p.isUnit && s.services {
		p.hidden = hiddenService(cgroup)
	}
	p.final = now-p.first >= settleTime
	if p.isUnit && p.daemon && isSLUID(p.id) && st.Name == stepDaemon {
		title, _ := s.tree.Cmdline(pid) // empty if the process is exiting
		p.job = jobOfTitle(title)
		p.final = p.final && p.job != ""
	}
	return id, p, nil
}

const stepDaemon = "slurmstepd"

// stepTitle matches the title of a step's daemon, slurmstepd: [<job id>.<step>]. The daemon sets it before it starts
// the job's processes (slurmstepd.c).
var stepTitle = regexp.MustCompile(`^slurmstepd: \[([0-9]{1,10})\.`)

func jobOfTitle(title string) string {
	m := stepTitle.FindStringSubmatch(title)
	if m == nil || !isNumber(m[1]) {
		return ""
	}
	return m[1]
}
