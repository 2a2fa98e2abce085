package simnode

// The machine has no device plugin. Pods get GPUs and MIG instances through resource claims.
func dra() Scenario {
	sc := hgxH100("dra", 4)
	sc.Description = "4 H100 by DRA: a claim of one pod, one of two, MIG, admin access, and nvidia.com/gpu"
	sc.GPUs[2].MIG = &MIG{Slices: 7, Instances: []Instance{mig3g40gb(2, 0), mig1g10gb(9, 6)}}
	sc.Claims = []Claim{
		{Namespace: "team-a", Name: "trainer-0-gpu-7ktzd", Devices: GPUs(0)},
		{Namespace: "team-a", Name: "shared-gpu", Devices: GPUs(1)},
		{Namespace: "team-a", Name: "slices-0-mig-q4xwn", Devices: Parts(2, 0, 1)},
		{Namespace: "team-b", Name: "plain-0-extended-resources-m8c2v", Devices: GPUs(3)},
		{Namespace: "monitoring", Name: "diag-0-all-gpus-2vhlp", Devices: GPUs(0, 1, 3), Admin: true},
	}
	sc.Pods = []Pod{
		draDriver(),
		claimant("team-a", "trainer-0", 0, Work{GPU: 0, Watts: 570, Load: Constant(95), Memory: 66 * gib}),
		claimant("team-a", "left-0", 1, Work{GPU: 1, Watts: 450, Load: Constant(30), Memory: 18 * gib}),
		claimant("team-a", "right-0", 1, Work{GPU: 1, Watts: 520, Load: Constant(55), Memory: 24 * gib}),
		claimant("team-a", "slices-0", 2,
			Work{GPU: 2, Instance: 0, Watts: 240, Load: Constant(80), Memory: 30 * gib},
			Work{GPU: 2, Instance: 1, Watts: 80, Load: Constant(60), Memory: 5 * gib}),
		claimant("team-b", "plain-0", 3, Work{GPU: 3, Watts: 510, Load: Constant(75), Memory: 40 * gib}),
		claimant("monitoring", "diag-0", 4),
	}
	return sc
}

// claimant returns a pod with a claim and with one process for each item of work.
func claimant(namespace, name string, claim int, work ...Work) Pod {
	c := Container{Name: "main", Claims: []int{claim}}
	for _, w := range work {
		c.Processes = append(c.Processes, Process{Comm: "python3", Work: []Work{w}})
	}
	if len(work) == 0 {
		c.Processes = []Process{{Comm: "sleep"}}
	}
	return Pod{Namespace: namespace, Name: name, QoS: "burstable", Containers: []Container{c}}
}

func draDriver() Pod {
	return Pod{Namespace: "nvidia-dra-driver-gpu", Name: "nvidia-dra-driver-gpu-kubelet-plugin-5tq8r", Containers: []Container{
		{Name: "gpus", Processes: []Process{{Comm: "gpu-kubelet-plu"}}},
		{Name: "compute-domains", Processes: []Process{{Comm: "compute-domain-"}}},
		{Name: "gpuledger", Processes: []Process{{Comm: exporter}}},
	}}
}
