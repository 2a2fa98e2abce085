package simnode

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// UnitCheats is a variant of [Cheats] on a machine without Kubernetes. On each GPU, one unit (a job, a container or a
// user) tries to be charged less. Some units try to charge their work to a job on the same GPU.
func UnitCheats() (cheating, honest Scenario, names []string) { return playTricks(unitTricks) }

// ManagerCheats is a variant of [UnitCheats] in which units imitate units of other managers.
func ManagerCheats() (cheating, honest Scenario, names []string) { return playTricks(managerTricks) }

func playTricks(tricks []unitTrick) (cheating, honest Scenario, names []string) {
	cheating = machineWithoutKubelet("unit-cheats", len(tricks))
	honest = cheating
	for g, trick := range tricks {
		for sc, tricked := range map[*Scenario]bool{&cheating: true, &honest: false} {
			victim := SlurmJob(fmt.Sprint(900+g), fmt.Sprintf("s8FXKTA79XAR%02d", g), 1001, GPUs(g), worker("", g).Containers[0].Processes[0].Work[0])
			mallory := trick.unit(g)
			mallory.Processes = slices.Clone(mallory.Processes)
			if tricked {
				trick.play(&mallory, &victim)
			}
			sc.Units = append(slices.Clip(sc.Units), mallory)
			if !trick.exclusive {
				sc.Units = append(sc.Units, victim)
			}
		}
		names = append(names, trick.name)
	}
	return cheating, honest, names
}

type unitTrick struct {
	name string
	unit func(gpu int) Unit
	play func(mallory, victim *Unit)
	// exclusive is set if the GPU is not shared with another job.
	exclusive bool
}

var unitTricks = []unitTrick{
	{"a session's cgroup with the name of a job's cgroup", mallorySession, func(mallory, victim *Unit) {
		mallory.Processes[0].Below = "/user@1666.service" + victim.Cgroup + "/step_0/user/task_0"
	}, false},
	{"a container's cgroup with the name of a job's cgroup", malloryContainer, func(mallory, victim *Unit) {
		mallory.Processes[0].Below = victim.Cgroup + "/step_0/user/task_0"
	}, false},
	{"a cgroup inside a job with the name of another job's cgroup", malloryJob, func(mallory, victim *Unit) {
		worker := &mallory.Processes[len(mallory.Processes)-1]
		worker.Below += victim.Cgroup + "/step_0/user/task_0"
	}, false},
	{"a cgroup inside a job with the name of a container's cgroup", malloryJob, func(mallory, _ *Unit) {
		worker := &mallory.Processes[len(mallory.Processes)-1]
		worker.Below += "/docker/" + hexID("docker", "anything")
	}, false},
	{"a process with the name and title of another job's daemon", malloryJob, func(mallory, victim *Unit) {
		worker := &mallory.Processes[len(mallory.Processes)-1]
		worker.Comm, worker.Title = "slurmstepd", "slurmstepd: ["+victim.Name+".batch]"
	}, false},
	{"a service's cgroup with the name of a session's cgroup", malloryService, func(mallory, _ *Unit) {
		mallory.Processes[0].Below = "/user.slice/user-1001.slice/session-1.scope"
	}, false},
	{"idle contexts and other names", malloryJob, func(mallory, _ *Unit) {
		g := mallory.Processes[len(mallory.Processes)-1].Work[0].GPU
		for range 6 {
			idle := idler(g, Compute)
			idle.Below = "/step_batch/user/task_0"
			mallory.Processes = append(mallory.Processes, idle)
		}
	}, false},
	{"workers with a lifetime of 300 ms", malloryJob, func(mallory, _ *Unit) {
		mallory.Processes[len(mallory.Processes)-1].Lifetime = 300 * time.Millisecond
	}, true},
}

var managerTricks = []unitTrick{
	{"a user's cgroup with the name of a PBS job's cgroup", mallorySession, func(mallory, _ *Unit) {
		mallory.Processes[0].Below = "/user@1666.service/pbs_jobs.service/jobid/1.server"
	}, false},
	{"a user's service with the name of a Flux job", mallorySession, func(mallory, _ *Unit) {
		mallory.Processes[0].Below = "/user@1666.service/app.slice/imp-shell-0-f2rKx9.service"
	}, false},
	{"a user's slice with the name of a slice of users", mallorySession, func(mallory, _ *Unit) {
		mallory.Processes[0].Below = "/user@1666.service/user.slice/user-1001.slice/session-1.scope"
	}, false},
	{"a container's cgroup with the name of a machine's cgroup", malloryContainer, func(mallory, _ *Unit) {
		mallory.Processes[0].Below = "/lxc.payload.web"
	}, false},
	{"a service's cgroup with the name of an HTCondor slot's cgroup", malloryService, func(mallory, _ *Unit) {
		mallory.Processes[0].Below = "/condor.service/condor_execute_slot1_1@exec7.example.com"
	}, false},
}

func malloryWork(g int) Work {
	return Work{GPU: g, Watts: 500, Load: Constant(40), Memory: 8 * gib}
}

func mallorySession(g int) Unit { return session(1666, "/session-9.scope", malloryWork(g)) }

func malloryContainer(g int) Unit {
	return dockerContainer(fmt.Sprintf("mallory-%d", g), GPUs(g), malloryWork(g))
}

func malloryService(g int) Unit {
	return Unit{
		Unit: gpu.Unit{Manager: "systemd", Name: "mallory"}, Cgroup: "/system.slice/mallory.service",
		Processes: []Process{{Comm: "python3", Work: []Work{malloryWork(g)}}},
	}
}

func malloryJob(g int) Unit {
	u := SlurmJob(fmt.Sprint(660+g), fmt.Sprintf("s8FXKTA79XAS%02d", g), 1666, GPUs(g), malloryWork(g))
	// The file names both jobs that share the GPU.
	u.Files[fmt.Sprintf("held/%d", g)] = fmt.Sprintf("%d\n%d\n", 660+g, 900+g) // without a victim, job 900+g does not exist, so it holds no GPU
	return u
}
