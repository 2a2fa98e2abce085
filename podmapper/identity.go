package podmapper

import (
	"maps"
	"slices"
)

// identities finds the UIDs of the pods in the kubelet's lists, which contain only names. Another
// pod can get a name while a process of the previous pod still hangs in the driver. Therefore
// identities stores the devices that identified a pod. A pod keeps its devices until it ends, so if
// other devices are listed under its name, they belong to another pod.
//
// With the pod-resources API, this method has limits. A pod without a log link is not
// distinguishable from a predecessor with the same devices, or from a predecessor that was never
// identified. The UID of a static pod, which can restart under the same UID, is no longer found if
// the pod returns with other devices. The kubelet's Pods API has none of these limits.
type identities map[identity]devices // nil for a pod that no longer owns its name

// identity identifies a pod that has or had a name.
type identity struct {
	podName
	uid string
}

// candidates contains the pods that have or had a name.
type candidates map[podName][]candidate

type candidate struct {
	uid string
	// logs is set if the pod now has links or a log directory. Otherwise the pod had links earlier.
	logs bool
}

// add adds a pod with the name, or updates whether the pod has logs.
func (c candidates) add(name podName, uid string, logs bool) {
	if i := c.index(name, uid); i >= 0 {
		c[name][i].logs = c[name][i].logs || logs
		return
	}
	c[name] = append(c[name], candidate{uid, logs})
}

// index returns the position of a pod among the candidates for a name, or -1.
func (c candidates) index(name podName, uid string) int {
	return slices.IndexFunc(c[name], func(p candidate) bool { return p.uid == uid })
}

// find returns the unambiguous UIDs of the listed pods. The list must have been requested after the
// links were read, and live must be newer than the list.
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

// hasLostName reports whether a name now belongs to another pod, according to the devices that are
// now listed under the name. A pod never regains a lost name.
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

// podUID returns the UID of the live candidate. If no candidate is live, it returns the UID of the
// candidate that still has logs. If no candidate or several candidates match, the pod is ambiguous.
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
