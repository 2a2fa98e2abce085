//go:build e2e

package rules_test

import "time"

// units returns a machine without Kubernetes: a job on two GPUs, a job that shares one of them and
// does nothing, a container and the session of a user.
func units() world {
	const end = 5 * time.Hour
	h := newHistory(30 * time.Second)
	for uuid, serial := range map[string]string{"GPU-1": "S1", "GPU-2": "S2"} {
		h.linear(series(boardEnergy, map[string]string{"node": "a", "UUID": uuid, "serial": serial}), 0, end, 0, 600)
	}
	for _, u := range []unitOnGPU{
		{"slurm", "4711", "GPU-1", "time-slicing", span{30 * time.Minute, end}, 400, 25},
		{"slurm", "4711", "GPU-2", "exclusive", span{30 * time.Minute, 3*time.Hour + 15*time.Minute}, 500, 50},
		{"slurm", "4712", "GPU-1", "time-slicing", span{2 * time.Hour, end}, 100, 100},
		{"docker", "vision", "GPU-2", "exclusive", span{3*time.Hour + 30*time.Minute, end}, 200, 0},
		{"user", "1001", "GPU-1", "none", span{90 * time.Minute, end}, 50, 50},
	} {
		h.unit(u)
	}
	h.described("slurm", "4711", "", 30*time.Minute, 33*time.Minute) // the user becomes known late
	h.described("slurm", "4711", "1001", 33*time.Minute, end)
	h.described("slurm", "4712", "1002", 2*time.Hour, end)
	h.described("docker", "vision", "", 3*time.Hour+30*time.Minute, end)
	h.described("user", "1001", "1001", 90*time.Minute, end)
	return world{name: "units", history: h, evaluate: 15 * time.Minute, questions: h.onUnits()}
}

// unitOnGPU is a unit that holds or uses a GPU, with its power and idle power in watts.
type unitOnGPU struct {
	manager, unit, uuid, sharing string
	span
	watts, idle float64
}

// unit adds the record and the main page of a unit on a GPU.
func (h *history) unit(u unitOnGPU) {
	who := map[string]string{"node": "a", "UUID": u.uuid, "manager": u.manager, "unit": u.unit}
	recorded := with(who, "serial", "S"+u.uuid[len("GPU-"):], "chassis_serial", "C1")
	h.linear(series(unitEnergy, recorded), u.from, u.to, 0, u.watts)
	h.linear(series(unitIdle, recorded), u.from, u.to, 0, u.idle)
	if u.sharing != "none" {
		h.linear(series(unitGPU, recorded), u.from, u.to, 0, 0.5)
	}
	h.linear(series(unitActive, recorded), u.from, u.to, 0, 1-u.idle/u.watts)
	h.constant(series("gpuledger_unit_allocation_created_timestamp_seconds", recorded), u.from, u.to, u.from.Seconds())
	h.linear(series("gpuledger_unit_energy_joules_total", with(who, "method", "shared")), u.from, u.to, 0, u.watts)
	h.linear(series("gpuledger_unit_idle_energy_joules_total", who), u.from, u.to, 0, u.idle)
	h.constant(series("gpuledger_unit_gpu_info", with(who, "sharing", u.sharing)), u.from, u.to, 1)
}

// described adds the description of a unit, by the uid of its user.
func (h *history) described(manager, unit, uid string, from, to time.Duration) {
	h.constant(series("gpuledger_unit_info", map[string]string{"node": "a", "manager": manager, "unit": unit, "uid": uid}), from, to, 1)
}

// onUnits returns the queries at the end of the hour in which the container started. The first hour
// of a Prometheus is not counted.
func (h *history) onUnits() []question {
	const at = 4 * time.Hour
	counted := span{time.Hour, at}
	ask := func(title string, want map[string]float64) question {
		return question{title, at, map[string]string{"window": "3h", "unit": "4711"}, want}
	}
	ofUser := func(labels map[string]string) string {
		uid := map[string]string{"4711": "1001", "4712": "1002", "1001": "1001"}[labels["unit"]]
		return series("", map[string]string{"user": uid})
	}
	board := func(uuid, serial string) string {
		return some(map[string]string{"node": "a", "UUID": uuid, "serial": serial, "chassis_serial": "C1"}, "node", "UUID", "serial", "chassis_serial")
	}
	return []question{
		ask("Energy of each unit", h.sum(unitEnergy, counted, by("manager", "unit"))),
		ask("Energy of each manager", h.sum(unitEnergy, counted, by("manager"))),
		ask("Energy of each user", h.sum(unitEnergy, counted, ofUser)),
		ask("Idle energy of each unit", h.sum(unitIdle, counted, by("manager", "unit"))),
		ask("GPU hours of each unit", hours(h.sum(unitGPU, counted, by("manager", "unit")))),
		ask("Active GPU hours of each unit", hours(h.sum(unitActive, counted, by("manager", "unit")))),
		ask("Boards of a job", map[string]float64{board("GPU-1", "S1"): 1, board("GPU-2", "S2"): 1}),
		ask("Units that hold GPUs without work", map[string]float64{`{UUID="GPU-1",manager="slurm",node="a",unit="4712"}`: 1}),
	}
}
