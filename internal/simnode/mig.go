package simnode

import "time"

// After 20 s, a smaller instance with the same id replaces the second instance, and another pod replaces its pod.
func mig() Scenario {
	const change = 20 * time.Second
	sc := hgxH100("mig", 2)
	sc.Description = "2 H100, one divided into 3g.40gb + 2g.20gb + 1g.10gb; after 20 s an instance id is reused"
	second := mig2g20gb(3, 4)
	second.Until = change
	third := mig1g20gb(3, 4)
	third.From = change
	sc.GPUs[0].MIG = &MIG{Slices: 7, Instances: []Instance{mig3g40gb(2, 0), second, mig1g10gb(9, 6), third}}

	small := sharer("small-0", Parts(0, 1), Work{GPU: 0, Instance: 1, Watts: 150, Load: Constant(70), Memory: 12 * gib})
	small.Until = change
	smaller := sharer("smaller-0", Parts(0, 3), Work{GPU: 0, Instance: 3, Watts: 70, Load: Constant(85), Memory: 15 * gib})
	smaller.From = change
	sc.Pods = []Pod{
		devicePlugin(),
		{Namespace: "team-a", Name: "pair-0", Containers: []Container{{
			Name: "main", Devices: Parts(0, 0), Processes: []Process{
				{Comm: "python3", Work: []Work{{GPU: 0, Instance: 0, Watts: 260, Load: Constant(45), Memory: 16 * gib}}},
				{Comm: "tritonserver", Work: []Work{{GPU: 0, Instance: 0, Watts: 230, Load: Duty(50, 6*time.Second, 10*time.Second), Memory: 11 * gib}}},
			},
		}}},
		small,
		smaller,
		sharer("reserved-0", Parts(0, 2)),
		{Namespace: "research", Name: "whole-0", Containers: []Container{{
			Name: "trainer", Devices: GPUs(1), Processes: []Process{
				{Comm: "python3", Work: []Work{{GPU: 1, Watts: 590, Load: Constant(96), Memory: 70 * gib}}},
			},
		}}},
	}
	return sc
}

// The driver of an A100 does not report the busy time of instances.
func migA100() Scenario {
	sc := hgxH100("mig-a100", 1)
	sc.Description = "1 A100 divided into 3g.20gb + 2g.10gb, two slices free; the GPU has no GPM"
	g := &sc.GPUs[0]
	g.Model, g.Part, g.VBIOS = "NVIDIA A100-SXM4-40GB", "692-2G506-0200-002", "92.00.45.00.03"
	g.Floor, g.Limit, g.MaxLimit, g.Memory, g.GPM = 52, 400, 400, 40*gib, false
	g.Generation = Ampere
	g.MIG = &MIG{Slices: 7, Instances: []Instance{
		{ID: 1, Profile: "3g.20gb", ProfileID: 9, Slices: 3, Start: 4, Size: 4, Memory: 19968},
		{ID: 5, Profile: "2g.10gb", ProfileID: 14, Slices: 2, Start: 0, Size: 2, Memory: 9856},
	}}
	sc.Pods = []Pod{
		devicePlugin(),
		sharer("busy-0", Parts(0, 0), Work{GPU: 0, Watts: 160, Load: Constant(80), Memory: 14 * gib}),
		sharer("reserved-0", Parts(0, 1)),
	}
	return sc
}

// The profiles come from an H100 with 80 GB. id is the GPU instance id, and start is the first memory slice.
func mig3g40gb(id, start int) Instance {
	return Instance{ID: id, Profile: "3g.40gb", ProfileID: 9, Slices: 3, Start: start, Size: 4, Memory: 40320}
}

func mig2g20gb(id, start int) Instance {
	return Instance{ID: id, Profile: "2g.20gb", ProfileID: 14, Slices: 2, Start: start, Size: 2, Memory: 20096}
}

func mig1g20gb(id, start int) Instance {
	return Instance{ID: id, Profile: "1g.20gb", ProfileID: 15, Slices: 1, Start: start, Size: 2, Memory: 20096}
}

func mig1g10gb(id, start int) Instance {
	return Instance{ID: id, Profile: "1g.10gb", ProfileID: 19, Slices: 1, Start: start, Size: 1, Memory: 9984}
}
