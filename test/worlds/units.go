package worlds

import "time"

// Units returns a machine without Kubernetes. It runs a job on two GPUs, a container, and a user's session. A second
// job holds a share of one of the two GPUs but does not work.
func Units() *History {
	const end = 5 * time.Hour
	h := New(30 * time.Second)
	for uuid, serial := range map[string]string{"GPU-1": "S1", "GPU-2": "S2"} {
		h.Linear(Series(BoardEnergy, map[string]string{"node": "a", "UUID": uuid, "serial": serial}), 0, end, 0, 600)
	}
	for _, u := range []unitOnGPU{
		{"slurm", "4711", "GPU-1", "time-slicing", Span{30 * time.Minute, end}, 400, 25},
		{"slurm", "4711", "GPU-2", "exclusive", Span{30 * time.Minute, 3*time.Hour + 15*time.Minute}, 500, 50},
		{"slurm", "4712", "GPU-1", "time-slicing", Span{2 * time.Hour, end}, 100, 100},
		{"docker", "vision", "GPU-2", "exclusive", Span{3*time.Hour + 30*time.Minute, end}, 200, 0},
		{"user", "1001", "GPU-1", "none", Span{90 * time.Minute, end}, 50, 50},
	} {
		h.unit(u)
	}
	h.described("slurm", "4711", "", 30*time.Minute, 33*time.Minute) // the user becomes known late
	h.described("slurm", "4711", "1001", 33*time.Minute, end)
	h.described("slurm", "4712", "1002", 2*time.Hour, end)
	h.described("docker", "vision", "", 3*time.Hour+30*time.Minute, end)
	h.described("user", "1001", "1001", 90*time.Minute, end)
	return h
}

// The powers of a unitOnGPU are in watts.
type unitOnGPU struct {
	manager, unit, uuid, sharing string
	Span
	watts, idle float64
}

// unit adds the series on /metrics/record and on /metrics.
func (h *History) unit(u unitOnGPU) {
	who := map[string]string{"node": "a", "UUID": u.uuid, "manager": u.manager, "unit": u.unit}
	recorded := With(who, "serial", "S"+u.uuid[len("GPU-"):], "chassis_serial", "C1")
	h.Linear(Series(UnitEnergy, recorded), u.From, u.To, 0, u.watts)
	h.Linear(Series(UnitIdle, recorded), u.From, u.To, 0, u.idle)
	if u.sharing != "none" {
		h.Linear(Series(UnitGPU, recorded), u.From, u.To, 0, 0.5)
	}
	h.Linear(Series(UnitActive, recorded), u.From, u.To, 0, 1-u.idle/u.watts)
	h.Constant(Series("gpuledger_unit_allocation_created_timestamp_seconds", recorded), u.From, u.To, u.From.Seconds())
	h.Linear(Series("gpuledger_unit_energy_joules_total", With(who, "method", "shared")), u.From, u.To, 0, u.watts)
	h.Linear(Series("gpuledger_unit_idle_energy_joules_total", who), u.From, u.To, 0, u.idle)
	h.Constant(Series("gpuledger_unit_gpu_info", With(who, "sharing", u.sharing)), u.From, u.To, 1)
}

func (h *History) described(manager, unit, uid string, from, to time.Duration) {
	h.Constant(Series("gpuledger_unit_info", map[string]string{"node": "a", "manager": manager, "unit": unit, "uid": uid}), from, to, 1)
}
