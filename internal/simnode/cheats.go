package simnode

import (
	"slices"
	"strings"
	"time"
)

func cheats() Scenario {
	cheating, _, _ := Cheats()
	return cheating
}

// Cheats returns two machines with the same work. On each GPU of the first machine, a tenant uses a different trick to
// be charged less. The second machine runs the work without tricks. names contains the names of the tricks in the order
// of the GPUs.
func Cheats() (cheating, honest Scenario, names []string) {
	return playing("cheats", tricks)
}

// HostCheats is a variant of [Cheats] in which users of the host try to charge their work to other owners. They give
// their own cgroups the names of a pod's cgroups.
func HostCheats() (cheating, honest Scenario, names []string) {
	return playing("host-cheats", hostTricks)
}

// FleetingCheats is a variant of [Cheats] on shared GPUs. Its processes end before they can be identified.
func FleetingCheats() (cheating, honest Scenario, names []string) {
	return playing("fleeting-cheats", fleetingTricks)
}

func playing(name string, tricks []trick) (cheating, honest Scenario, names []string) {
	cheating = hgxH100(name, len(tricks))
	cheating.Description = "8 H100; on each GPU a tenant tries a different trick to pay for less than it uses"
	cheating.Sampling.Even = true
	for i, trick := range tricks {
		if !trick.exclusive {
			cheating.GPUs[i].Replicas = 4
		}
	}
	cheating.Pods = []Pod{devicePlugin()}
	honest = cheating
	for i, trick := range tricks {
		trick.play(i, &cheating, true)
		trick.play(i, &honest, false)
		names = append(names, trick.name)
	}
	return cheating, honest, names
}

// The cheating pods are in the namespace mallory. Their neighbours are in team-a.
type trick struct {
	name string
	// exclusive is set if the GPU is not shared by time-slicing.
	exclusive bool
	// play adds the trick's pods to a scenario. The pods use the trick only if cheating is set.
	play func(gpu int, sc *Scenario, cheating bool)
}

var tricks = []trick{
	{name: "a worker with the name of an MPS server, and an idle client", play: func(g int, sc *Scenario, cheating bool) {
		p := worker("renamed", g)
		if cheating {
			p.Containers[0].Processes[0].Comm = mpsServer
			p.Containers[0].Processes = append(p.Containers[0].Processes, idler(g, MPSClient))
		}
		sc.addPods(p, neighbour(g))
	}},
	{name: "an MPS server of the tenant", play: func(g int, sc *Scenario, cheating bool) {
		p := worker("own-mps", g)
		if cheating {
			p.Containers[0].Processes[0].Work[0].Context = MPSClient
			server := idler(g, MPSServer)
			server.Comm = mpsServer
			p.Containers[0].Processes = append(p.Containers[0].Processes, server)
		}
		sc.addPods(p, neighbour(g))
	}},
	{name: "a worker without an allocation that poses as the MPS server of an idle client", play: func(g int, sc *Scenario, cheating bool) {
		p := worker("daemon", g)
		if cheating {
			p.Containers[0].Devices = nil
			p.Containers[0].Processes[0].Comm = mpsServer
			client := worker("client", g)
			client.Containers[0].Processes = []Process{idler(g, MPSClient)}
			sc.addPods(client)
		}
		sc.addPods(p, neighbour(g))
	}},
	{name: "a cgroup inside the container with the name of another pod's cgroup", play: func(g int, sc *Scenario, cheating bool) {
		p, victim := worker("nested", g), neighbour(g)
		if cheating {
			p.Containers[0].Processes[0].Below = sc.cgroupOf(victim)
		}
		sc.addPods(p, victim)
	}},
	namedAsPod("a user's service with the name of a pod", "/user.slice/user-1000.slice/user@1000.service"),
	{name: "workers with a lifetime of 300 ms", exclusive: true, play: func(g int, sc *Scenario, cheating bool) {
		p := worker("fleeting", g)
		if cheating {
			p.Containers[0].Processes[0].Lifetime = 300 * time.Millisecond
		}
		sc.addPods(p)
	}},
	{name: "names that truncate the log link, and an idle sidecar", play: func(g int, sc *Scenario, cheating bool) {
		p := worker("long", g)
		if cheating {
			p.Name, p.Containers[0].Name = strings.Repeat("p", 210), strings.Repeat("c", 28)
			p.Containers = append(p.Containers, Container{Name: "idle", Processes: []Process{{Comm: "sleep"}}})
		}
		sc.addPods(p, neighbour(g))
	}},
	{name: "idle contexts, an idle sidecar and more replicas", play: func(g int, sc *Scenario, cheating bool) {
		p := worker("many", g)
		if cheating {
			p.Containers[0].Devices = Parts(g, 0, 2, 3)
			for range 6 {
				p.Containers[0].Processes = append(p.Containers[0].Processes, idler(g, Compute))
			}
			p.Containers = append(p.Containers, Container{Name: "idle", Processes: []Process{idler(g, Compute)}})
		}
		sc.addPods(p, neighbour(g))
	}},
}

// namedAsPod returns a trick of a process on the host. In the cgroup of its service or user, the process creates a
// cgroup with the name of a pod's cgroup.
func namedAsPod(name, cgroup string) trick {
	return trick{name: name, exclusive: true, play: func(g int, sc *Scenario, cheating bool) {
		victim := neighbour(g)
		user := Daemon{Cgroup: cgroup, Process: worker("", g).Containers[0].Processes[0]}
		if cheating {
			user.Cgroup += sc.cgroupOf(victim)
		}
		sc.Daemons = append(slices.Clip(sc.Daemons), user)
		sc.addPods(victim)
	}}
}

// In the parent cgroup of each trick, users other than root can create cgroups with arbitrary names.
var hostTricks = []trick{
	namedAsPod("a system service", "/system.slice/mallory.service"),
	namedAsPod("an LXC container", "/lxc.payload.mallory/system.slice"),
	namedAsPod("a container of an old LXC", "/lxc/mallory"),
	namedAsPod("a machine", "/machine.slice/systemd-nspawn@mallory.service/payload"),
	namedAsPod("a scope", "/system.slice/run-u1.scope"),
	namedAsPod("an OpenPBS job", "/pbs_jobs.service/jobid/1234.pbs01"),
}

// The processes of the cheating pods end after 300 ms.
var fleetingTricks = []trick{
	{name: "one worker of 300 ms beside a steady pod", play: func(g int, sc *Scenario, cheating bool) {
		sc.addPods(fleeting(worker("one", g), cheating), neighbour(g))
	}},
	{name: "40 workers of 300 ms beside a steady pod", play: func(g int, sc *Scenario, cheating bool) {
		p := worker("forty", g)
		w := p.Containers[0].Processes[0]
		w.Work = []Work{{GPU: g, Watts: 500, Load: Constant(2), Memory: gib}}
		p.Containers[0].Processes = slices.Repeat([]Process{w}, 40)
		steady := neighbour(g)
		steady.Containers[0].Processes[0].Work[0].Load = Constant(10)
		sc.addPods(fleeting(p, cheating), steady)
	}},
	{name: "workers of 300 ms in both pods", play: func(g int, sc *Scenario, cheating bool) {
		sc.addPods(fleeting(worker("both", g), cheating), fleeting(neighbour(g), cheating))
	}},
	{name: "workers of 300 ms beside an idle holder of two replicas", play: func(g int, sc *Scenario, cheating bool) {
		idle := sharer("idle", Parts(g, 1, 2))
		idle.Containers[0].Processes = []Process{idler(g, Compute)}
		sc.addPods(fleeting(worker("beside", g), cheating), idle)
	}},
}

func fleeting(p Pod, cheating bool) Pod {
	for i := range p.Containers[0].Processes {
		if cheating {
			p.Containers[0].Processes[i].Lifetime = 300 * time.Millisecond
		}
	}
	return p
}

// mpsServer is the name of nvidia-cuda-mps-server, as truncated by the kernel.
const mpsServer = "nvidia-cuda-mps"

func worker(name string, g int) Pod {
	p := sharer(name, Parts(g, 0), Work{GPU: g, Watts: 500, Load: Constant(45), Memory: 10 * gib})
	p.Namespace = "mallory"
	return p
}

func neighbour(g int) Pod {
	return sharer("neighbour-"+string(rune('0'+g)), Parts(g, 1), Work{GPU: g, Watts: 480, Load: Constant(35), Memory: 10 * gib})
}

func idler(g int, kind Context) Process {
	return Process{Comm: "python3", Work: []Work{{GPU: g, Memory: gib / 2, Context: kind}}}
}

// addPods makes pods on a GPU that is not shared hold part 0 of the GPU.
func (sc *Scenario) addPods(pods ...Pod) {
	for _, p := range pods {
		for _, c := range p.Containers {
			for i, d := range c.Devices {
				if sc.GPUs[d.GPU].Replicas == 0 {
					c.Devices[i].Part = 0
				}
			}
		}
		sc.Pods = append(slices.Clip(sc.Pods), p)
	}
}

func (sc *Scenario) cgroupOf(p Pod) string {
	uid := uuid(sc.Name, p.Namespace, p.Name)
	return cgroupPath(p.QoS, uid, hexID(uid, p.Containers[0].Name))
}
