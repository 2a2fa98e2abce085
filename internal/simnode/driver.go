package simnode

import (
	"bytes"
	"fmt"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Fault is a fault that is injected into the driver library.
type Fault struct {
	GPU string // UUID, or * for every GPU
	// Call is the name of an NVML or DCGM function without its version suffix, such as nvmlDeviceGetSerial, or * for
	// every function. For an AMD GPU, Call is the name of a changing file in the GPU's directory in /sys, such as
	// gpu_metrics.
	Call string
	// Do is fail:<return code>, delay:<ms>, hang (until the fault is cleared), drop, blank, glitch-low (half the
	// energy) or glitch-high (10^12 mJ more). For a file of an AMD GPU, Do is hang, drop or blank.
	Do string
}

// Engine describes the DCGM host engine of a node. By default, it has the same version as the library.
type Engine struct {
	Down    bool
	Version string // such as 4.6.1
	// Starts is the number of restarts of the engine.
	Starts int
}

// record builds the fake driver library's state file. The file has one record per line, with fields separated by tabs.
// If a field is missing, the GPU does not support the value.
type record struct{ bytes.Buffer }

// line adds a record with alternating keys and values. It omits nil and empty values.
func (r *record) line(name string, fields ...any) {
	r.WriteString(name)
	for i := 0; i < len(fields); i += 2 {
		if v := fields[i+1]; v != nil && v != "" {
			r.WriteByte('\t')
			r.WriteString(fields[i].(string))
			r.WriteByte('=')
			fmt.Fprint(r, v)
		}
	}
	r.WriteByte('\n')
}

func driverState(w *world, e Engine, faults []Fault, live bool) []byte {
	var r record
	var until any
	if live {
		until = (w.start.Boot + w.elapsed() + step + maxLate).Nanoseconds()
	}
	r.line("engine", "now", w.start.Wall.Add(w.elapsed()).UnixMicro(), "version", e.Version, "up", flag(!e.Down), "generation", e.Starts)
	r.line("driver", "version", w.scenario.Driver.Version, "nvml", w.scenario.Driver.NVML,
		"generation", w.driver.generation, "loaded", flag(w.driver.loaded), "cc", confidentialComputing(w.boards), "time", w.elapsed().Nanoseconds(), "until", until)
	for i, b := range w.boards {
		if b.gone || b.AMD != nil {
			continue
		}
		writeProcesses(&r, w, i)
		writeGPU(&r, w, b, w.memoryUsed(i))
		writeHealth(&r, w, b)
		if b.MIG != nil {
			for _, i := range b.offered(w.at) {
				writeInstance(&r, b, i)
			}
		}
		writeAccounts(&r, w, b)
		for _, s := range b.ring.samples {
			r.line("sample", "gpu", b.UUID, "time", w.start.Wall.Add(s.at).UnixMicro(), "pid", s.pid, "sm", s.busy, "mem", s.memory)
		}
		writeBuffers(&r, w, b)
	}
	for i, x := range w.driver.xids {
		r.line("xid", "gpu", x.uuid, "seq", i+1, "code", x.code)
	}
	for _, f := range faults {
		r.line("fault", "gpu", f.GPU, "call", f.Call, "do", f.Do)
	}
	return r.Bytes()
}

func writeBuffers(r *record, w *world, b *board) {
	for _, p := range b.watts {
		r.line("power", "gpu", b.UUID, "time", w.start.Wall.Add(p.at).UnixMicro(), "value", p.value)
	}
	for _, p := range b.percents {
		r.line("busy", "gpu", b.UUID, "time", w.start.Wall.Add(p.at).UnixMicro(), "value", p.value)
	}
}

// In a private PID namespace, the driver lists no processes, because it omits all processes outside the caller's
// namespace (NVIDIA open-gpu-kernel-modules, gpu_rmapi.c). Its samples still contain the PIDs of these processes
// (kern_perf_ctrl.c).
func writeProcesses(r *record, w *world, gpu int) {
	if w.scenario.PrivatePIDs {
		return
	}
	b := w.boards[gpu]
	for _, p := range w.processes() {
		for _, k := range p.work {
			if k.GPU != gpu || k.Context == Monitor {
				continue
			}
			fields := []any{"gpu", b.UUID, "pid", p.id.PID, "kind", kind(k.Context), "memory", k.Memory}
			if b.MIG != nil {
				fields = append(fields, "gi", b.MIG.Instances[k.Instance].ID, "ci", 0)
			}
			r.line("process", fields...)
		}
	}
}

// kind returns the name of the driver's process list in which a context appears.
func kind(c Context) string {
	switch c {
	case Graphics:
		return "graphics"
	case MPSClient:
		return "mps"
	default:
		return "compute"
	}
}

// A MIG device consists of a GPU instance and its only compute instance.
func writeInstance(r *record, b *board, position int) {
	i := b.MIG.Instances[position]
	fields := []any{
		"gpu", b.UUID, "uuid", b.migUUID(position), "gi", i.ID, "ci", 0,
		"name", b.Model + " MIG " + i.Profile, "gi_slices", i.Slices, "ci_slices", i.Slices, "memory_mib", i.Memory,
		"profile", i.ProfileID, "start", i.Start, "size", i.Size, "sm_busy", b.busyTime[position].Nanoseconds(),
	}
	r.line("instance", fields...)
}

// healthyFabric is the health mask of links without a problem (nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_*). The values for
// bandwidth, recovery, route and access timeout are FALSE. The configuration is correct.
const healthyFabric = 2 | 2<<2 | 2<<4 | 2<<6 | 1<<8

func writeGPU(r *record, w *world, b *board, used uint64) {
	fields := []any{
		"index", b.index, "uuid", b.UUID, "minor", b.index, "bus", b.Bus, "name", b.Model,
		"serial", b.Serial, "part", b.Part, "vbios", b.VBIOS,
	}
	if p := b.Place; p != nil {
		fields = append(fields, "chassis", p.Chassis, "slot", p.Slot, "tray", p.Tray, "host", p.Host, "peer", p.Peer, "module", p.Module)
	}
	if f := b.Fabric; f != nil {
		fields = append(fields, "fabric_cluster", f.Cluster, "fabric_clique", f.Clique, "fabric_state", 3, "fabric_health", healthyFabric)
	}
	fields = append(fields, counters(w, b)...)
	fields = append(fields,
		"power", b.power, "power_limit", b.Limit*1000, "power_max", b.MaxLimit*1000, "temperature", b.temperature())
	fields = append(fields, state(b)...)
	if b.GPM {
		fields = append(fields, "gpm", 1)
	}
	if b.Accounting {
		fields = append(fields, "accounting", 1)
	}
	if w.scenario.Sampling.Power > 0 {
		fields = append(fields, "buffers", 1)
	}
	for _, id := range zeroFields {
		fields = append(fields, fmt.Sprintf("f%d", id), 0)
	}
	r.line("gpu", append(fields,
		"memory_used", used, "memory_reserved", memoryReserved, "memory_free", b.Memory-min(b.Memory, used+memoryReserved), "memory_total", b.Memory, "memory_temperature", b.memoryTemperature(), "sm_clock", smClock(b), "memory_clock", memoryClock,
		"processes", 1, "samples", flag(b.MIG == nil), "mig", flag(b.MIG != nil), "events", 8, "lost", flag(b.lost))...)
}

// state returns the fields for the load, remapped rows, throttled time and recovery action of a board.
func state(b *board) []any {
	var fields []any
	if b.MIG == nil {
		fields = append(fields, "utilization", b.busy, "memory_utilization", b.busy/3)
		if b.Generation != Turing {
			fields = append(fields, "remap_pending", b.health[RowPending], "remap_failed", 0,
				"remap_correctable", b.health[RowsCorrectable], "remap_uncorrectable", b.health[RowsUncorrectable])
		}
	} else {
		fields = append(fields, "mig_slices", b.MIG.Slices)
	}
	if b.health != nil {
		fields = append(fields, "recovery_action", b.health[RecoveryAction])
	}
	fields = append(fields, "clocks_event_reasons", b.clockReasons())
	if b.health == nil && b.Throttle == [gpu.NumThrottles]int{} {
		return fields
	}
	// Only newer drivers count the throttled time.
	return append(fields,
		"throttled_sw_thermal", b.throttled[gpu.ThrottleThermal].Nanoseconds()+b.sinceLoad(SoftwareThermal),
		"throttled_hw_thermal", b.sinceLoad(HardwareThermal),
		"throttled_power_brake", b.throttled[gpu.ThrottlePowerBrake].Nanoseconds()+b.sinceLoad(PowerBrake))
}

// zeroFields contains the DCGM fields that are 0 in all scenarios: replays, encoder and decoder utilisation,
// violations, ECC errors, retired pages and NVLink traffic.
var zeroFields = []int{202, 206, 207, 240, 241, 242, 243, 310, 311, 312, 313, 390, 391, 449}

func counters(w *world, b *board) []any {
	switch b.Counts {
	case CountsScoped:
		m := w.module(b.Serial)
		return []any{"energy", m, "energy_gpu", b.counter(), "energy_module", m}
	case CountsModule:
		m := w.module(b.Serial)
		return []any{"energy", m, "energy_module", m, "power_gpu", b.power, "power_module", w.modulePower(b.Serial)}
	default:
		return []any{"energy", b.counter()}
	}
}

// Temperatures are in °C.
func (b *board) temperature() int       { return 29 + b.power/16_000 + int(b.health[Heat]) }
func (b *board) memoryTemperature() int { return 34 + b.power/14_000 + int(b.health[Heat]) }

// memoryReserved is the memory that the driver reserves on each GPU, in bytes. The value comes from an A10.
const memoryReserved = 490 << 20

// memoryClock is the memory clock of every GPU, in MHz.
const memoryClock = 2619

// smClock returns the multiprocessor clock of a board in MHz.
func smClock(b *board) int {
	if b.busy == 0 {
		return 345
	}
	return 1980 - b.busy - int(b.health[ClockReduction])
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
