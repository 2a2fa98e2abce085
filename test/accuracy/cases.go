package accuracy

import (
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// A Case describes a GPU, its workload, and a period in which the exporter is down.
type Case struct {
	Name     string
	Scenario simnode.Scenario
	// Down is zero if the exporter is always up.
	Down simnode.Span
	// Unseen is set if the driver does not report the activity that decides the charges. The error of the samples then
	// has no limit.
	Unseen bool
	// Live is set if the AMD source reads the processes of GPUs at random moments, as in production. Then the simulated
	// time is real time or the time of a synctest bubble, and results differ between runs. A bubble allows no kubelet,
	// because its time does not advance while a socket is open.
	Live bool
	// Limit is the maximum error of the samples as a share of the GPU's energy. Zero means the default limit.
	Limit float64
}

// A Sampling describes how a driver takes its samples.
type Sampling struct {
	Name string
	simnode.Sampling
}

// moment is the averaging time of a sample that shows the momentary power.
const moment = time.Millisecond

// Samplings returns the samplings, from most to least favourable for the ledger.
func Samplings() []Sampling {
	return []Sampling{
		{"idle samples name a process with a context", simnode.Sampling{Power: moment}},
		{"idle samples name the process that ran last", simnode.Sampling{Power: moment, Idle: simnode.NamesLast}},
		{"idle samples name no process", simnode.Sampling{Power: moment, Idle: simnode.NamesNone}},
		{"6 samples a second", simnode.Sampling{Power: moment, PerSecond: 6}},
		{"1 sample a second", simnode.Sampling{Power: moment, PerSecond: 1}},
		{"samples of power are averages over 100 ms", simnode.Sampling{Power: 100 * time.Millisecond}},
		{"samples of power are averages over 1 s", simnode.Sampling{Power: time.Second}},
		{"the driver takes no samples of power", simnode.Sampling{}},
	}
}

// Sampled sets the sampling of all cases.
func Sampled(cases []Case, how Sampling) []Case {
	for i := range cases {
		cases[i].Scenario.Sampling = how.Sampling
	}
	return cases
}

// Cases returns all cases. length is the simulated time. Every holder holds one replica or one instance of one GPU.
// Pods draw different power, except in cases with equal work.
func Cases(length time.Duration) []Case {
	return []Case{
		sliced("two pods are busy for the same part of the time",
			pod("left", 540, simnode.Constant(45)),
			pod("right", 420, simnode.Constant(45))),
		sliced("one pod is busy 81 % of the time, the other 9 %",
			pod("heavy", 560, simnode.Constant(81)),
			pod("light", 430, simnode.Constant(9))),
		bursts("one pod works in bursts of 0.9 s, the other evenly", false),
		bursts("one pod works in bursts of 0.9 s, the other evenly, in accounting mode", true),
		churning(),
		sliced("four pods with different loads",
			pod("ada", 420, simnode.Duty(25, 3700*time.Millisecond, 9300*time.Millisecond)),
			pod("bob", 610, simnode.Constant(20)),
			pod("cleo", 540, simnode.Constant(35)),
			pod("dan", 330, simnode.Ramp(2, 18, 14900*time.Millisecond))),
		divided("two pods on the MIG instances 3g and 4g, each sometimes idle", length, true),
		divided("two pods on the MIG instances 3g and 4g, each sometimes idle, without GPM", length, false),
		restarted(length),
		fleeting(),
		sliced("two pods do the same work, one evenly and the other in bursts",
			pod("even", 300, simnode.Constant(10)),
			pod("bursts", 300, simnode.Duty(90, time.Second, 9*time.Second))),
		sliced("one pod works 1 % of each second, the other never works",
			pod("works", 240, simnode.Duty(10, 100*time.Millisecond, time.Second)),
			pod("rests", 240, simnode.Constant(0))),
		notebooks(2),
		notebooks(4),
		notebooks(8),
		ownMPS(),
		bystander(),
		sharedJobs(),
		idleJob(),
		amdJobs(),
		amdPartitions(length),
		amdGraphics(),
	}
}

// notebooks returns a case with light users of one GPU. Half of them work occasionally. The others work for a moment in
// every second.
func notebooks(n int) Case {
	var pods []simnode.Pod
	for i := range n {
		k := time.Duration(i)
		load := simnode.Duty(40/n, 100*time.Millisecond, time.Second)
		if i%2 == 0 {
			load = simnode.Duty(80/n, (2+k)*time.Second, (13+5*k)*time.Second+k*300*time.Millisecond)
		}
		pods = append(pods, pod(fmt.Sprintf("notebook-%d", i), 260+45*i, load))
	}
	return sliced(fmt.Sprintf("%d notebooks that are often idle", n), pods...)
}

func ownMPS() Case {
	c := sliced("a pod with its own MPS server, beside a pod without an MPS server",
		pod("mps", 420, simnode.Constant(40)),
		pod("plain", 510, simnode.Constant(10)))
	p := &c.Scenario.Pods[0].Containers[0]
	p.Processes[0].Work[0].Context = simnode.MPSClient
	second := p.Processes[0]
	second.Work = []simnode.Work{{Watts: 350, Load: simnode.Constant(25), Memory: 8 << 30, Context: simnode.MPSClient}}
	server := simnode.Process{Comm: "nvidia-cuda-mps", Work: []simnode.Work{{Memory: 1 << 25, Context: simnode.MPSServer}}}
	p.Processes = append(p.Processes, second, server)
	return c
}

func bystander() Case {
	holder := pod("holds", 0, simnode.Constant(0))
	holder.Containers[0].Processes[0].Work = nil
	c := sliced("one pod holds the GPU without a process, the other has a context but holds nothing", holder)
	c.Scenario.Pods = append(c.Scenario.Pods, pod("monitor", 0, simnode.Constant(0)))
	return c
}

// Two Slurm jobs hold one GPU. Pods would give equal results. Samples that name a process while nothing runs cause most
// of the error. Without such samples the error is below 0.5 %.
func sharedJobs() Case {
	c := sliced("two Slurm jobs share a GPU: 4711 works in bursts, 4712 evenly")
	bursts := simnode.SlurmJob("4711", "s8FXKTA79XAR00", 1001, simnode.GPUs(0),
		simnode.Work{Watts: 560, Load: simnode.Duty(60, 2300*time.Millisecond, 11900*time.Millisecond), Memory: 8 << 30})
	smooth := simnode.SlurmJob("4712", "s8FXKTA79XAR01", 1002, simnode.GPUs(0),
		simnode.Work{Watts: 430, Load: simnode.Constant(30), Memory: 8 << 30})
	for _, u := range []simnode.Unit{bursts, smooth} {
		u.Files["held/0"] = "4711 1001\n4712 1002\n"
	}
	c.Scenario.NoKubelet, c.Scenario.Units, c.Limit = true, []simnode.Unit{bursts, smooth}, 0.035
	return c
}

func idleJob() Case {
	c := sliced("Slurm job 4713 holds a GPU and does not work")
	c.Scenario.NoKubelet = true
	c.Scenario.Units = []simnode.Unit{simnode.SlurmJob("4713", "s8FXKTA79XAR02", 1001, simnode.GPUs(0))}
	return c
}

// Two Slurm jobs use one AMD GPU. The driver provides no samples of processes, so the exporter reads the occupancy of
// each process once a tick.
func amdJobs() Case {
	c := sliced("AMD: Slurm jobs 4714 and 4715 share an MI300X")
	c.Scenario.NoKubelet, c.Scenario.GPUs, c.Limit = true, instinct(), 0.045
	c.Scenario.Units = []simnode.Unit{
		simnode.SlurmJob("4714", "s8FXKTA79XAR03", 1001, nil, simnode.Work{Watts: 560, Load: simnode.Constant(50), Memory: 8 << 30}),
		simnode.SlurmJob("4715", "s8FXKTA79XAR04", 1001, nil, simnode.Work{Watts: 430, Load: simnode.Constant(30), Memory: 8 << 30}),
	}
	return c
}

// amdPartitions is [divided] for an AMD GPU in DPX mode. The driver measures the activity of each partition.
func amdPartitions(length time.Duration) Case {
	c := divided("AMD: two pods on the two partitions of an MI300X (DPX mode), each sometimes idle", length, true)
	c.Scenario.Pods[0].Name, c.Scenario.Pods[1].Name = "first", "second"
	c.Scenario.GPUs = instinct()
	c.Scenario.GPUs[0].MIG = &simnode.MIG{Slices: 8, Instances: []simnode.Instance{
		{ID: 0, Profile: "DPX", Slices: 4}, {ID: 1, Profile: "DPX", Slices: 4},
	}}
	return c
}

// A graphics program and a ROCm program use one AMD GPU. The driver reports the busy time of graphics. The remaining
// busy time of the GPU belongs to the ROCm program.
func amdGraphics() Case {
	c := sliced("AMD: a graphics program and a ROCm program share an MI300X",
		pod("rocm", 560, simnode.Duty(50, 5300*time.Millisecond, 9700*time.Millisecond)),
		pod("graphics", 430, simnode.Duty(50, 4*time.Second, 10*time.Second)))
	c.Scenario.GPUs = instinct()
	for i := range c.Scenario.Pods {
		c.Scenario.Pods[i].Containers[0].Devices = nil
	}
	c.Scenario.Pods[1].Containers[0].Processes[0].Work[0].Context = simnode.Graphics
	return c
}

func instinct() []simnode.GPU {
	return []simnode.GPU{{
		UUID: "52a7f6533dd081c7", Bus: "00000000:05:00.0", Model: "AMD Instinct MI300X OAM", Serial: "PCB079220-0417",
		Floor: 138, Limit: 750, MaxLimit: 750, Memory: 192 << 30, Counter: 210_000_000_000,
		AMD: &simnode.AMD{Device: "0x74a1", Class: "0x120000", Metrics: "1.7", Units: 304, Dies: 8},
	}}
}

// Sampled reports whether the driver takes samples of processes. It takes none in MIG mode and on AMD GPUs.
func (c *Case) Sampled() bool { return c.Scenario.GPUs[0].MIG == nil && c.Scenario.GPUs[0].AMD == nil }

func bursts(name string, accounting bool) Case {
	c := sliced(name,
		pod("burst", 610, simnode.Duty(44, 900*time.Millisecond, 9100*time.Millisecond)),
		pod("steady", 400, simnode.Constant(55)))
	c.Scenario.GPUs[0].Accounting = accounting
	return c
}

func churning() Case {
	c := sliced("jobs that last 5 or 8 s, beside a job that works evenly",
		pod("steady", 450, simnode.Constant(40)),
		lasting(8300*time.Millisecond, pod("job", 310, simnode.Constant(35))),
		lasting(4700*time.Millisecond, pod("task", 620, simnode.Constant(20))))
	for i := range c.Scenario.Pods {
		c.Scenario.Pods[i].From = 5 * time.Second
	}
	return c
}

// One of two MIG instances works, both work, or neither works.
func divided(name string, length time.Duration, gpm bool) Case {
	first := pod("on-3g", 260, simnode.Pattern{High: 80, On: length * 2 / 5, Period: length})
	second := pod("on-4g", 330, simnode.Pattern{Low: 70, On: length / 5, Period: length * 2 / 3})
	second.Containers[0].Processes[0].Work[0].Instance = 1
	c := sliced(name, first, second)
	c.Unseen = !gpm
	g := &c.Scenario.GPUs[0]
	g.Replicas, g.GPM = 0, gpm
	g.MIG = &simnode.MIG{Slices: 7, Instances: []simnode.Instance{
		{ID: 2, Profile: "3g.40gb", ProfileID: 9, Slices: 3, Start: 4, Size: 4, Memory: 40320},
		{ID: 1, Profile: "4g.40gb", ProfileID: 5, Slices: 4, Start: 0, Size: 4, Memory: 40320},
	}}
	return c
}

func restarted(length time.Duration) Case {
	c := sliced("two pods work evenly, and the exporter is down for five seconds",
		pod("left", 480, simnode.Constant(60)),
		pod("right", 590, simnode.Constant(30)))
	c.Down = simnode.Span{From: length / 2, Until: length/2 + 5*time.Second}
	return c
}

func fleeting() Case {
	return sliced("jobs that last 0.7 s, beside a job that works evenly",
		pod("steady", 450, simnode.Constant(60)),
		lasting(700*time.Millisecond, pod("job", 540, simnode.Constant(20))))
}

func sliced(name string, pods ...simnode.Pod) Case {
	for i := range pods {
		pods[i].Containers[0].Devices = simnode.Parts(0, i)
	}
	return Case{Name: name, Scenario: simnode.Scenario{
		Name: "accuracy", Node: "accuracy-0", PodsAPI: true, Sampling: simnode.Sampling{Power: moment},
		Driver: simnode.Driver{Version: "570.86.15", NVML: "12.570.86.15"},
		DMI:    map[string]string{"sys_vendor": "NVIDIA", "product_name": "DGXH100"},
		Daemons: []simnode.Daemon{
			{Cgroup: "/init.scope", Process: simnode.Process{Comm: "systemd"}},
			{Cgroup: "/system.slice/gpuledger.service", Process: simnode.Process{Comm: "gpuledger"}},
		},
		GPUs: []simnode.GPU{{
			UUID: "GPU-6f1d2c7e-0000-4000-8000-000000000007", Bus: "00000000:1B:00.0", Model: "NVIDIA H100 80GB HBM3",
			Serial: "1653924020817", Floor: 70, Limit: 700, MaxLimit: 700, Memory: 80 << 30,
			Counter: 180_000_000_000, Replicas: len(pods),
		}},
		Pods: pods,
	}}
}

// The GPU draws the given power while the pod's only process keeps it fully busy.
func pod(name string, watts int, load simnode.Pattern) simnode.Pod {
	return simnode.Pod{Namespace: "team-a", Name: name, QoS: "burstable", Containers: []simnode.Container{{
		Name:      "main",
		Processes: []simnode.Process{{Comm: "python3", Work: []simnode.Work{{Watts: watts, Load: load, Memory: 8 << 30}}}},
	}}}
}

func lasting(lifetime time.Duration, p simnode.Pod) simnode.Pod {
	p.Lifetime = lifetime
	return p
}
