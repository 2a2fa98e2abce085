package simnode

import (
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// With cgroup v2, Slurm 26.05 and newer name a job's cgroup after its SLUID.
func slurm() Scenario {
	sc := machineWithoutKubelet("slurm", 6)
	sc.Description = "6 H100 of a Slurm cluster; a job of 2 GPUs, 2 jobs that share one, a job without work, a job that is requeued after 10 s"
	sc.Files = map[string]string{"held/5": "4600 1003\n"} // from a job for which no epilog ran
	shared := map[string]string{"held/2": "4712\n4713\n"}
	tuner := SlurmJob("4712", "s8FXKTA79XAR01", 1002, nil, Work{GPU: 2, Watts: 450, Load: Constant(30), Memory: 20 * gib})
	tuner.Devices, tuner.Files = GPUs(2), shared
	eval := SlurmJob("4713", "s8FXKTA79XAR02", 1003, nil, Work{GPU: 2, Watts: 450, Load: Constant(25), Memory: 12 * gib})
	eval.Devices = GPUs(2)
	eval.Cgroup = "/system.slice/gpu-a_slurmstepd.scope/s8FXKTA79XAR02" // in the cgroup of another slurmd
	first := SlurmJob("4715", "s8FXKTA79XAR04", 1001, GPUs(4), Work{GPU: 4, Watts: 600, Load: Constant(50), Memory: 40 * gib})
	again := SlurmJob("4715", "s8FXKTB00000T5", 1001, GPUs(4), Work{GPU: 4, Watts: 600, Load: Constant(50), Memory: 40 * gib})
	first.Until, again.From = 10*time.Second, 12*time.Second
	sc.Units = []Unit{
		SlurmJob("4711", "s8FXKTA79XAR00", 1001, GPUs(0, 1),
			Work{GPU: 0, Watts: 560, Load: Constant(97), Memory: 71 * gib}, Work{GPU: 1, Watts: 575, Load: Constant(96), Memory: 70 * gib}),
		tuner, eval,
		SlurmJob("4714", "s8FXKTA79XAR03", 1002, GPUs(3)),
		first, again,
	}
	return sc
}

// With cgroup v1, Slurm names a job's cgroup after its job id.
func slurmV1() Scenario {
	sc := machineWithoutKubelet("slurm-v1", 3)
	sc.Description = "3 H100 of a Slurm cluster with cgroup v1; a job of one GPU, a job without work, an idle GPU"
	sc.Units = []Unit{
		onV1(SlurmJob("815", "", 1001, GPUs(0), Work{GPU: 0, Watts: 540, Load: Constant(90), Memory: 60 * gib})),
		onV1(SlurmJob("816", "", 1002, GPUs(1))),
	}
	return sc
}

// machineWithoutKubelet returns a machine without Kubernetes that runs the exporter as a service.
func machineWithoutKubelet(name string, gpus int) Scenario {
	sc := hgxH100(name, gpus)
	sc.NoKubelet, sc.Sampling.Even = true, true
	sc.Daemons = append(sc.Daemons, Daemon{"/system.slice/gpuledger.service", Process{Comm: exporter}})
	return sc
}

// SlurmJob returns a job with its step daemons. If the job has work, it also has a process. If it has devices, it also
// has the files that gpuledger's prolog writes.
func SlurmJob(id, sluid string, uid int, devices []Device, work ...Work) Unit {
	u := Unit{
		Unit: gpu.Unit{Manager: "slurm", Name: id}, Cgroup: "/system.slice/slurmstepd.scope/" + sluid, Devices: devices,
		Processes: []Process{
			{Comm: "slurmstepd", Title: "slurmstepd: [" + id + ".extern]", Below: "/step_extern/slurm"},
			{Comm: "sleep", Below: "/step_extern/user/task_0"},
			{Comm: "slurmstepd", Title: "slurmstepd: [" + id + ".batch]", Below: "/step_batch/slurm"},
			{Comm: "bash", UID: uid, Below: "/step_batch/user/task_0"},
		},
	}
	if len(work) > 0 {
		u.Processes = append(u.Processes, Process{Comm: "python3", UID: uid, Below: "/step_batch/user/task_0", Work: work})
	}
	if len(devices) == 0 {
		return u
	}
	job := fmt.Sprintf("uid=%d\nuser=user%d\naccount=physics\npartition=gpu\ncluster=alps\nsluid=%s\n", uid, uid, sluid)
	u.Files = map[string]string{"held/jobs/" + id: job}
	for _, d := range devices {
		u.Files[fmt.Sprintf("held/%d", d.GPU)] = fmt.Sprintf("%s %d\n", id, uid)
	}
	return u
}

// With cgroup v1, Slurm creates cgroups only for some controllers.
func onV1(u Unit) Unit {
	uid := u.Processes[len(u.Processes)-1].UID
	job := fmt.Sprintf("/slurm_gpu-a/uid_%d/job_%s%%s", uid, u.Name)
	u.Cgroup = "11:devices:" + job + "\n9:memory:" + job + "\n4:pids:/\n1:name=systemd:/system.slice/slurmd.service\n0::/"
	return u
}
