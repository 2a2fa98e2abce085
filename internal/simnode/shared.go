package simnode

import "time"

// The device plugin offers six replicas of every GPU. The pods on the first GPU differ in activity and power. The pods
// on the second GPU are equal.
func timeslice() Scenario {
	sc := hgxH100("timeslice", 2)
	sc.Description = "2 H100 shared by time-slicing; 4 different pods on one, 2 equal pods on the other"
	sc.PodsAPI = true
	for i := range sc.GPUs {
		sc.GPUs[i].Replicas = 6
	}
	sc.Pods = []Pod{
		devicePlugin(),
		sharer("notebook-ada", Parts(0, 0), Work{GPU: 0, Watts: 420, Load: Duty(25, 4*time.Second, 10*time.Second), Memory: 12 * gib}),
		sharer("notebook-bob", Parts(0, 1), Work{GPU: 0, Watts: 610, Load: Constant(20), Memory: 9 * gib}),
		sharer("tuner", Parts(0, 2, 3), Work{GPU: 0, Watts: 540, Load: Constant(35), Memory: 30 * gib}),
		sharer("evaluator", Parts(0, 5), Work{GPU: 0, Watts: 330, Load: Ramp(2, 18, 15*time.Second), Memory: 6 * gib}),
		sharer("twin-a", Parts(1, 4), Work{GPU: 1, Watts: 500, Load: Constant(40), Memory: 20 * gib}),
		sharer("twin-b", Parts(1, 0), Work{GPU: 1, Watts: 500, Load: Constant(40), Memory: 20 * gib}),
	}
	return sc
}

func accounted() Scenario {
	sc := timeslice()
	sc.Name, sc.Node = "accounting", "accounting-0"
	sc.Description = "as timeslice; a newer driver keeps accounts of processes"
	sc.Driver = Driver{Version: "610.43.02", NVML: "13.610.43.02"}
	for i := range sc.GPUs {
		sc.GPUs[i].Accounting = true
	}
	return sc
}

// The device plugin offers ten replicas of a GPU through MPS. Its control daemon runs the MPS server in a separate pod
// without an allocation.
func mps() Scenario {
	sc := hgxH100("mps", 1)
	sc.Description = "1 H100 shared by MPS; 3 client pods and the server in the pod of the control daemon"
	sc.GPUs[0].Replicas = 10
	client := func(watts int, load Pattern, memory uint64) Work {
		return Work{GPU: 0, Watts: watts, Load: load, Memory: memory, Context: MPSClient}
	}
	sc.Pods = []Pod{
		devicePlugin(),
		{Namespace: "kube-system", Name: "nvidia-device-plugin-mps-control-daemon-9qzwt", Containers: []Container{{
			Name: "mps-control-daemon-ctr",
			Processes: []Process{
				{Comm: "mps-control-dae"},
				{Comm: "nvidia-cuda-mps"}, // nvidia-cuda-mps-control
				{Comm: "nvidia-cuda-mps", Work: []Work{{GPU: 0, Memory: gib / 32, Context: MPSServer}}},
			},
		}}},
		sharer("embed-0", Parts(0, 0), client(560, Constant(30), 10*gib)),
		sharer("embed-1", Parts(0, 7), client(480, Constant(25), 10*gib)),
		sharer("rerank-0", Parts(0, 3, 4), client(610, Duty(40, 6*time.Second, 10*time.Second), 14*gib)),
	}
	return sc
}

func sharer(name string, devices []Device, work ...Work) Pod {
	return Pod{Namespace: "team-a", Name: name, QoS: "burstable", Containers: []Container{{
		Name: "main", Devices: devices, Processes: []Process{{Comm: "python3", Work: work}},
	}}}
}
