package podmapper

import (
	"context"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// pods is an answer of the Pods API. Nil is no answer.
type pods struct {
	byUID map[string]*pod
	// byName holds, for each name, the pods that bear it.
	byName map[podName][]*pod
	asked  time.Duration // when it was asked for, on the boot clock
}

func newPods(list []pod, asked time.Duration) *pods {
	ps := &pods{make(map[string]*pod, len(list)), make(map[podName][]*pod, len(list)), asked}
	for i := range list {
		p := &list[i]
		ps.byUID[p.uid] = p
		ps.byName[p.podName] = append(ps.byName[p.podName], p)
	}
	return ps
}

// uids returns the UIDs of the listed pods. The list is older than this answer and
// younger than the one before. So a name that had another pod then is left out:
// the list may speak of either.
func (ps *pods) uids(listed map[podName]devices, before *pods) map[podName]string {
	uids := make(map[podName]string, len(listed))
	for name := range listed {
		p := ps.named(name)
		if p == nil || before != nil && !before.allowed(name, p.uid) {
			continue
		}
		uids[name] = p.uid
	}
	return uids
}

// named returns the pod of a name, or nil if it is ambiguous which one
// does. A pod that has ended may still be there beside its successor.
func (ps *pods) named(name podName) *pod {
	found := ps.byName[name]
	var alive []*pod
	for _, p := range found {
		if p.alive() {
			alive = append(alive, p)
		}
	}
	switch {
	case len(alive) == 1:
		return alive[0]
	case len(found) == 1:
		return found[0]
	}
	return nil
}

// allowed reports whether the name belonged to the given pod, or to no living pod.
func (ps *pods) allowed(name podName, uid string) bool {
	b := ps.named(name)
	return len(ps.byName[name]) == 0 || b != nil && b.uid == uid
}

// liveUIDs returns the UIDs of the pods that hold their devices.
func (ps *pods) liveUIDs() map[string]bool {
	live := make(map[string]bool, len(ps.byUID))
	for uid, p := range ps.byUID {
		if p.alive() {
			live[uid] = true
		}
	}
	return live
}

// overrule corrects what logs say of who lives.
func (ps *pods) overrule(live map[string]bool) {
	if ps == nil {
		return
	}
	for uid, p := range ps.byUID {
		if p.alive() {
			live[uid] = true
		} else {
			delete(live, uid)
		}
	}
}

// addTo adds the pods to those that may bear their names.
func (ps *pods) addTo(known candidates) {
	if ps == nil {
		return
	}
	for uid, p := range ps.byUID {
		known.add(p.podName, uid, false)
	}
}

// resourceOf returns the resource by which the claim of a holding was asked for.
func (ps *pods) resourceOf(uid, container, claim string) string {
	if ps == nil || ps.byUID[uid] == nil {
		return ""
	}
	return ps.byUID[uid].resourceOf(container, claim)
}

// containers returns the containers whose ids are known.
func (ps *pods) containers() []logLink {
	var list []logLink
	for _, p := range ps.byUID {
		for _, s := range p.statuses {
			if s.id != "" && validName(s.name) {
				list = append(list, logLink{p.named(s.name), s.id})
			}
		}
	}
	return list
}

// alone returns, by UID, the container of each pod that has only one, be it of any
// kind, which was started.
func (ps *pods) alone() map[string]gpu.Owner {
	alone := make(map[string]gpu.Owner)
	for uid, p := range ps.byUID {
		if len(p.containers) == 1 && len(p.statuses) == 1 && p.statuses[0].name == p.containers[0] && validName(p.containers[0]) {
			alone[uid] = p.named(p.containers[0])
		}
	}
	return alone
}

// listPods asks the Pods API, if there is one. The answer is nil otherwise, and when
// the call failed.
func (m *Mapper) listPods(ctx context.Context) (*pods, error) {
	if !m.podsAPI.present() {
		return nil, nil
	}
	began := m.cfg.Now()
	list, err := m.podsAPI.list(ctx)
	if ctx.Err() != nil { // nobody's fault
		return nil, ctx.Err()
	}
	m.cfg.Stages.Observe(stage.PodsAPI, began, err)
	if err != nil {
		return nil, err
	}
	ps := newPods(list, began.Boot)
	m.names.learn(ps.containers(), ps.alone(), began.Boot)
	return ps, nil
}
