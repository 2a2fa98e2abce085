package podmapper

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// DefaultResources matches the names of GPU resources: nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-1g.10gb
// and similar names, and amd.com/gpu. It also matches partitions of AMD GPUs, such as amd.com/cpx_nps4, by the compute
// mode and the memory mode. It does not match other resources of these vendors, such as passed-through GPUs. The
// numbers in their device ids have other meanings.
const DefaultResources = `^(nvidia\.com/(gpu|mig-)|amd\.com/(gpu|[a-z]+_nps[0-9]+)$)`

var defaultResources = regexp.MustCompile(DefaultResources)

// devices contains the GPUs, partitions and replicas of one pod. It is sorted, so that equal sets of devices are equal
// slices.
type devices []device

// device is a GPU, MIG device or replica in the kubelet's list.
type device struct {
	container string // empty if several containers of the pod refer to the device's claim
	resource  string // empty for a device that was allocated through a claim
	claim     string // empty for a device that a device plugin allocated
	id        string // id of the device, without the replica
	replica   string
	name      gpu.DeviceName // name parsed from the id; empty if the format of the id is unknown
}

func (d device) understood() bool { return d.name != gpu.DeviceName{} }

// A listing contains the parts of a pod-resources response that the mapper uses.
type listing struct {
	held map[podName]devices
	// duplicates contains the names that the list contains twice. Kubelets before 1.34 list a finished pod in addition
	// to its successor, so it is unknown which of the two pods owns a device.
	duplicates map[podName]bool
	// single contains the container of each pod with only one container, with or without devices.
	single map[podName]string
}

// readListing extracts the GPUs from the kubelet's list. The list contains one entry per device, in varying order.
func readListing(pods []*podresources.PodResources, resources *regexp.Regexp, log *slog.Logger) listing {
	l := listing{make(map[podName]devices), make(map[podName]bool), make(map[podName]string, len(pods))}
	seen := make(map[podName]bool, len(pods))
	for _, p := range pods {
		name := podName{p.GetNamespace(), p.GetName()}
		var held devices
		for _, c := range p.GetContainers() {
			held = held.addDevices(c, resources)
			held = held.addClaimed(c, log)
		}
		held = held.asSet().mergeClaims()
		if seen[name] {
			l.duplicates[name] = true
		}
		seen[name] = true
		if len(p.GetContainers()) == 1 {
			l.single[name] = p.GetContainers()[0].GetName()
		}
		if len(held) > 0 {
			l.held[name] = append(l.held[name], held...).asSet()
		}
	}
	for name := range l.duplicates {
		delete(l.single, name)
	}
	return l
}

// check returns an error if the list contains more devices than any real node has.
func (l listing) check() error {
	n := 0
	for _, held := range l.held {
		if n += len(held); n > maxDevices {
			return fmt.Errorf("list pod resources: more than %d GPUs, partitions and replicas are allocated: %w", maxDevices, stage.ErrOversized)
		}
	}
	return nil
}

// allGone reports whether the next list contains none of the pods with devices. Without such pods, it returns false.
func (l listing) allGone(next listing) bool {
	for name := range l.held {
		if next.held[name] != nil {
			return false
		}
	}
	return len(l.held) > 0
}

// identifiable returns the devices by pod name, without names that are listed twice.
func (l listing) identifiable() map[podName]devices {
	held := maps.Clone(l.held)
	maps.DeleteFunc(held, func(name podName, _ devices) bool { return l.duplicates[name] })
	return held
}

func (held devices) asSet() devices {
	slices.SortFunc(held, func(a, b device) int {
		return cmp.Or(compareDevices(a, b), cmp.Compare(a.container, b.container))
	})
	return slices.CompactFunc(held, device.same)
}

func compareDevices(a, b device) int {
	return cmp.Or(
		cmp.Compare(a.id, b.id),
		cmp.Compare(a.replica, b.replica),
		cmp.Compare(a.resource, b.resource),
		cmp.Compare(a.claim, b.claim),
	)
}

func (d device) same(other device) bool {
	return d.container == other.container && compareDevices(d, other) == 0
}

func (held devices) addDevices(c *podresources.ContainerResources, resources *regexp.Regexp) devices {
	for _, d := range c.GetDevices() {
		if !resources.MatchString(d.GetResourceName()) {
			continue
		}
		for _, id := range d.GetDeviceIds() {
			d := parseDeviceID(d.GetResourceName(), id)
			d.container = c.GetName()
			held = append(held, d)
		}
	}
	return held
}

// addClaimed adds the devices that DRA drivers allocated to a container. If a device has consumable capacity
// (KEP-5075), each share of the device has its own share id.
func (held devices) addClaimed(c *podresources.ContainerResources, log *slog.Logger) devices {
	for _, claim := range c.GetDynamicResources() {
		before := make(map[string]*podresources.ClaimResource) // previous claimed device by driver
		for _, r := range claim.GetClaimResources() {
			name, id, ok := parseClaimed(r, before[r.GetDriverName()])
			before[r.GetDriverName()] = r
			if !ok {
				log.Debug("claimed device is not a GPU", "driver", r.GetDriverName(), "device", r.GetDeviceName())
				continue
			}
			held = append(held, device{container: c.GetName(), claim: claim.GetClaimName(), id: id, replica: r.GetShareId(), name: name})
		}
	}
	return held
}

// mergeClaims merges the entries for each claimed device into one entry. The kubelet lists the whole claim for every
// container that refers to the claim or to a part of the claim. It lists the claim for extended resources (KEP-5004) in
// the same way.
func (held devices) mergeClaims() devices {
	joined := held[:0]
	for _, d := range held {
		last := len(joined) - 1
		if d.claim != "" && last >= 0 && compareDevices(joined[last], d) == 0 {
			joined[last].container = ""
		} else {
			joined = append(joined, d)
		}
	}
	return joined
}

// holding is a device, or several replicas of a device, that a container holds.
type holding struct {
	podName
	device       // the device, without the replica
	replicas int // 0 if the container holds the device itself
}

func (l listing) holdings() []holding {
	list := make([]holding, 0, len(l.held))
	for pod, held := range l.held {
		list = held.addHoldings(list, pod)
	}
	slices.SortFunc(list, compareHoldings)
	return list
}

// addHoldings adds a pod's devices to the list and counts their replicas. The devices are sorted, so a device precedes
// its replicas. A container that holds a device itself also holds all replicas of the device.
func (held devices) addHoldings(list []holding, pod podName) []holding {
	first := len(list)
	for _, d := range held {
		h := holding{podName: pod, device: d}
		if d.replica != "" {
			h.replica, h.replicas = "", 1
		}
		i := slices.IndexFunc(list[first:], func(known holding) bool { return known.same(h.device) })
		switch {
		case i < 0:
			list = append(list, h)
		case list[first+i].replicas > 0:
			list[first+i].replicas++
		}
	}
	return list
}

// allocations returns the allocations in the order of the holdings. The kubelet's list contains neither UIDs nor the
// states of pods, and kubelets before 1.34 also list finished pods. Therefore the caller passes the UIDs and the live
// pods.
func (l listing) allocations(uids map[podName]string, live map[string]bool, ps *pods) []gpu.Allocation {
	holdings := l.holdings()
	holders := countHolders(holdings)
	list := make([]gpu.Allocation, len(holdings))
	for i, h := range holdings {
		uid := uids[h.podName]
		list[i] = gpu.Allocation{
			Device:   h.name,
			Owner:    gpu.Owner{Kind: gpu.OwnerPod, Scope: h.namespace, Name: h.pod, UID: uid, Part: h.container},
			Resource: cmp.Or(h.resource, ps.resourceOf(uid, h.container, h.claim)), Claim: h.claim,
			Sharing: h.sharing(holders[h.id]), Replicas: max(1, h.replicas),
			Live: live[uid],
		}
	}
	return list
}

// countHolders returns the number of containers that hold each claimed device, by device id. The list must be sorted.
func countHolders(list []holding) map[string]int {
	n := make(map[string]int)
	for i, h := range list {
		again := i > 0 && list[i-1].podName == h.podName && list[i-1].container == h.container && list[i-1].id == h.id
		if h.claim != "" && !again {
			n[h.id]++
		}
	}
	return n
}

// sharing returns the way in which a device is shared. The kubelet does not distinguish MPS from time-slicing. It also
// does not report admin access, so a claim that only monitors a device counts as a holder.
func (h holding) sharing(holders int) gpu.Sharing {
	switch {
	case h.replicas > 0 || holders > 1:
		return gpu.SharingTimeSlicing
	case isMIG(h.name):
		return gpu.SharingMIG
	}
	return gpu.SharingExclusive
}

func compareHoldings(a, b holding) int {
	return cmp.Or(
		cmp.Compare(a.id, b.id),
		cmp.Compare(a.namespace, b.namespace),
		cmp.Compare(a.pod, b.pod),
		cmp.Compare(a.container, b.container),
		cmp.Compare(a.resource, b.resource),
		cmp.Compare(a.claim, b.claim),
	)
}
