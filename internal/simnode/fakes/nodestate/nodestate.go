// Package nodestate writes a node of package gputest as a state file for the fake driver libraries. The header comment
// of nvml.c describes the file.
package nodestate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// Driver returns the driver record of a node.
func Driver(n gputest.Node) string {
	loaded := 1
	if n.Down {
		loaded = 0
	}
	return fmt.Sprintf("driver\tversion=570.86.15\tnvml=12.570.86.15\tgeneration=%d\tloaded=%d", n.Loads, loaded)
}

// Records returns the records of a GPU and of its instances and processes.
func Records(g gputest.GPU) []string {
	f := []string{"gpu", "uuid=" + g.Device.UUID}
	add := func(key string, value any) { f = append(f, fmt.Sprintf("%s=%v", key, value)) }
	text := func(key, value string) {
		if value != "" {
			add(key, value)
		}
	}
	add("index", g.Device.Index)
	text("minor", strings.TrimPrefix(g.Device.DeviceNode, "nvidia"))
	text("bus", g.Device.PCIBusID)
	text("name", g.Device.Model)
	text("serial", g.Device.Serial)
	text("part", g.Device.BoardPartNumber)
	text("vbios", g.Device.VBIOSVersion)
	text("chassis", g.Device.Platform.ChassisSerial)
	number(add, "slot", g.Device.Platform.Slot, 1)
	number(add, "tray", g.Device.Platform.Tray, 1)
	number(add, "host", g.Device.Platform.HostID, 1)
	number(add, "peer", g.Device.Platform.PeerType, 1)
	number(add, "module", g.Device.Platform.ModuleID, 1)
	if fabric := g.Device.Fabric; fabric != nil {
		add("fabric_cluster", strings.ReplaceAll(fabric.ClusterUUID, "-", ""))
		add("fabric_clique", fabric.CliqueID)
		add("fabric_state", map[string]int{"not_started": 1, "in_progress": 2, "completed": 3, "failed": 3}[fabric.State])
		if fabric.State == "failed" {
			add("fabric_status", 999)
		}
		if fabric.Problems != nil {
			add("fabric_health", healthMask(fabric.Problems))
		}
	}
	if g.Device.ReportsEvents {
		add("events", 8)
		add("clocks_event_reasons", 0)
	}
	if g.Device.MaxPower != 0 {
		number(add, "power_max", &g.Device.MaxPower, 1000)
	}
	if m := g.Device.Partitions; m != nil {
		add("mig", 1)
		add("mig_slices", m.Slices)
	}
	if g.Reading.InstancesKnown {
		add("gpm", 1)
	}
	lines := []string{strings.Join(append(f, reading(g)...), "\t")}
	return append(append(lines, instances(g)...), processes(g)...)
}

// healthMask encodes problems in the format of nvml.h (NVML_GPU_FABRIC_HEALTH_MASK_*).
func healthMask(problems []gpu.FabricProblem) (mask uint32) {
	for _, p := range problems {
		switch shift := map[string]uint32{"route_recovery": 2, "route_unhealthy": 4, "access_timeout_recovery": 6}[p.Name]; {
		case p.Name == "incorrect_configuration":
			mask |= map[string]uint32{"": 1, "no_partition": 4}[p.Cause] << 8
		case p.Present:
			mask |= 1 << shift
		default:
			mask |= 2 << shift
		}
	}
	return mask
}

// If a GPU instance has several MIG devices, they share the slices of the instance. The name of a MIG device contains
// its number of slices.
func instances(g gputest.GPU) (lines []string) {
	if g.Device.Partitions == nil {
		return nil
	}
	busy := make(map[string]string)
	for _, s := range g.Reading.Instances {
		busy[s.Instance] = fmt.Sprintf("\tsm=%.0f", 100*s.SM)
	}
	for _, i := range g.Device.Partitions.Instances {
		for ci, device := range i.Devices {
			name, place := i.Profile, ""
			if len(i.Devices) > 1 {
				name = "1c." + name
			}
			if i.ProfileID >= 0 {
				place = fmt.Sprintf("\tprofile=%d\tstart=%d\tsize=1", i.ProfileID, i.Start)
			}
			lines = append(lines, fmt.Sprintf("instance\tgpu=%s\tuuid=%s\tgi=%s\tci=%d\tname=%s MIG %s\tgi_slices=%d\tci_slices=1%s%s",
				g.Device.UUID, device.UUID, i.ID, ci, g.Device.Model, name, i.Slices, place, busy[i.ID]))
		}
	}
	return lines
}

// units converts base units to the driver's units: mW, percent and MHz.
var units = map[string]float64{"watts": 1000, "celsius": 1, "ratio": 100, "bytes": 1, "hertz": 1e-6}

// factor returns the number of the driver's units in one base unit. It panics if the table has no row for the unit. A
// factor of 0 would make the gauge 0 in all tests.
func factor(unit string) float64 {
	f, ok := units[unit]
	if !ok {
		panic(fmt.Sprintf("nodestate: the table units has no row for %q", unit))
	}
	return f
}

func reading(g gputest.GPU) (f []string) {
	add := func(key string, value any) { f = append(f, fmt.Sprintf("%s=%v", key, value)) }
	r := g.Reading
	if g.Device.EnergySource == gpu.EnergyCounter {
		key := "energy"
		if g.Device.EnergyScope == gpu.ScopeGPU {
			key = "energy_gpu"
		}
		number(add, key, r.Energy, 1)
	}
	for i, info := range gpu.GaugeInfos {
		number(add, info.Name, r.Gauges[i], factor(info.Unit))
	}
	number(add, "power_limit", r.PowerLimit, 1000)
	if rows := r.RowRemap; rows != nil {
		add("remap_pending", bit(rows.Pending))
		add("remap_failed", bit(rows.Failed))
		add("remap_correctable", rows.Correctable)
		add("remap_uncorrectable", rows.Uncorrectable)
	}
	if r.Recovery != "" {
		add("recovery_action", slices.Index(gpu.Recoveries, r.Recovery))
	}
	if r.ContextsKnown {
		add("processes", 1)
	}
	if r.SamplesKnown {
		add("samples", 1)
		add("buffers", 1)
	}
	if g.Lost {
		add("lost", 1)
	}
	return f
}

// processes also returns the record of an injected hang.
func processes(g gputest.GPU) (lines []string) {
	for _, c := range g.Reading.Contexts {
		kind, memory := "compute", ""
		if c.MPS {
			kind = "mps"
		}
		if c.MemoryUsed != nil {
			memory = fmt.Sprintf("\tmemory=%d", *c.MemoryUsed)
		}
		if c.GPUInstance != "" {
			memory += fmt.Sprintf("\tgi=%s\tci=0", c.GPUInstance)
		}
		lines = append(lines, fmt.Sprintf("process\tgpu=%s\tpid=%d\tkind=%s%s", g.Device.UUID, c.PID, kind, memory))
	}
	for _, s := range g.Reading.Samples {
		lines = append(lines, Row(g.Device.UUID, g.SampledAt, s.PID, s.SM, s.Memory))
	}
	if g.Stuck {
		lines = append(lines, "fault\tgpu="+g.Device.UUID+"\tcall=*\tdo=hang")
	}
	return lines
}

// Row returns a record of process utilisation.
func Row(uuid string, at time.Time, pid uint32, sm, mem float64) string {
	return fmt.Sprintf("row\tgpu=%s\ttime=%d\tpid=%d\tsm=%.0f\tmem=%.0f", uuid, at.UnixMicro(), pid, sm*100, mem*100)
}

func bit(on bool) int {
	if on {
		return 1
	}
	return 0
}

// number converts a value to the driver's unit. It adds nothing if the value is unknown.
func number[T ~int | ~int64 | ~uint64 | ~float64](add func(string, any), key string, value *T, unit float64) {
	if value == nil {
		return
	}
	add(key, fmt.Sprintf("%.0f", float64(*value)*unit))
}
