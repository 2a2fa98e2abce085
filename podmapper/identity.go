package podmapper

import (
	"maps"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// identities finds the UIDs of the pods in the kubelet's answers, which know
// names only. A name may pass to another pod while a process of its last bearer
// still hangs in the driver. So the devices are remembered with which a pod was
// named: a pod keeps its devices for life, and once others are listed under its
// name, that name has a new bearer.
//
// Pod-resources can tell no more than that. Until a pod has a log link, it cannot
// be told from a predecessor that had the very same devices, or that was never
// named before. And a static pod, which may come back under its old UID, has its
// UID found no more if it comes back with other devices. The kubelet's Pods API
// knows all of this.
type identities map[identity]devices // nil for one that has lost its name

// identity is a pod that bears a name, or bore it.
type identity struct {
	podName
	uid string
}

// find returns the UIDs of the listed pods, of those for which it can be told.
// The answer must be younger than what is known of links, and live younger still.
func (s identities) find(listed map[podName]devices, known map[podName]map[string]bool, live map[string]bool) map[podName]string {
	uids := make(map[podName]string, len(listed))
	for name, held := range listed {
		heirs := maps.Clone(known[name])
		maps.DeleteFunc(heirs, func(uid string, _ bool) bool { return s.lost(identity{name, uid}, held) })
		if uid, ok := podUID(heirs, live); ok {
			uids[name] = uid
			s[identity{name, uid}] = held
		}
	}
	maps.DeleteFunc(s, func(i identity, _ devices) bool {
		_, ok := known[i.podName][i.uid]
		return !ok
	})
	return uids
}

// lost reports whether a pod has lost its name, now that these devices are held
// under it. It never gets it back.
func (s identities) lost(i identity, held devices) bool {
	before, named := s[i]
	if !named || before.equal(held) {
		return false
	}
	s[i] = nil
	return true
}

// equal reports whether two sets hold the same devices.
func (held devices) equal(others devices) bool {
	return maps.EqualFunc(held, others, func(_, _ gpu.DeviceName) bool { return true })
}

// podUID chooses among the pods that may bear a name: the one that lives, else
// the one that still has log links. With none, or several, it cannot be told
// which pod is meant.
func podUID(known, live map[string]bool) (string, bool) {
	var alive, linked []string
	for uid, hasLinks := range known {
		switch {
		case live[uid]:
			alive = append(alive, uid)
		case hasLinks:
			linked = append(linked, uid)
		}
	}
	switch {
	case len(alive) == 1:
		return alive[0], true
	case len(alive) == 0 && len(linked) == 1:
		return linked[0], true
	}
	return "", false
}
