package amd_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/source/amd"
)

func TestContract(t *testing.T) {
	gputest.Limits{GPU: asAMD, Without: map[string]string{
		"samples are reported once": "amdkfd has no samples of processes; see TestOccupancy",
		"GPU in MIG mode":           "all partitions of a GPU are equal; see TestPartitions",
		"activity of instances":     "activity is a difference of sums; see TestPartitionActivity",
	}}.Run(t, func(t *testing.T, n gputest.Node, now gpu.Clock) (gputest.Source, func(gputest.Node)) {
		d := newTree(t)
		d.change(n)
		return unplaced{d.open(now)}, d.change
	})
}

// unplaced removes the positions of GPUs from a report, because a position depends on other GPUs. TestPositions checks
// the positions.
type unplaced struct{ *amd.Source }

func (s unplaced) Read(ctx context.Context) (gpu.Report, error) {
	report, err := s.Source.Read(ctx)
	for i := range report.Devices {
		report.Devices[i].Position = nil
	}
	return report, err
}

func asAMD(g *gputest.GPU) {
	g.Reading.Gauges[gpu.MemoryReserved] = nil
	d, r := &g.Device, &g.Reading
	n := place(d.UUID)
	d.UUID = fmt.Sprintf("5a1f0000000000%02x", n)
	d.Vendor, d.PCIBusID = "AMD", fmt.Sprintf("00000000:%02X:00.0", n)
	node := fmt.Sprintf("dri/card%d", d.Index)
	if d.DeviceNode != "" {
		node = fmt.Sprintf("dri/renderD%d", 128+d.Index)
	}
	d.DeviceNode = node
	d.Platform, d.Fabric, d.ReportsEvents, d.Partitions = gpu.Platform{}, nil, false, nil
	if d.EnergySource == gpu.EnergyCounter {
		d.EnergyScope = gpu.ScopeGPU
	}
	r.Recovery, r.RowRemap, r.Samples, r.SamplesKnown, r.Instances, r.InstancesKnown = "", nil, nil, false, nil, false
	var contexts []gpu.Context
	for _, c := range r.Contexts {
		c.MPS, c.GPUInstance = false, ""
		contexts = append(contexts, c)
	}
	r.Contexts = contexts
}

// place depends only on the UUID, so it stays the same when the GPU's index changes.
func place(uuid string) int { return 0x1b + int(uuid[len(uuid)-1]-'0') }

func (d *tree) change(n gputest.Node) {
	d.t.Helper()
	d.remove("sys/class/drm")
	d.remove("sys/class/kfd")
	if n.Down {
		d.unload()
		return
	}
	d.load()
	for i, g := range n.GPUs {
		if !g.Lost {
			d.addGPU(i+1, g)
		}
	}
	d.renumbered()
}

func (d *tree) addGPU(node int, g gputest.GPU) {
	bus := strings.ToLower(strings.TrimPrefix(g.Device.PCIBusID, "0000"))
	f := folder(bus)
	d.addCard(g.Device.Index, bus, g.Device.UUID)
	d.optional(f+"/product_name", g.Device.Model)
	d.optional(f+"/serial_number", g.Device.Serial)
	d.optional(f+"/product_number", g.Device.BoardPartNumber)
	d.optional(f+"/vbios_version", g.Device.VBIOSVersion)
	d.remove(f + "/drm")
	if minor, ok := strings.CutPrefix(g.Device.DeviceNode, "dri/renderD"); ok {
		d.mkdir(f + "/drm/renderD" + minor)
	}
	number := func(name string, v *float64, unit float64) {
		text := ""
		if v != nil {
			text = fmt.Sprintf("%.0f", *v*unit)
		}
		d.optional(f+"/"+name, text)
	}
	r := g.Reading
	number("mem_info_vram_used", r.Gauges[gpu.MemoryUsed], 1)
	number("mem_info_vram_total", r.Gauges[gpu.MemoryTotal], 1)
	number("hwmon/hwmon3/power1_input", r.Gauges[gpu.Power], 1e6)
	number("hwmon/hwmon3/power1_cap", (*float64)(r.PowerLimit), 1e6)
	if g.Device.MaxPower > 0 {
		d.write(f+"/hwmon/hwmon3/power1_cap_max", fmt.Sprintf("%.0f", float64(g.Device.MaxPower)*1e6))
	} else {
		d.remove(f + "/hwmon")
	}
	d.addProcesses(node, bus, r)
	if metrics := f + "/gpu_metrics"; g.Stuck {
		d.hang(metrics)
	} else {
		d.release(metrics, string(metricsOf(r)))
		d.write(metrics, string(metricsOf(r)))
	}
}

func (d *tree) addProcesses(node int, bus string, r gpu.Reading) {
	if !r.ContextsKnown {
		return
	}
	var number uint32
	if _, err := fmt.Sscanf(bus, "0000:%02x:", &number); err != nil {
		d.t.Fatal(err)
	}
	id := fmt.Sprint(10000 + number)
	d.addNode(node, id, number<<8, 0, 8)
	for _, c := range r.Contexts {
		f := fmt.Sprintf("sys/class/kfd/kfd/proc/%d", c.PID)
		d.write(f+"/pasid", "32770")
		if c.MemoryUsed != nil {
			d.write(f+"/vram_"+id, fmt.Sprint(*c.MemoryUsed))
		} else {
			d.write(f+"/queues/0/gpuid", id)
		}
	}
}

// metricsOf returns a gpu_metrics file of revision 1.3.
func metricsOf(r gpu.Reading) blob {
	b := newBlob(1, 3, 120)
	number := func(at int, v *float64, unit float64) {
		if v != nil {
			b.u16(at, uint16(math.Round(*v/unit)))
		}
	}
	number(4, r.Gauges[gpu.Temperature], 1)
	number(16, r.Gauges[gpu.Utilization], 0.01)
	number(54, r.Gauges[gpu.SMClock], 1e6)
	number(58, r.Gauges[gpu.MemoryClock], 1e6)
	if r.Energy != nil {
		b.u64(24, max(1, counterOf(*r.Energy)))
	}
	return b
}

// counterOf returns a counter in units of 2⁻¹⁶ J, rounded up.
func counterOf(e gpu.Millijoules) uint64 { return (uint64(e)<<16 + 999) / 1000 }
