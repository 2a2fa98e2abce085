package unit

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// publish returns an error if the numbers in prologs' files contradict the GPUs that jobs use.
func (m *Mapper) publish(found live, now gpu.Instant) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.learnNames(now.Boot)
	m.keepDescriptions()
	alive := m.touch(found, now.Boot)
	m.processes = alive.processes()
	m.forget(found, now.Boot)
	m.held = m.holdings(alive, now)
	m.asked = now.Boot
	m.infos = m.describe()
	m.numbering.compare(m.lastFiles.claims, now.Boot)
	return m.numbering.check()
}

// The caller holds m.mu.
func (m *Mapper) learnNames(now time.Duration) {
	m.engines = make(map[string]string, len(m.containers))
	for job, info := range m.lastFiles.infos {
		if u := job.unit(); u.Manager == Slurm && isSLUID(info.SLUID) && m.jobs[info.SLUID].name == "" {
			m.jobs[info.SLUID] = dated{u.Name, now}
		}
	}
	for id, c := range m.containers {
		m.engines[id] = c.manager
		if m.names[id].name == "" && c.name != "" {
			m.names[id] = dated{c.name, now}
		}
	}
}

// keepDescriptions keeps a job's description after an epilog has removed the job's file, because the job still has
// series. A second run of the job has another SLUID and gets a new description. The caller holds m.mu.
func (m *Mapper) keepDescriptions() {
	for job, info := range m.lastFiles.infos {
		if old := m.described[job]; info.SLUID == "" || old.SLUID == "" || info.SLUID == old.SLUID {
			info.SLUID = cmp.Or(info.SLUID, old.SLUID)
			info.User = cmp.Or(info.User, old.User)
			info.UID = cmp.Or(info.UID, old.UID)
			info.Account = cmp.Or(info.Account, old.Account)
			info.Partition = cmp.Or(info.Partition, old.Partition)
			info.Cluster = cmp.Or(info.Cluster, old.Cluster)
			// The first names stay, because each change of a name would create new series.
			info.JobName = cmp.Or(old.JobName, info.JobName)
			info.ArrayElement = cmp.Or(old.ArrayElement, info.ArrayElement)
		}
		m.described[job] = info
	}
}

type liveUnit struct {
	processes []gpu.ProcessID
	outside   bool
}

type liveUnits map[gpu.Unit]liveUnit

func (l liveUnits) processes() map[gpu.Owner][]gpu.ProcessID {
	of := make(map[gpu.Owner][]gpu.ProcessID, len(l))
	for u, alive := range l {
		of[u.Owner()] = alive.processes
	}
	return of
}

// The caller holds m.mu.
func (m *Mapper) touch(found live, now time.Duration) liveUnits {
	alive := make(liveUnits)
	for c, processes := range found.units {
		name := c.id
		switch {
		case c.named():
		case c.manager == Slurm:
			name = m.keep(m.jobs, c.id, now)
		default:
			name = m.keep(m.names, c.key(), now)
		}
		u := gpu.Unit{Manager: c.manager, Name: name}
		if _, known := m.units[u]; known {
			m.units[u] = now
		}
		l := alive[u]
		alive[u] = liveUnit{append(l.processes, processes...), l.outside || !c.inPod}
	}
	return alive
}

// The caller holds m.mu.
func (m *Mapper) keep(names map[string]dated, id string, now time.Duration) string {
	d, known := names[id]
	if known {
		d.last = now
		names[id] = d
	}
	return d.name
}

// The caller holds m.mu.
func (m *Mapper) forget(found live, now time.Duration) {
	old := func(last time.Duration) bool { return now-last > m.cfg.Keep }
	maps.DeleteFunc(m.units, func(_ gpu.Unit, last time.Duration) bool { return old(last) })
	for _, names := range []map[string]dated{m.jobs, m.names} {
		maps.DeleteFunc(names, func(_ string, d dated) bool { return old(d.last) })
	}
	running := make(map[string]bool)
	for u := range found.units {
		if u.container() != "" {
			running[u.key()] = true
		}
	}
	maps.DeleteFunc(m.containers, func(key string, _ container) bool { return !running[key] })
	maps.DeleteFunc(m.described, func(job jobKey, _ gpu.UnitInfo) bool {
		_, known := m.units[job.unit()]
		_, filed := m.lastFiles.infos[job]
		return !known && !filed
	})
	maps.DeleteFunc(m.uids, func(u gpu.Unit, _ string) bool {
		_, known := m.units[u]
		_, run := m.jobs[u.Name]
		return !known && !run
	})
}

// holdings returns the GPUs that live units hold. The caller holds m.mu.
//
// A prolog's file is outdated if its job has no process. A file that was just written is not outdated, because a prolog
// runs before the job's first process. If a file is outdated or cannot be used, the allocation of its GPU has no owner.
// If a job runs inside a pod, the pod holds the GPU instead of the job.
func (m *Mapper) holdings(alive liveUnits, now gpu.Instant) []gpu.Allocation {
	var list, outdated []gpu.Allocation
	add := func(u gpu.Unit, device gpu.DeviceName) {
		if len(list) < maxHeld {
			list = append(list, gpu.Allocation{Device: device, Owner: m.admit(u, now.Boot).Owner(), Replicas: 1, Live: true})
		}
	}
	for _, c := range m.lastFiles.claims {
		u := c.job.unit()
		l, here := alive[u]
		age := now.Wall.Sub(c.written)
		switch {
		case !m.enabled(u.Manager):
		case l.outside || u.Name != "" && !here && age > -fresh && age < fresh:
			add(u, c.device)
		case !here:
			outdated = append(outdated, gpu.Allocation{Device: c.device, Owner: gpu.Owner{Kind: gpu.OwnerUnit, Scope: u.Manager}, Declared: true})
		}
	}
	for i := range list {
		list[i].Declared = true
	}
	for _, id := range slices.Sorted(maps.Keys(m.containers)) {
		if name := m.names[id].name; name != "" {
			c := m.containers[id]
			for _, d := range c.devices {
				add(gpu.Unit{Manager: c.manager, Name: name}, d)
			}
		}
	}
	share(list)
	return append(list, outdated[:min(len(outdated), maxHeld-len(list))]...)
}

func share(list []gpu.Allocation) {
	holders := make(map[string]map[gpu.Owner]bool)
	whole := 0
	for _, a := range list {
		key := deviceKey(a.Device)
		if holders[key] == nil {
			holders[key] = make(map[gpu.Owner]bool)
		}
		holders[key][a.Owner] = true
		if a.Device.All {
			whole++
		}
	}
	for i := range list {
		a := &list[i]
		switch {
		case len(holders[deviceKey(a.Device)]) > 1 || whole > 0 && len(list) > 1:
			a.Sharing = gpu.SharingTimeSlicing
		case a.Device.Partition != nil || strings.HasPrefix(a.Device.UUID, "MIG-"):
			a.Sharing = gpu.SharingMIG
		default:
			a.Sharing = gpu.SharingExclusive
		}
	}
}

func deviceKey(d gpu.DeviceName) string {
	key := d.UUID + " " + d.Node
	if d.Index != nil {
		key += " " + strconv.Itoa(*d.Index)
	}
	if d.Position != nil {
		key += "@" + strconv.Itoa(*d.Position)
	}
	if d.Partition != nil {
		key += "." + d.Partition.Instance
		if d.Partition.Ordinal != nil {
			key += ":" + strconv.Itoa(*d.Partition.Ordinal)
		}
	}
	return key
}

// The caller holds m.mu.
func (m *Mapper) describe() map[gpu.Unit]gpu.UnitInfo {
	infos := make(map[gpu.Unit]gpu.UnitInfo, len(m.units))
	for u := range m.units {
		var info gpu.UnitInfo
		if u.Manager == User {
			info.UID = u.Name
		} else {
			info = m.described[keyOf(u)]
			info.UID = cmp.Or(info.UID, m.uids[u])
		}
		infos[u] = info
	}
	for _, sluid := range slices.Backward(slices.Sorted(maps.Keys(m.jobs))) { // the latest run comes first
		u := gpu.Unit{Manager: Slurm, Name: m.jobs[sluid].name}
		info, known := infos[u]
		if !known {
			continue
		}
		info.SLUID = cmp.Or(info.SLUID, sluid)
		info.UID = cmp.Or(info.UID, m.uids[gpu.Unit{Manager: Slurm, Name: sluid}])
		infos[u] = info
	}
	for key, c := range m.containers {
		for _, manager := range engines {
			u := gpu.Unit{Manager: manager, Name: m.names[key].name}
			if info, known := infos[u]; known && (c.manager == "" || c.manager == manager) { // containers of different engines may have equal names
				info.ContainerID, info.Image, info.Project = idOf(key), c.image, c.project
				infos[u] = info
			}
		}
	}
	for u, info := range infos {
		infos[u] = m.withUsers(info)
	}
	return infos
}

func (m *Mapper) withUsers(info gpu.UnitInfo) gpu.UnitInfo {
	switch m.cfg.Users {
	case UsersNone:
		info.User, info.UID, info.JobName = "", "", "" // job names are also data about users, because users often choose them
	case UsersUID:
		info.User = ""
	case UsersName:
		info.User = cmp.Or(info.User, m.passwd[info.UID])
	}
	return info
}

// Units returns the information about all units. The caller must not modify the result.
func (m *Mapper) Units() map[gpu.Unit]gpu.UnitInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.infos
}

// heldNow returns the GPUs that units hold, and the time at which they were read. If the last known process of a unit
// has ended since then, heldNow requests a poll. Until this poll, the unit counts as not live.
func (m *Mapper) heldNow() (list []gpu.Allocation, asked time.Duration) {
	m.mu.Lock()
	held, of, asked := m.held, m.processes, m.asked
	m.mu.Unlock()
	if len(held) == 0 || m.sight.Blind() {
		return held, asked
	}
	for i, a := range held {
		if processes := of[a.Owner]; len(processes) == 0 || anyAlive(m.tree, processes) {
			continue
		}
		if list == nil {
			list = slices.Clone(held)
			m.requestPoll()
		}
		list[i].Live = false
	}
	if list == nil {
		list = held
	}
	return list, asked
}

// Allocations adds the GPUs that units hold to the allocations of pods, even if the allocations of pods are unknown. If
// only the live pods are known, Allocations adds the live units to them.
//
// If units may hold GPUs, allocations are unknown until the first poll of units. If prologs write files, a process
// whose unit does not hold the GPU counts as a process without an allocation.
func (m *Mapper) Allocations(pods gpu.Allocations) gpu.Allocations {
	held, asked := m.heldNow()
	if asked == 0 && m.cfg.required() {
		pods.Known, pods.Alive = false, nil
	}
	if len(m.heldDirs) > 0 && asked > 0 {
		if pods.Optional {
			pods.Optional, pods.Requested = false, asked
		}
		pods.Requested = min(pods.Requested, asked)
	}
	if len(held) == 0 {
		return pods
	}
	pods.List = slices.Concat(pods.List, held)
	if pods.Alive != nil {
		pods.Alive = maps.Clone(pods.Alive)
		for _, a := range held {
			pods.Alive[a.Owner.UID] = pods.Alive[a.Owner.UID] || a.Live
		}
	}
	return pods
}
