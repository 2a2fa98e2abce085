package sampler

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// correct compares the declared allocations, which come from files, with the use of each GPU. It drops declared
// allocations without an owner.
//
// If an owner uses a GPU but the files for this GPU do not name the owner, the files are wrong. Only the owners that
// use the GPU then count as its holders. Owners that started after the files were read are exempt.
//
// An epilog may remove a file before the last process of the job ends. Therefore an owner whose file is missing remains
// a holder while it uses the GPU. correct reports the first contradiction in the stage "units".
func (s *Sampler) correct(v view) {
	var wrong error
	anyDeclared := false
	uuids := slices.Concat(slices.Collect(maps.Keys(v.allocations)), slices.Collect(maps.Keys(s.declared)))
	slices.Sort(uuids)
	for _, uuid := range slices.Compact(uuids) {
		list, present := v.allocations[uuid], v.processes[uuid].present
		declared := slices.DeleteFunc(slices.Clone(list), func(a gpu.Allocation) bool { return !a.Declared })
		if len(declared)+len(s.declared[uuid]) == 0 {
			continue
		}
		anyDeclared = true
		unnamed := s.unnamed(present, declared, s.declared[uuid])
		list = slices.DeleteFunc(slices.Clone(list), func(a gpu.Allocation) bool {
			return a.Declared && (a.Owner.UID == "" || contradicted(a, unnamed, present))
		})
		list = append(list, byUse(uuid, unnamed, list)...)
		if i := slices.IndexFunc(unnamed, func(g gpuProcess) bool { return slices.ContainsFunc(declared, g.isBeside) }); i >= 0 && wrong == nil {
			wrong = fmt.Errorf("%s is used by %s, but the prolog's files name %s: the jobs that use the GPU are charged as its holders; check the prolog",
				uuid, unnamed[i].Owner.UID, declaredUIDs(declared))
		}
		v.allocations[uuid] = list
		s.remember(uuid, list, v)
	}
	if wrong != nil {
		s.cfg.Stages.Observe(stage.Units, v.now, wrong)
	}
	if anyDeclared {
		s.cfg.Mapper.Used(s.gpus.devices(), v.used())
	}
}

func (v view) used() map[gpu.Owner][]string {
	by := make(map[gpu.Owner][]string)
	for uuid, p := range v.processes {
		for _, g := range p.present {
			if g.Owner.Kind == gpu.OwnerUnit && !slices.Contains(by[g.Owner], uuid) {
				by[g.Owner] = append(by[g.Owner], uuid)
			}
		}
	}
	return by
}

// remember keeps the earlier allocations if the GPU's processes are unknown.
func (s *Sampler) remember(uuid string, list []gpu.Allocation, v view) {
	known := slices.ContainsFunc(v.report.Readings, func(r gpu.Reading) bool { return r.UUID == uuid && r.ContextsKnown })
	if !known {
		return
	}
	declared := slices.DeleteFunc(slices.Clone(list), func(a gpu.Allocation) bool { return !a.Declared })
	if s.declared[uuid] = declared; len(declared) == 0 {
		delete(s.declared, uuid)
	}
}

// unnamed returns one process of each owner that uses a GPU or MIG instance without a declaration. Either the device is
// declared only for other owners, or it was declared for this owner before.
func (s *Sampler) unnamed(present []gpuProcess, declared, before []gpu.Allocation) (list []gpuProcess) {
	for _, g := range present {
		same := func(h gpuProcess) bool { return h.Owner == g.Owner && h.GPUInstance == g.GPUInstance }
		if s.unlisted(g.Owner) || slices.ContainsFunc(list, same) || slices.ContainsFunc(declared, g.uses) {
			continue
		}
		if slices.ContainsFunc(declared, g.isBeside) || slices.ContainsFunc(before, g.uses) {
			list = append(list, g)
		}
	}
	return list
}

// isBeside reports whether a declared allocation can contradict a process. The allocation must include the GPU or
// instance that the process uses. Both owners must have the same kind and scope.
func (g gpuProcess) isBeside(a gpu.Allocation) bool {
	return a.Owner.Kind == g.Owner.Kind && a.Owner.Scope == g.Owner.Scope && (a.GPUInstance == g.GPUInstance || a.GPUInstance == "")
}

// contradicted reports whether the GPU or instance of an allocation is used by other owners, but not by the
// allocation's owner.
func contradicted(a gpu.Allocation, unnamed, present []gpuProcess) bool {
	return slices.ContainsFunc(unnamed, func(g gpuProcess) bool { return g.isBeside(a) }) &&
		!slices.ContainsFunc(present, func(g gpuProcess) bool { return g.uses(a) })
}

// An allocation counts as shared if its GPU or instance has other users or holders.
func byUse(uuid string, users []gpuProcess, holders []gpu.Allocation) (list []gpu.Allocation) {
	for _, g := range users {
		beside := func(owner gpu.Owner, instance string) bool {
			return owner != g.Owner && (instance == g.GPUInstance || instance == "" || g.GPUInstance == "")
		}
		sharing := gpu.SharingExclusive
		switch {
		case slices.ContainsFunc(users, func(u gpuProcess) bool { return beside(u.Owner, u.GPUInstance) }),
			slices.ContainsFunc(holders, func(a gpu.Allocation) bool { return beside(a.Owner, a.GPUInstance) }):
			sharing = gpu.SharingTimeSlicing
		case g.GPUInstance != "":
			sharing = gpu.SharingMIG
		}
		list = append(list, gpu.Allocation{
			Device: gpu.DeviceName{UUID: uuid}, UUID: uuid, GPUInstance: g.GPUInstance,
			Owner: g.Owner, Sharing: sharing, Replicas: 1, Live: true, Declared: true,
		})
	}
	return list
}

func declaredUIDs(declared []gpu.Allocation) string {
	var uids []string
	for _, a := range declared {
		if a.Owner.UID != "" {
			uids = append(uids, a.Owner.UID)
		}
	}
	if len(uids) == 0 {
		return "no live job"
	}
	return strings.Join(uids, ", ")
}
