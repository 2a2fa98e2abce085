package podmapper

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// settleTime is how long a process is watched before its cgroup is taken for
// granted. A container's first process is started by the runtime outside the
// container and moved there before it runs the container's program.
const settleTime = 5 * time.Second

// podScan finds the pods that are alive: those that some process's cgroup names,
// the pause process included. A process that is the same as before (its start
// time proves it) is not read again. It is not safe for concurrent use.
type podScan struct {
	proc procTree
	seen map[uint32]sighting
}

// sighting is what an earlier scan found out about a process.
type sighting struct {
	start  uint64
	podUID string
	first  time.Duration // when it was first seen, on the boot clock
	final  bool          // podUID will not change any more
}

// scan looks at all processes and returns the UIDs of the living pods. A process
// that cannot be read does not hurt the others; the error tells of the first. If
// ctx ends, so does the scan, without a result: thousands of processes take longer
// than the end of the program may.
func (s *podScan) scan(ctx context.Context, now time.Duration) (live map[string]bool, err error) {
	pids, err := s.proc.pids()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	live = make(map[string]bool)
	seen := make(map[uint32]sighting, len(pids))
	var unread int
	var first error
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, err := s.look(pid, now)
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			unread++
			if first == nil {
				first = err
			}
			continue
		}
		seen[pid] = p
		if p.podUID != "" {
			live[p.podUID] = true
		}
	}
	s.seen = seen
	if unread > 0 {
		err = fmt.Errorf("%d of %d processes unreadable: %w", unread, len(pids), first)
	}
	return live, err
}

// look reads one process, as far as needed. One that is exiting counts as gone:
// it keeps no pod alive.
func (s *podScan) look(pid uint32, now time.Duration) (sighting, error) {
	st, err := s.proc.stat(pid)
	if err != nil {
		return sighting{}, err
	}
	if st.exiting {
		return sighting{}, errGone
	}
	old, ok := s.seen[pid]
	if ok && old.start == st.start && old.final {
		return old, nil
	}
	st, c, err := s.proc.cgroupOf(pid, st)
	if err != nil {
		return sighting{}, err
	}
	p := sighting{start: st.start, podUID: c.podUID, first: now}
	if ok && old.start == st.start {
		p.first = old.first
		p.final = now-old.first >= settleTime
	}
	return p, nil
}
