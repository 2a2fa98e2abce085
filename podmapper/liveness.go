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

// settleTime is how long a process is watched before its cgroup is taken for
// granted. A container's first process is started by the runtime outside the
// container and moved there before it runs the container's program.
const settleTime = 5 * time.Second

// maxPodProcesses is how many processes of a pod are remembered as proof of its
// life.
const maxPodProcesses = 8

// podProcesses are processes, oldest first, whose life proves that of their pod, by its
// UID. The first is the pause process, where there is one, which lives as long as
// its pod.
type podProcesses map[string][]gpu.ProcessID

// podScan finds the pods that are alive: those that some process's cgroup names,
// the pause process included. A process that is the same as before (its start
// time proves it) is not read again. It is not safe for concurrent use.
type podScan struct {
	tree proc.Tree
	seen []sighting // in the last scan, by PID
}

// sighting is what a scan found out about a process.
type sighting struct {
	gpu.ProcessID
	cgroup unique.Handle[cgroup]
	first  time.Duration // when it was first seen, on the boot clock
	final  bool          // its pod will not change any more
}

// scan looks at all processes and returns the living pods. A process
// that cannot be read does not hurt the others; the error tells of the first. If
// ctx ends, so does the scan, without a result: thousands of processes take longer
// than the end of the program may.
func (s *podScan) scan(ctx context.Context, now time.Duration) (live podProcesses, err error) {
	pids, err := s.tree.PIDs()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	live = make(podProcesses)
	seen := make([]sighting, 0, len(pids))
	var unread int
	var first error
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, err := s.look(pid, now)
		if errors.Is(err, proc.ErrGone) {
			continue
		}
		if err != nil {
			unread++
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
	if unread > 0 {
		err = fmt.Errorf("%d of %d processes unreadable: %w", unread, len(pids), first)
	}
	return live, err
}

// add adds a process of a pod, unless there are many that are older.
func (w podProcesses) add(uid string, id gpu.ProcessID) {
	list := w[uid]
	i, _ := slices.BinarySearchFunc(list, id, func(a, b gpu.ProcessID) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID))
	})
	if i < maxPodProcesses {
		w[uid] = slices.Insert(list[:min(len(list), maxPodProcesses-1)], i, id)
	}
}

// uids returns the UIDs of the pods.
func (w podProcesses) uids() map[string]bool {
	uids := make(map[string]bool, len(w))
	for uid := range w {
		uids[uid] = true
	}
	return uids
}

// anyAlive reports whether one of the processes still lives.
func anyAlive(tree proc.Tree, list []gpu.ProcessID) bool {
	return slices.ContainsFunc(list, func(id gpu.ProcessID) bool {
		st, err := tree.Stat(id.PID)
		return err == nil && !st.Exiting && st.Start == id.Start
	})
}

// look reads one process, as far as needed. One that is exiting counts as gone:
// it keeps no pod alive.
func (s *podScan) look(pid uint32, now time.Duration) (sighting, error) {
	st, err := s.tree.Stat(pid)
	if err != nil {
		return sighting{}, err
	}
	if st.Exiting {
		return sighting{}, proc.ErrGone
	}
	old, ok := s.before(gpu.ProcessID{PID: pid, Start: st.Start})
	if ok && old.final {
		return old, nil
	}
	st, c, err := readCgroup(s.tree, pid, st)
	if err != nil {
		return sighting{}, err
	}
	p := sighting{ProcessID: gpu.ProcessID{PID: pid, Start: st.Start}, cgroup: c, first: now}
	if ok && old.ProcessID == p.ProcessID {
		p.first = old.first
		p.final = now-old.first >= settleTime
	}
	return p, nil
}

// before returns what the last scan found out about a process.
func (s *podScan) before(id gpu.ProcessID) (sighting, bool) {
	i, ok := slices.BinarySearchFunc(s.seen, id.PID, func(p sighting, pid uint32) int { return cmp.Compare(p.PID, pid) })
	if !ok || s.seen[i].Start != id.Start {
		return sighting{}, false
	}
	return s.seen[i], true
}
