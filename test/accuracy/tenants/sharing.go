package tenants

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Sharing is the way in which mallory and the victim share the GPU. They may time-slice it, hold MIG instances (mallory
// 3g, the victim 4g), be clients of one MPS server, share a whole AMD GPU, or hold one partition of an AMD GPU each.
type Sharing int

// On GPUs with GPM, the driver measures the activity of MIG instances. The samples of an MPS server name the server or
// its clients. Only the revisions 1.6 to 1.9 of AMD's gpu_metrics contain sums of activity.
const (
	TimeSliced Sharing = iota
	MIGWithGPM
	MIGWithoutGPM
	MPSNamesServer
	MPSNamesClients
	AMDWithSums
	AMDWithoutSums
	AMDPartitionsWithSums
	AMDPartitionsWithoutSums
)

// Sharings contains all values except TimeSliced.
var Sharings = []Sharing{
	MIGWithGPM, MIGWithoutGPM, MPSNamesServer, MPSNamesClients,
	AMDWithSums, AMDWithoutSums, AMDPartitionsWithSums, AMDPartitionsWithoutSums,
}

func (s Sharing) String() string {
	return [...]string{
		"time-slicing", "MIG with GPM", "MIG without GPM", "MPS, samples name the server", "MPS, samples name the client that works",
		"AMD, `gpu_metrics` revisions 1.6 to 1.9", "AMD, other `gpu_metrics` revisions", "AMD partitions, `gpu_metrics` revisions 1.6 to 1.9", "AMD partitions, other `gpu_metrics` revisions",
	}[s]
}

func (s Sharing) isDivided() bool {
	return s == MIGWithGPM || s == MIGWithoutGPM || s == AMDPartitionsWithSums || s == AMDPartitionsWithoutSums
}

func (s Sharing) isAMD() bool { return s >= AMDWithSums }

// slices returns the slices of the instances 3g and 4g, or the dies of the partitions of an MI300X in DPX mode.
func (s Sharing) slices() []int {
	if s.isAMD() {
		return []int{4, 4}
	}
	return []int{3, 4}
}

// divide assigns the instances or partitions to mallory and the victim. An instance draws a part of the power of a
// whole GPU.
func (s Sharing) divide(g *GPU) {
	if s.isAMD() {
		g.Model, g.Limit = amdModel, 750
		if g.AMD == NoAMD {
			g.AMD = AMDSums
		}
	}
	switch {
	case s.isDivided():
		g.Slices, g.GPM = s.slices(), s == MIGWithGPM || s == AMDPartitionsWithSums
		all := float64(g.Slices[0] + g.Slices[1])
		for i := range g.Tenants {
			t := &g.Tenants[i]
			t.Instance, t.Replicas, t.Watts = i, 1, t.Watts*float64(g.Slices[i])/all
		}
	case s == MPSNamesServer:
		g.MPS = MPSServer
	case s == MPSNamesClients:
		g.MPS = MPSClients
	}
}

// victimWatts returns less power if both tenants work at the same time, so that their sum stays below the power limit.
func (s Sharing) victimWatts() float64 {
	if !s.isDivided() && s != TimeSliced {
		return 200
	}
	return 400
}

// SharingScenes returns the scenes of a cheat for a way to share a GPU. The driver averages power over a second.
func SharingScenes(c Cheat, how Sharing) (all []Scene) {
	add := func(s Scene) {
		s.Cheat, s.Sharing = c, how
		all = append(all, s, s.besideBusy())
	}
	switch {
	case how == AMDWithSums || how == AMDWithoutSums:
		for _, floor := range amdFloors {
			if how == AMDWithSums {
				add(Scene{Floor: floor, AMD: AMDSums, Replicas: 3})
				continue
			}
			add(Scene{Floor: floor, AMD: AMDShortAverage, Replicas: 3})
			add(Scene{Floor: floor, AMD: AMDLongAverage, Replicas: 3})
		}
	case how.isAMD():
		for _, floor := range amdFloors {
			add(Scene{Floor: floor})
		}
	case how.isDivided():
		for _, floor := range []gpu.Watts{70, 110} {
			add(Scene{Floor: floor})
		}
	default:
		for _, names := range []Names{NamesActive, NamesLast, NamesNone} {
			add(Scene{Floor: 70, Driver: Driver{Names: names, Power: time.Second}, Replicas: 3})
		}
	}
	return all
}

func (s Scene) besideBusy() Scene {
	s.Busy = true
	if s.Replicas > 0 {
		s.Replicas = 1
	}
	return s
}

// SharingCheats returns the cheats for a way to share a GPU. In MIG mode and on AMD GPUs, the driver provides no
// samples of processes or power. The exporter reads counters every second. On AMD GPUs, it also reads the occupied
// compute units.
func SharingCheats(how Sharing) (all []Cheat) {
	all = slices.DeleteFunc(Cheats(), func(c Cheat) bool { return c.Peer != nil || c.Tail > 0 || c.Lifetime > 0 })
	if how.isDivided() || how.isAMD() {
		all = slices.DeleteFunc(all, func(c Cheat) bool {
			return slices.Contains([]string{"mallory works for 100 ms right after each sample of activity", "mallory works for 1 ms right after each sample of activity", "mallory works for 1 ms right before each sample of power"}, c.Name)
		})
		all = append(all,
			Cheat{Name: "mallory works for 100 ms right after each reading", Watts: 400, Load: always(func() Load { return afterReadings(100) })},
			Cheat{Name: "mallory works for 1 ms right after each reading", Watts: 590, Load: always(func() Load { return afterReadings(1) })},
		)
	}
	if how.isAMD() {
		all = append(all, amdCheats(how)...)
	}
	return append(all, Cheat{Name: "mallory's kernels draw much power", Watts: 590, Ordinary: 400, Load: always(func() Load { return Bursts(20, 0.2, 15) })})
}

func afterReadings(length int64) Load {
	return Periodic(length, tick.Milliseconds(), phase)
}
