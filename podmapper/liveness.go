package podmapper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unique"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/proc"
)

// settleTime is the time for which a process must be observed before its cgroup is final. The runtime starts a
// container's first process outside the container and moves it into the container before it runs the container's
// program.
const settleTime = 5 * time.Second

// maxPodProcesses is the maximum number of processes that are stored for each pod to check whether the pod is alive.
const maxPodProcesses = 8

// podProcesses contains processes by pod UID, the oldest process first. A pod is alive while at least one of its
// processes is alive. If the pod has a pause process, this process is the oldest process and exists as long as the pod.
type podProcesses map[string][]gpu.ProcessID

// podScan finds the live pods. A pod is live if the cgroup of a process, such as the pause process, belongs to the pod.
// podScan does not read the cgroup of a known process again if the start time of the process is unchanged. A podScan is
// not safe for concurrent use.
type podScan struct {
	tree proc.Tree
	seen []scanned // processes in the last scan, sorted by PID
}

type scanned struct {
	gpu.ProcessID
	cgroup unique.Handle[cgroup]
	first  time.Duration // boot-clock time at which the process was first seen
	final  bool          // set when the cgroup of the process counts as final
}

// scan reads all processes and returns the live pods. If a process cannot be read, scan continues and returns the first
// such error. When ctx ends, scan stops without a result, because reading thousands of processes can take longer than a
// shutdown may take.
func (s *podScan) scan(ctx context.Context, now time.Duration) (live podProcesses, err error) {
	pids, err := s.tree.PIDs()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	live = make(podProcesses)
	seen := make([]scanned, 0, len(pids))
	var unreadable int
	var first error
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, err := s.readProcess(pid, now)
		if errors.Is(err, proc.ErrGone) {
			continue
		}
		if err != nil {
			unreadable++
			if first == nil {
				first = err
			}
			continue
		}
		seen = append(seen, p)
		if uid := p.cgroup.Value().podUID; uid != "" {
			live.add(uid, p.ProcessID)
		}
	}
	s.seen = seen
	if unreadable > 0 {
		err = fmt.Errorf("cannot read %d of %d processes: %w", unreadable, len(pids), first)
	}
	return live, err
}

// add adds a process to a pod. It keeps only the maxPodProcesses oldest processes of the pod.
func (w podProcesses) add(uid string, id gpu.ProcessID) {
	list := w[uid]
	i, _ := slices.BinarySearchFunc(list, id, func(a, b gpu.ProcessID) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID))
	})
	if i < maxPodProcesses {
		w[uid] = slices.Insert(list[:min(len(list), maxPodProcesses-1)], i, id)
	}
}

func (w podProcesses) uids() map[string]bool {
	uids := make(map[string]bool, len(w))
	for uid := range w {
		uids[uid] = true
	}
	return uids
}

func anyAlive(tree proc.Tree, list []gpu.ProcessID) bool {
	return slices.ContainsFunc(list, func(id gpu.ProcessID) bool {
		st, err := tree.Stat(id.PID)
		return err == nil && !st.Exiting && st.Start == id.Start
	})
}

// readProcess treats an exiting process as ended, so that this process does not keep its pod alive.
func (s *podScan) readProcess(pid uint32, now time.Duration) (scanned, error) {
	st, err := s.tree.Stat(pid)
	if err != nil {
		return scanned{}, err
	}
	if st.Exiting {
		return scanned{}, proc.ErrGone
	}
	old, ok := s.lastScanned(gpu.ProcessID{PID: pid, Start: st.Start})
	if ok && old.final {
		return old, nil
	}
	st, c, err := readCgroup(s.tree, pid, st)
	if st.Exiting { // the process began to exit after the first stat
		return scanned{}, proc.ErrGone
	}
	if err != nil {
		return scanned{}, err
	}
	p := scanned{ProcessID: gpu.ProcessID{PID: pid, Start: st.Start}, cgroup: c, first: now}
	if ok && old.ProcessID == p.ProcessID {
		p.first = old.first
		p.final = now-old.first >= settleTime
	}
	return p, nil
}

func (s *podScan) lastScanned(id gpu.ProcessID) (scanned, bool) {
	i, ok := slices.BinarySearchFunc(s.seen, id.PID, func(p scanned, pid uint32) int { return cmp.Compare(p.PID, pid) })
	if !ok || s.seen[i].Start != id.Start {
		return scanned{}, false
	}
	return s.seen[i], true
}
