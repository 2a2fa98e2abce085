package simnode

func hog() Scenario {
	sc := hgxH100("hog", 3)
	sc.Description = "3 H100; a pod also uses another pod's idle GPU, and a third GPU is allocated but unused"
	sc.Pods = []Pod{
		devicePlugin(),
		{Namespace: "team-a", Name: "victim-0", QoS: "burstable", Containers: []Container{{
			Name: "main", Devices: GPUs(0),
			Processes: []Process{{Comm: "jupyter", Work: []Work{{GPU: 0, Memory: 2 * gib}}}},
		}}},
		{Namespace: "team-b", Name: "hog-0", Containers: []Container{{
			Name: "main", Devices: GPUs(1),
			Processes: []Process{{Comm: "python3", Work: []Work{
				{GPU: 1, Watts: 560, Load: Constant(92), Memory: 60 * gib},
				{GPU: 0, Watts: 430, Load: Constant(70), Memory: 31 * gib},
			}}},
		}}},
		{Namespace: "team-a", Name: "forgotten-0", QoS: "burstable", Containers: []Container{{
			Name: "main", Devices: GPUs(2),
			Processes: []Process{{Comm: "sleep"}},
		}}},
	}
	return sc
}
