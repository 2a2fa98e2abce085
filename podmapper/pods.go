package podmapper

import (
	"context"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// pods is a response of the Pods API, or nil if there is no response.
type pods struct {
	byUID map[string]*pod
	// byName may contain several pods with the same name.
	byName    map[podName][]*pod
	requested time.Duration // boot-clock time at which the response was requested
}

func newPods(list []pod, requested time.Duration) *pods {
	ps := &pods{make(map[string]*pod, len(list)), make(map[podName][]*pod, len(list)), requested}
	for i := range list {
		p := &list[i]
		ps.byUID[p.uid] = p
		ps.byName[p.podName] = append(ps.byName[p.podName], p)
	}
	return ps
}

// uids returns the UIDs of the listed pods. The kubelet's list was requested between two responses of the Pods API. The
// argument before is the earlier response, and ps is the later response. If the two responses contain different pods
// with the same name, uids omits the name, because the list may refer to either pod.
func (ps *pods) uids(listed map[podName]devices, before *pods) map[podName]string {
	uids := make(map[podName]string, len(listed))
	for name := range listed {
		p := ps.named(name)
		if p == nil || before != nil && !before.mayHaveHeld(name, p.uid) {
			continue
		}
		uids[name] = p.uid
	}
	return uids
}

// named returns the only live pod with the given name. A response may contain both an ended pod and its successor. If
// there is not exactly one live pod with the name, named returns the only pod with the name. If there are several pods
// with the name or none, it returns nil.
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

// mayHaveHeld reports whether the name may have referred to the pod with the given UID at the time of this response. It
// returns true if the response contains no pod with the name, or if only this pod has the name.
func (ps *pods) mayHaveHeld(name podName, uid string) bool {
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

// correctLive corrects live, which was derived from logs. It adds the pods that this response reports as alive, and
// removes the pods that this response reports as ended.
func (ps *pods) correctLive(live map[string]bool) {
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

func (ps *pods) addTo(known candidates) {
	if ps == nil {
		return
	}
	for uid, p := range ps.byUID {
		known.add(p.podName, uid, false)
	}
}

func (ps *pods) resourceOf(uid, container, claim string) string {
	if ps == nil || ps.byUID[uid] == nil {
		return ""
	}
	return ps.byUID[uid].resourceOf(container, claim)
}

func (ps *pods) containers() []logLink {
	var list []logLink
	for _, p := range ps.byUID {
		for _, s := range p.statuses {
			if s.id != "" && validName(s.name) {
				list = append(list, logLink{p.container(s.name), s.id})
			}
		}
	}
	return list
}

// single returns the only container of each pod, by pod UID. It omits pods with several containers of any kind, and
// pods with a container that was not started.
func (ps *pods) single() map[string]gpu.Owner {
	single := make(map[string]gpu.Owner)
	for uid, p := range ps.byUID {
		if len(p.containers) == 1 && len(p.statuses) == 1 && p.statuses[0].name == p.containers[0] && validName(p.containers[0]) {
			single[uid] = p.container(p.containers[0])
		}
	}
	return single
}

// listPods requests the pods from the Pods API. It returns nil if the API does not exist or the call failed.
func (m *Mapper) listPods(ctx context.Context) (*pods, error) {
	if !m.podsAPI.present() {
		return nil, nil
	}
	began := m.cfg.Now()
	list, err := m.podsAPI.list(ctx)
	if ctx.Err() != nil { // an error because the context ended is not a failure of the stage
		return nil, ctx.Err()
	}
	m.cfg.Stages.Observe(stage.PodsAPI, began, err)
	if err != nil {
		return nil, err
	}
	ps := newPods(list, began.Boot)
	m.names.learn(ps.containers(), ps.single(), began.Boot)
	return ps, nil
}
