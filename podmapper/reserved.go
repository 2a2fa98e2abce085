package podmapper

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// DefaultReservations contains the namespaces in which KAI Scheduler and Run:ai reserve GPUs that other pods share.
var DefaultReservations = []string{"kai-resource-reservation", "runai-reservation"}

const (
	// groupLabel is the key of a label. The pod that reserves a GPU and the pods that share this GPU have the same
	// value of the label. For a pod in several groups, the key is runai-gpu-group/<group>.
	groupLabel = "runai-gpu-group"
	// vgpuAnnotation is the key of an annotation with the devices that HAMi's scheduler chose. Each device has the form
	// <UUID>,<type>,<memory>,<cores>. Colons separate the devices of a container, and semicolons separate containers.
	// With HAMi, the ids in the kubelet's list may differ from the devices in use.
	vgpuAnnotation = "hami.io/vgpu-devices-allocated"
)

func (p *pod) addLabel(name, value string) {
	if name == groupLabel || strings.HasPrefix(name, groupLabel+"/") {
		p.groups = append(p.groups, value)
	}
}

func (p *pod) addAnnotation(name, value string) {
	if name != vgpuAnnotation {
		return
	}
	for device := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ':' || r == ';' }) {
		uuid, _, _ := strings.Cut(device, ",")
		if name, ok := parseUUID(uuid); ok {
			p.vgpus = append(p.vgpus, name)
		}
	}
}

// sole returns the only container of the pod. If the pod has several containers, it returns the pod itself.
func (p *pod) sole() gpu.Owner {
	if len(p.containers) == 1 && validName(p.containers[0]) {
		return p.container(p.containers[0])
	}
	return p.container("")
}

// reservations finds the pods that share reserved GPUs.
type reservations struct {
	namespaces []string
	pods       *pods           // valid response of the Pods API, or nil
	live       map[string]bool // UIDs of the live pods
}

// sharers returns the live pods in the groups of the pod with the given UID. It omits pods that are reservations
// themselves.
func (r reservations) sharers(uid string) (list []*pod) {
	if r.pods == nil || r.pods.byUID[uid] == nil {
		return nil
	}
	groups := r.pods.byUID[uid].groups
	for _, p := range r.pods.byUID {
		shares := slices.ContainsFunc(p.groups, func(g string) bool { return slices.Contains(groups, g) })
		if shares && r.live[p.uid] && !slices.Contains(r.namespaces, p.namespace) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *pod) int { return cmp.Compare(a.uid, b.uid) })
	return list
}

func (ps *pods) chosen(uid string) []gpu.DeviceName {
	if ps == nil || ps.byUID[uid] == nil {
		return nil
	}
	return ps.byUID[uid].vgpus
}

// toUsers replaces each allocation to a reservation by allocations to the pods that share the GPU. If these pods are
// unknown, toUsers keeps the allocation and marks it as reserved. The argument ps is the last response of the Pods API.
// If a device id has an unknown format, toUsers uses the devices in HAMi's annotation of the pod in ps, if there is
// one.
func (r reservations) toUsers(list []gpu.Allocation, ps *pods) []gpu.Allocation {
	out := make([]gpu.Allocation, 0, len(list))
	var placed []string
	for _, a := range list {
		switch vgpus := ps.chosen(a.Owner.UID); {
		case slices.Contains(r.namespaces, a.Owner.Scope):
			out = append(out, reserved(a, r.sharers(a.Owner.UID))...)
		case a.Device == gpu.DeviceName{} && len(vgpus) > 0:
			if slices.Contains(placed, a.Owner.UID) {
				continue
			}
			placed = append(placed, a.Owner.UID)
			for _, name := range vgpus {
				a.Device, a.Sharing, a.Replicas = name, gpu.SharingTimeSlicing, 1
				a.Owner = ps.byUID[a.Owner.UID].sole()
				out = append(out, a)
			}
		default:
			out = append(out, a)
		}
	}
	return out
}

// reserved returns allocations to the pods that share a reservation. Without such pods, it returns the allocation a,
// marked as reserved.
func reserved(a gpu.Allocation, pods []*pod) (list []gpu.Allocation) {
	if len(pods) == 0 {
		a.Reserved = true
		return []gpu.Allocation{a}
	}
	for _, p := range pods {
		a.Owner, a.Sharing, a.Replicas, a.Live = p.sole(), gpu.SharingTimeSlicing, 1, true
		list = append(list, a)
	}
	return list
}
