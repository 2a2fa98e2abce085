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

// DefaultResources matches the names of the resources whose devices are GPUs:
// nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-1g.10gb and so on. Other
// resources of that vendor, such as those of GPUs that are passed through, use
// numbers for other things.
const DefaultResources = `^nvidia\.com/(gpu|mig-)`

var defaultResources = regexp.MustCompile(DefaultResources)

// devices is a set of GPUs, of parts and of replicas of GPUs, each in the hands of
// a container of one pod. It is sorted, so that equal sets are equal lists.
type devices []device

// device is one GPU, MIG device or replica, in the kubelet's words.
type device struct {
	container string // empty if several of the pod have its claim
	resource  string // empty for a device of a claim
	claim     string // empty for a device plugin's device
	id        string // without the replica
	replica   string
	name      gpu.DeviceName // what the id says, empty if it is not understood
}

// understood reports whether it is known what the id means.
func (d device) understood() bool { return d.name != gpu.DeviceName{} }

// listing is what the kubelet says of all pods.
type listing struct {
	held map[podName]devices
	// twice holds the names that old kubelets list twice: of a finished pod and of
	// the one that has its name now. Nobody can tell what is whose.
	twice map[podName]bool
	// alone names the container of each pod that has only one, devices or not.
	alone map[podName]string
}

// readListing reads the GPUs out of the kubelet's answer, which lists every device
// in an entry of its own, in changing order.
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
		held = held.asSet().joinClaims()
		if seen[name] {
			l.twice[name] = true
		}
		seen[name] = true
		if len(p.GetContainers()) == 1 {
			l.alone[name] = p.GetContainers()[0].GetName()
		}
		if len(held) > 0 {
			l.held[name] = append(l.held[name], held...).asSet()
		}
	}
	for name := range l.twice {
		delete(l.alone, name)
	}
	return l
}

// check returns an error for more devices than any node has.
func (l listing) check() error {
	n := 0
	for _, held := range l.held {
		if n += len(held); n > maxDevices {
			return fmt.Errorf("list pod resources: more than %d GPUs, partitions and replicas are allocated: %w", maxDevices, stage.ErrOversized)
		}
	}
	return nil
}

// allGone reports whether there were holders of devices, of which none is in the
// next answer.
func (l listing) allGone(next listing) bool {
	for name := range l.held {
		if next.held[name] != nil {
			return false
		}
	}
	return len(l.held) > 0
}

// identifiable returns the holders of which it may be told which pods they are.
func (l listing) identifiable() map[podName]devices {
	held := maps.Clone(l.held)
	maps.DeleteFunc(held, func(name podName, _ devices) bool { return l.twice[name] })
	return held
}

// asSet sorts the devices and leaves each once.
func (held devices) asSet() devices {
	slices.SortFunc(held, func(a, b device) int {
		return cmp.Or(compareDevices(a, b), cmp.Compare(a.container, b.container))
	})
	return slices.CompactFunc(held, device.same)
}

// compareDevices orders by all but the container.
func compareDevices(a, b device) int {
	return cmp.Or(
		cmp.Compare(a.id, b.id),
		cmp.Compare(a.replica, b.replica),
		cmp.Compare(a.resource, b.resource),
		cmp.Compare(a.claim, b.claim),
	)
}

// same reports whether two devices are the same, in the same hands.
func (d device) same(other device) bool {
	return d.container == other.container && compareDevices(d, other) == 0
}

// addDevices adds what device plugins gave to a container.
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

// addClaimed adds what DRA drivers gave to a container. A device that is given in
// shares (KEP-5075) has an id for each.
func (held devices) addClaimed(c *podresources.ContainerResources, log *slog.Logger) devices {
	for _, claim := range c.GetDynamicResources() {
		before := make(map[string]*podresources.ClaimResource) // by driver
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

// joinClaims leaves one holding of each claimed device. The kubelet lists the whole
// claim for every container of the pod that refers to it, also to a part of it, as
// to the claim that stands for extended resources (KEP-5004).
func (held devices) joinClaims() devices {
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

// holding is one device, or some replicas of it, that a container holds.
type holding struct {
	podName
	device       // without the replica
	replicas int // 0 if it holds the device itself
}

// holdings lists what all containers hold, sorted by device and container.
func (l listing) holdings() []holding {
	list := make([]holding, 0, len(l.held))
	for pod, held := range l.held {
		list = held.addHoldings(list, pod)
	}
	slices.SortFunc(list, compareHoldings)
	return list
}

// addHoldings adds a pod's devices, and counts the replicas of each. Who holds the
// device itself, which comes before its replicas, holds them all.
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

// allocations says who holds which device, in the order of the listing. The kubelet
// says neither the UIDs nor who is alive; older ones (before 1.34) also list
// finished pods.
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

// countHolders counts the containers that hold each claimed device, by its id. The list
// is sorted.
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

// sharing says how a device is held. Replicas may be shared by MPS as well, and a
// claimed device may have one holder that only watches it (admin access): the
// kubelet says neither. Pods that hold the same claimed device share it.
func (h holding) sharing(holders int) gpu.Sharing {
	switch {
	case h.replicas > 0 || holders > 1:
		return gpu.SharingTimeSlicing
	case isMIG(h.name):
		return gpu.SharingMIG
	}
	return gpu.SharingExclusive
}

// compareHoldings orders by device, then container, then how it was asked for.
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
