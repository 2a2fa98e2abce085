package unit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/owner"
	"github.com/gpuledger/gpuledger/internal/proc"
)

// Explanation describes why a process belongs to its owner. Rules contains a rule for each manager.
type Explanation struct {
	Process string
	Cgroup  string // content of the cgroup file of the process
	Owner   string // manager/unit, or the kind of another owner
	Rules   []Rule
}

// Rule is the result for one manager. Reason describes why the manager did or did not determine the owner. It is empty
// if no path of the manager matches.
type Rule struct {
	Manager, File, Reason string
	Decided               bool
}

// Explain returns the owner of a process. For each manager, it also returns why the manager did or did not determine
// the owner. [Mapper.Refresh] must be called first.
func (m *Mapper) Explain(ctx context.Context, pid uint32) (e Explanation, err error) {
	st, err := m.tree.Stat(pid)
	if err != nil {
		return e, err
	}
	st, cgroup, err := m.tree.Cgroup(pid, st)
	if err != nil {
		return e, err
	}
	e.Process, e.Cgroup = st.Name, cgroup
	p := owner.Process{ProcessID: gpu.ProcessID{PID: pid, Start: st.Start}, First: m.cfg.Now().Boot - 2*nameAfter, Cgroup: cgroup}
	o := gpu.Owner{Kind: gpu.OwnerHost}
	if resolve := m.Resolve(p); resolve != nil {
		answer := resolve()
		o = answer.Owner
		if answer.Unit != (gpu.Unit{}) {
			e.Owner = " with " + answer.Unit.Owner().UID
		}
	}
	decided := ""
	if o.Kind == gpu.OwnerUnit {
		e.Owner, decided = o.UID+e.Owner, o.Scope
	} else {
		e.Owner = o.Kind.String() + e.Owner
	}
	for i := range m.parser.managers {
		e.Rules = append(e.Rules, m.rule(&m.parser.managers[i], cgroup, decided))
	}
	return e, ctx.Err()
}

// decided is the manager that determined the owner, or empty if there is none.
func (m *Mapper) rule(manager *Manager, cgroup, decided string) Rule {
	r := Rule{Manager: manager.Name, File: manager.File}
	alone := parser{[]Manager{*manager}, m.parser.isPod}
	u, matched := alone.parse(cgroup)
	switch {
	case !m.enabled(manager.Name):
		r.Reason = "--units omits this manager"
	case matched && manager.Name == decided:
		r.Decided, r.Reason = true, m.patternOf(manager, cgroup, u)
	case matched && u.inPod:
		r.Reason = fmt.Sprintf("%s/%s is a part of the pod", manager.Name, u.id)
	case matched:
		r.Reason = fmt.Sprintf("finds %s/%s, but another unit is nearer to the root of the cgroup path or has precedence", manager.Name, u.id)
	case manager.Name == decided:
		r.Decided, r.Reason = true, "the cgroup contains the id of this manager's container"
	default:
		r.Reason = belowOwner(manager, cgroup)
	}
	return r
}

func (m *Mapper) patternOf(manager *Manager, cgroup string, u match) string {
	for _, p := range manager.Paths {
		one := *manager
		one.Paths = []Pattern{p}
		alone := parser{[]Manager{one}, m.parser.isPod}
		if found, ok := alone.parse(cgroup); ok && found.id == u.id {
			return "path = " + p.text
		}
	}
	switch manager.Name {
	case Systemd:
		return "a service in a slice of the system"
	case User:
		return "a slice of a user"
	}
	return "several paths" // the paths are in several lines of the cgroup file
}

// belowOwner returns why a manager finds no unit in a cgroup file although one of its paths matches. It returns "" if
// no path matches.
func belowOwner(manager *Manager, cgroup string) string {
	for segments, err := range proc.Paths(cgroup) {
		if err != nil {
			return "the cgroup file is malformed"
		}
		for _, p := range manager.Paths {
			i := p.anywhere(segments)
			if i <= 0 {
				continue
			}
			above := segments[:i]
			at := slices.IndexFunc(above, func(s string) bool { return proc.IsUserSlice(s) && s != "user.slice" || !isParent(s) })
			if at < 0 {
				at = i - 1
			}
			if uid, ok := strings.CutPrefix(strings.TrimSuffix(above[at], ".service"), "user@"); ok {
				return fmt.Sprintf("a path of this manager matches below %s, but the user chooses the names there; a line uid = %s in the manager's file would trust this user", above[at], uid)
			}
			return fmt.Sprintf("a path of this manager matches below %s, but the owner of this cgroup chooses the names there", above[at])
		}
	}
	return ""
}

func (p *Pattern) anywhere(segments []string) int {
	for i := range segments {
		if _, ok := p.match(segments, i); ok {
			return i
		}
	}
	return -1
}
