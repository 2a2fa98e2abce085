package podmapper

import (
	"maps"
	"slices"
)

// identities finds the UIDs of the pods in the kubelet's answers, which know
// names only. A name may pass to another pod while a process of its last pod
// still hangs in the driver. So the devices are remembered with which a pod was
// named: a pod keeps its devices for life, and once others are listed under its
// name, that name belongs to another pod.
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

// candidates are the pods that bear a name, or bore it.
type candidates map[podName][]candidate

// candidate is a pod of a given name.
type candidate struct {
	uid string
	// logs is set if the pod has links, or a directory of logs, now; without, it had
	// links once.
	logs bool
}

// add adds a pod that bears a name and may have logs now.
func (b candidates) add(name podName, uid string, logs bool) {
	if i := b.index(name, uid); i >= 0 {
		b[name][i].logs = b[name][i].logs || logs
		return
	}
	b[name] = append(b[name], candidate{uid, logs})
}

// index returns where among the candidates for a name a pod is, or -1.
func (b candidates) index(name podName, uid string) int {
	return slices.IndexFunc(b[name], func(p candidate) bool { return p.uid == uid })
}

// find returns the UIDs of the listed pods, of those for which it can be told.
// The answer must be younger than what is known of links, and live younger still.
func (s identities) find(listed map[podName]devices, known candidates, live map[string]bool) map[podName]string {
	uids := make(map[podName]string, len(listed))
	for name, held := range listed {
		remaining := slices.Clone(known[name])
		remaining = slices.DeleteFunc(remaining, func(p candidate) bool { return s.lost(identity{name, p.uid}, held) })
		if uid, ok := podUID(remaining, live); ok {
			uids[name] = uid
			s[identity{name, uid}] = held
		}
	}
	maps.DeleteFunc(s, func(i identity, _ devices) bool {
		return known.index(i.podName, i.uid) < 0
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
	return slices.EqualFunc(held, others, device.same)
}

// podUID chooses among the pods that may bear a name: the one that lives, else
// the one that still has log links. With none, or several, it cannot be told
// which pod is meant.
func podUID(known []candidate, live map[string]bool) (string, bool) {
	var alive, linked []string
	for _, p := range known {
		switch {
		case live[p.uid]:
			alive = append(alive, p.uid)
		case p.logs:
			linked = append(linked, p.uid)
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
