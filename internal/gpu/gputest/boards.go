package gputest

import (
	"fmt"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Full returns GPU i with all values that a source can report.
func Full(i int) GPU {
	g := Plain(i)
	g.Device.Serial = fmt.Sprintf("132992400%04d", i)
	g.Device.BoardPartNumber = "900-24800-0000-000"
	g.Device.VBIOSVersion = "97.00.82.00.18"
	g.Device.Platform = gpu.Platform{
		ChassisSerial: "1820325190046",
		Slot:          new(15), Tray: new(5), HostID: new(1), PeerType: new(0), ModuleID: new(i + 1),
	}
	g.Device.Fabric = &gpu.Fabric{
		ClusterUUID: "50000000-0000-4000-8000-0000000000c1",
		CliqueID:    32766,
		State:       "completed",
		Problems:    []gpu.FabricProblem{{Name: "degraded_bandwidth"}, {Name: "incorrect_configuration"}},
	}
	g.Device.ReportsEvents = true
	g.Reading.PowerLimit = new(gpu.Watts(1000))
	for k := range gpu.NumGauges {
		g.Reading.Gauges[k] = new(Value(k, i))
	}
	g.Reading.Gauges[gpu.Power] = new(187.25)
	g.Reading.RowRemap = &gpu.RowRemap{Pending: i == 1, Failed: i == 2, Correctable: 1 + i, Uncorrectable: 3 + i}
	g.Reading.Recovery = gpu.RecoveryNone
	g.Reading.ContextsKnown = true
	g.Reading.Contexts = []gpu.Context{
		{PID: uint32(4000 + i), MemoryUsed: new(uint64(1 << 29))},
		{PID: uint32(5000 + i), MemoryUsed: new(uint64(1 << 28)), MPS: true},
	}
	g.Reading.SamplesKnown = true
	return g
}

// Value returns the value of a gauge of the GPU [Full](i). No two gauges have the same value.
func Value(g gpu.Gauge, i int) float64 {
	n := float64(41 + i + 5*int(g-gpu.Temperature))
	switch gpu.GaugeInfos[g].Unit {
	case "ratio":
		return n / 100
	case "hertz":
		return n * 1e6
	}
	return n
}

// Divided returns GPU i in MIG mode, without utilisation and without remapped rows. One of its instances has two
// compute instances. For another instance the driver reports neither the profile number nor the position.
func Divided(i int) GPU {
	g := Full(i)
	g.Device.Partitions = &gpu.Partitioning{Slices: 7, Instances: []gpu.Partition{
		{ID: "2", Profile: "3g.40gb", ProfileID: 9, Start: 4, Slices: 3, Devices: []gpu.PartitionDevice{{UUID: mig(i, 0), Index: 0}, {UUID: mig(i, 1), Index: 1}}},
		{ID: "9", Profile: "1g.10gb+me", ProfileID: -1, Start: -1, Slices: 1, Devices: []gpu.PartitionDevice{{UUID: mig(i, 2), Index: 2}}},
	}}
	g.Reading.Gauges[gpu.Utilization], g.Reading.SamplesKnown, g.Reading.RowRemap = nil, false, nil
	g.Reading.Contexts[0].GPUInstance, g.Reading.Contexts[1].GPUInstance = "9", "2"
	return g
}

// Busy returns the GPU of [Divided] with the activity of its instances.
func Busy(i int) GPU {
	g := Divided(i)
	g.Reading.InstancesKnown = true
	g.Reading.Instances = []gpu.InstanceSample{{Instance: "2", SM: 0.5}, {Instance: "9", SM: 1}}
	return g
}

func mig(i, n int) string { return fmt.Sprintf("MIG-5a1f0000-0000-5000-8000-0000000000%d%d", i, n) }

// Plain returns GPU i with an identity, an energy counter and power.
func Plain(i int) GPU {
	g := Bare(i)
	g.Device.DeviceNode = fmt.Sprintf("nvidia%d", i)
	g.Device.PCIBusID = fmt.Sprintf("00000000:%02X:00.0", 0x1b+i)
	g.Device.Model = "NVIDIA GB200"
	g.Device.EnergySource = gpu.EnergyCounter
	g.Device.EnergyScope = gpu.ScopeUnknown
	g.Device.MaxPower = 1200
	g.Reading.Energy = new(gpu.Millijoules(1_000_000_007 * (i + 1)))
	g.Reading.Gauges[gpu.Power] = new(187.25)
	return g
}

// Bare returns GPU i with only a UUID.
func Bare(i int) GPU {
	uuid := fmt.Sprintf("GPU-5a1f0000-0000-4000-8000-00000000000%d", i)
	return GPU{Device: gpu.Device{UUID: uuid, Index: i, Vendor: "NVIDIA"}}
}
