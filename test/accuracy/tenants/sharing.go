package tenants

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Sharing is the way in which mallory and the victim share the GPU. There are three ways: they time-slice the GPU, they
// hold MIG instances (mallory 3g, the victim 4g), or they are clients of one MPS server.
type Sharing int

// These are the ways to share a GPU. On GPUs with GPM, the driver measures the activity of MIG instances. The samples
// of an MPS server name the server or its clients.
const (
	TimeSliced Sharing = iota
	MIGWithGPM
	MIGWithoutGPM
	MPSNamesServer
	MPSNamesClients
)

// Sharings contains all ways except time-slicing.
var Sharings = []Sharing{MIGWithGPM, MIGWithoutGPM, MPSNamesServer, MPSNamesClients}

func (s Sharing) String() string {
	return [...]string{"time-slicing", "MIG with GPM", "MIG without GPM", "MPS, samples name the server", "MPS, samples name the client"}[s]
}

func (s Sharing) isMIG() bool { return s == MIGWithGPM || s == MIGWithoutGPM }

// migSlices contains the slices of the instances 3g and 4g.
var migSlices = []int{3, 4}

// divide divides a GPU of mallory and the victim in this way. A MIG instance draws a part of the power of a whole GPU.
func (s Sharing) divide(g *GPU) {
	switch {
	case s.isMIG():
		g.Slices, g.GPM = migSlices, s == MIGWithGPM
		all := float64(migSlices[0] + migSlices[1])
		for i := range g.Tenants {
			t := &g.Tenants[i]
			t.Instance, t.Replicas, t.Watts = i, 1, t.Watts*float64(migSlices[i])/all
		}
	case s == MPSNamesServer:
		g.MPS = MPSServer
	case s == MPSNamesClients:
		g.MPS = MPSClients
	}
}

// victimWatts returns the power of the victim's work. Work that does not wait for mallory's work draws less, so that both together
// stay below the limit.
func (s Sharing) victimWatts() float64 {
	if s == MPSNamesServer || s == MPSNamesClients {
		return 200
	}
	return 400
}

// SharingScenes returns the scenes of a cheat for a way to share a GPU. The driver averages power over a second.
func SharingScenes(c Cheat, how Sharing) (all []Scene) {
	if how.isMIG() {
		for _, floor := range []gpu.Watts{70, 110} {
			s := Scene{Cheat: c, Sharing: how, Floor: floor}
			all = append(all, s, s.besideBusy())
		}
		return all
	}
	for _, names := range []Names{NamesActive, NamesLast, NamesNone} {
		s := Scene{Cheat: c, Sharing: how, Floor: 70, Driver: Driver{Names: names, Power: time.Second}, Replicas: 3}
		all = append(all, s, s.besideBusy())
	}
	return all
}

// besideBusy returns the scene with a busy victim.
func (s Scene) besideBusy() Scene {
	s.Busy = true
	if s.Replicas > 0 {
		s.Replicas = 1
	}
	return s
}

// SharingCheats returns the cheats for a way to share a GPU. In MIG mode the driver provides no samples of processes
// and no samples of power. Instead, the driver provides counters. The exporter reads these counters every second.
func SharingCheats(how Sharing) (all []Cheat) {
	all = slices.DeleteFunc(Cheats(), func(c Cheat) bool { return c.Peer != nil || c.Tail > 0 || c.Lifetime > 0 })
	if how.isMIG() {
		all = slices.DeleteFunc(all, func(c Cheat) bool {
			return slices.Contains([]string{"work right after each sample of activity", "1 ms after each sample of activity", "work before each sample of power"}, c.Name)
		})
		all = append(all,
			Cheat{Name: "work right after each reading", Watts: 400, Load: always(func() Load { return afterReadings(100) })},
			Cheat{Name: "1 ms after each reading", Watts: 590, Load: always(func() Load { return afterReadings(1) })},
		)
	}
	return append(all, Cheat{Name: "kernels with much power", Watts: 590, Ordinary: 400, Load: always(func() Load { return Bursts(20, 0.2, 15) })})
}

// afterReadings returns a load that starts right after each observation.
func afterReadings(length int64) Load {
	return Periodic(length, tick.Milliseconds(), phase)
}
