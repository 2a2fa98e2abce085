package sampler

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// correct replaces declared allocations that contradict the use of a GPU, and drops declared
// allocations without an owner. If the files of a GPU do not name an owner that uses it, the users
// hold the GPU, and a named owner that does not use it holds nothing. An owner that is newer than the
// list proves nothing. The stage of the units reports the first contradiction.
func (s *Sampler) correct(v view) {
	var wrong error
	for _, uuid := range slices.Sorted(maps.Keys(v.allocations)) {
		list := v.allocations[uuid]
		declared := slices.DeleteFunc(slices.Clone(list), func(a gpu.Allocation) bool { return !a.Declared })
		if len(declared) == 0 {
			continue
		}
		unnamed := s.unnamed(v.processes[uuid].present, declared)
		v.allocations[uuid] = slices.Concat(
			slices.DeleteFunc(slices.Clone(list), func(a gpu.Allocation) bool {
				return a.Declared && (a.Owner.UID == "" || contradicted(a, unnamed, v.processes[uuid].present))
			}),
			byUse(uuid, unnamed))
		if len(unnamed) > 0 && wrong == nil {
			wrong = fmt.Errorf("%s: %s uses it, but the prolog's files name %s: users count as its holders; check the prolog",
				uuid, unnamed[0].Owner.UID, declaredUIDs(declared))
		}
	}
	if wrong != nil {
		s.cfg.Stages.Observe(stage.Units, v.now, wrong)
	}
}

// unnamed returns one process of each owner that uses a place that is declared for others only.
func (s *Sampler) unnamed(present []gpuProcess, declared []gpu.Allocation) (list []gpuProcess) {
	for _, g := range present {
		same := func(h gpuProcess) bool { return h.Owner == g.Owner && h.GPUInstance == g.GPUInstance }
		if !s.unlisted(g.Owner) && !slices.ContainsFunc(list, same) &&
			slices.ContainsFunc(declared, g.isBeside) && !slices.ContainsFunc(declared, g.uses) {
			list = append(list, g)
		}
	}
	return list
}

// isBeside reports whether a declared allocation is for the place of a process, and for an owner of
// the same kind.
func (g gpuProcess) isBeside(a gpu.Allocation) bool {
	return a.Owner.Kind == g.Owner.Kind && a.Owner.Scope == g.Owner.Scope && (a.GPUInstance == g.GPUInstance || a.GPUInstance == "")
}

// contradicted reports whether other owners use the place of an allocation, and its own does not.
func contradicted(a gpu.Allocation, unnamed, present []gpuProcess) bool {
	return slices.ContainsFunc(unnamed, func(g gpuProcess) bool { return g.isBeside(a) }) &&
		!slices.ContainsFunc(present, func(g gpuProcess) bool { return g.uses(a) })
}

// byUse returns allocations of owners that use a GPU.
func byUse(uuid string, users []gpuProcess) (list []gpu.Allocation) {
	sharing := gpu.SharingExclusive
	if len(users) > 1 {
		sharing = gpu.SharingTimeSlicing
	}
	for _, g := range users {
		list = append(list, gpu.Allocation{
			Device: gpu.DeviceName{UUID: uuid}, UUID: uuid, GPUInstance: g.GPUInstance,
			Owner: g.Owner, Sharing: sharing, Replicas: 1, Live: true, Declared: true,
		})
	}
	return list
}

// declaredUIDs returns the UIDs of declared owners, for an error.
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
