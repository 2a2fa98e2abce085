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
	// groupLabel is a label with the same value on the reservation of a GPU and on the pods that share the GPU. It is
	// runai-gpu-group, or runai-gpu-group/<group> for a pod in several groups.
	groupLabel = "runai-gpu-group"
	// vgpuAnnotation contains the devices that HAMi's scheduler chose, each as <UUID>,<type>,<memory>,<cores>. Devices
	// of a container are separated by colons, and containers by semicolons. With HAMi, the ids in the kubelet's list
	// may differ from the devices in use.
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

// sole returns the only container of the pod, or the pod if it has several containers.
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

// sharers returns the live pods in the same group that are not reservations themselves.
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
// unknown, the allocation is kept and marked as reserved. The argument ps is the last response of the Pods API. If the
// format of a device id is unknown and the pod has HAMi's annotation in ps, the devices in the annotation are used
// instead.
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
