package podmapper

import (
	"maps"
	"slices"
)

// identities contains the devices of each identified pod. The kubelet's lists contain only the names of pods, so the
// devices are used to find the UIDs. A new pod can get the name of an old pod while a process of the old pod still
// hangs in the driver. A pod keeps its devices until it ends. So if the list contains other devices for a name, the
// name belongs to a new pod.
//
// A pod without a log link may be confused with an earlier pod of the same name. This happens if the earlier pod had
// the same devices or was never identified. A static pod can restart with the same UID. If the pod has other devices
// after the restart, find no longer returns its UID. The kubelet's Pods API does not have these limitations.
type identities map[identity]devices // the value is nil if another pod now has the pod's name

type identity struct {
	podName
	uid string
}

// candidates contains, by name, the pods that have or had this name.
type candidates map[podName][]candidate

type candidate struct {
	uid string
	// logs is set if the pod currently has log links or a log directory.
	logs bool
}

// add adds a pod to the candidates for a name. If the pod is already a candidate and the argument logs is set, add sets
// the candidate's field logs.
func (c candidates) add(name podName, uid string, logs bool) {
	if i := c.index(name, uid); i >= 0 {
		c[name][i].logs = c[name][i].logs || logs
		return
	}
	c[name] = append(c[name], candidate{uid, logs})
}

func (c candidates) index(name podName, uid string) int {
	return slices.IndexFunc(c[name], func(p candidate) bool { return p.uid == uid })
}

// find returns the UIDs of the listed pods, except ambiguous UIDs. The caller must first read the links, then request
// the list, and then determine live.
func (s identities) find(listed map[podName]devices, known candidates, live map[string]bool) map[podName]string {
	uids := make(map[podName]string, len(listed))
	for name, held := range listed {
		remaining := slices.Clone(known[name])
		remaining = slices.DeleteFunc(remaining, func(p candidate) bool { return s.hasLostName(identity{name, p.uid}, held) })
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

// hasLostName reports whether another pod now has the name of the pod i. This is the case if the kubelet lists other
// devices for this name. After that, the name never refers to the pod i again.
func (s identities) hasLostName(i identity, held devices) bool {
	before, named := s[i]
	if !named || before.equal(held) {
		return false
	}
	s[i] = nil
	return true
}

func (held devices) equal(others devices) bool {
	return slices.EqualFunc(held, others, device.same)
}

// podUID returns the UID of the only live candidate. If no candidate is live, it returns the UID of the only candidate
// with logs.
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
