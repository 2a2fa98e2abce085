package collector_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

var (
	boot = time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC)
	now  = boot.Add(90 * time.Minute)
)

// fullNode returns a node with all values. It has an exclusive GPU, a GPU that two containers and the host share, and
// an idle GPU in MIG mode.
func fullNode() *gpu.Snapshot {
	trainer := newAccount("team-a", "trainer-0", "trainer")
	trainer.Energy = gpu.ByMethod{gpu.Exclusive: 1_234_567, gpu.Allocated: 89_001}
	trainer.Idle = 80_000
	trainer.Allocated, trainer.Active, trainer.Busy = 80*time.Minute, 71*time.Minute+500*time.Millisecond, 12*time.Minute+3*time.Millisecond
	trainer.Profiled = gpu.Profiled{Time: 70 * time.Minute, Tensor: 9*time.Minute + 7*time.Millisecond, DRAM: 11 * time.Minute}
	trainer.Processes = []gpu.ProcessAccount{newProcess(4711, "python3", 1_234_567, 0)}

	chat := newAccount("team-b", "chat-7d9f-x2x", "server")
	chat.Energy = gpu.ByMethod{gpu.Exclusive: 10_000, gpu.Shared: 20_001, gpu.Allocated: 3}
	chat.Processes = []gpu.ProcessAccount{
		newProcess(5001, "vllm", 10_000, 15_000),
		newProcess(5002, "ray::worker", 0, 4_001),
		{Folded: true, Opened: boot.Add(time.Hour), Energy: gpu.ByMethod{gpu.Shared: 1_000}},
	}
	chat.Throttled = gpu.ByThrottle{gpu.ThrottlePowerBrake: {Energy: 2_500, Time: 1500 * time.Millisecond}}
	embed := newAccount("team-b", "embed-5c4-qqq", "server")
	embed.Energy, embed.Estimated = gpu.ByMethod{gpu.Shared: 7_777}, 6_543
	embed.Processes = []gpu.ProcessAccount{newProcess(5100, "embed", 0, 7_777)}

	whole := newGPU(0, trainer)
	whole.Reading.Health, whole.Reading.Details = allHealth(0)
	whole.Reading.Profile = profile()
	whole.Fabric = &gpu.Fabric{ClusterUUID: "5f0c4f3e-8a51-4c43-9f0e-d4c19f6d1c77", CliqueID: 32766, State: "completed"}
	whole.Fabric.Problems = []gpu.FabricProblem{{Name: "degraded_bandwidth", Present: true}, {Name: "route_unhealthy"}, {Name: "incorrect_configuration", Present: true, Cause: "no_partition"}}
	whole.Holders = []gpu.Holder{{AccountKey: trainer.AccountKey, Resource: "nvidia.com/gpu", Sharing: gpu.SharingExclusive, Replicas: 1}}
	whole.Processes = []gpu.LiveProcess{newLive(trainer, 0)}

	shared := newGPU(1, chat, embed)
	shared.Book.Uncounted, shared.Book.Estimated = 321_098, 26_544
	shared.Book.Throttled = gpu.ByThrottle{gpu.ThrottleThermal: {Energy: 1, Time: time.Microsecond}, gpu.ThrottlePowerBrake: {Energy: 5_001, Time: 1500 * time.Millisecond}}
	shared.Holders = []gpu.Holder{
		{AccountKey: chat.AccountKey, Resource: "nvidia.com/gpu.shared", Sharing: gpu.SharingTimeSlicing, Replicas: 2},
		{AccountKey: embed.AccountKey, Claim: "embed-gpu", Sharing: gpu.SharingNone},
	}
	shared.Processes = []gpu.LiveProcess{
		newLive(chat, 0), newLive(chat, 1), newLive(embed, 0),
		{Process: &gpu.Process{ID: gpu.ProcessID{PID: 900, Start: 90}, Name: "monitor", Owner: gpu.Owner{Kind: gpu.OwnerHost}}},
		{Process: &gpu.Process{ID: gpu.ProcessID{PID: 901, Start: 91}, Owner: gpu.Owner{Kind: gpu.OwnerUnmapped}}},
		{Process: &gpu.Process{ID: gpu.ProcessID{PID: 902, Start: 92}}},
	}
	shared.Processes[1].SM, shared.Processes[1].Memory, shared.Processes[1].MemoryUsed = nil, nil, nil
	shared.Events.Add(gpu.DriverEvent{Code: 31, At: boot.Add(20 * time.Minute), Earlier: 1})
	shared.Events.Add(gpu.DriverEvent{Code: 79, At: boot.Add(21*time.Minute + 250*time.Millisecond)})

	divided := newGPU(2)
	divided.Partitions, divided.ReportsEvents = newMIG(2), false
	divided.Reading.InstanceProfiles = []gpu.InstanceProfile{{Instance: "1", Profile: profile()}, {Instance: "2", Profile: profile()}}
	divided.Reading.RASErrors = []gpu.RASErrors{
		{Block: "gfx", Type: gpu.RASUncorrectable}, {Block: "umc", Type: gpu.RASCorrectable, Count: 12}, {Block: "umc", Type: gpu.RASDeferred, Count: 1},
	}

	return &gpu.Snapshot{
		At: gpu.Instant{Wall: now, Boot: 90 * time.Minute},
		Node: gpu.Node{
			Name: "gpu-node-17", SysVendor: "Acme", ProductName: "Rack Server 9", ProductSerial: "PRD0017A",
			BoardSerial: "BRD0017B", BoardAssetTag: "AST0017D", ChassisSerial: "CHS0017C",
			ChassisAssetTag: "row 7", SystemUUID: "8e3f0b54-52a5-4f0e-8f63-27a1f2c90017",
		},
		Drivers: []gpu.Driver{{Name: "nvml", Version: "580.65.06", Details: map[string]string{
			"nvml_version": "13.580.65.06", "dcgm_version": "4.4.1", "dcgm_library_version": "4.4.0",
		}}},
		PCIGPUs: new(3), DriverGPUs: new(3),
		GPUs: []gpu.GPU{whole, shared, divided},
		NVSwitches: []gpu.NVSwitchErrors{
			{PCIBusID: "0000:c1:00.0", Code: 12028, Severity: gpu.SeverityNonFatal, Count: 3, Since: boot.Add(time.Minute)},
			{PCIBusID: "0000:c1:00.0", Code: 20034, Severity: gpu.SeverityFatal, Count: 1, Since: boot.Add(2 * time.Minute)},
		},
		Stages: []gpu.Stage{
			{Name: "driver", Up: true, Duration: 12 * time.Millisecond, LastSuccess: now},
			{Name: "pod_resources", Duration: 5 * time.Second, Failures: 17, LastSuccess: now.Add(-time.Minute)},
			{Name: "dmi", Duration: time.Millisecond, Failures: 2},
		},
	}
}

func crowdOfUnits(gpus, units, processes int) *gpu.Snapshot {
	s := crowd(gpus, units, processes)
	for i := range s.GPUs {
		g := &s.GPUs[i]
		for j := range g.Book.Accounts {
			o := gpu.Unit{Manager: "slurm", Name: fmt.Sprint(4711 + j)}.Owner()
			g.Book.Accounts[j].Owner, g.Holders[j].Owner = o, o
		}
	}
	return s
}

// slurmNode returns a node on which Slurm runs jobs. Two jobs run on the first GPU, and one of them has two processes.
// On the other GPU, a job runs inside a container of a pod.
func slurmNode() *gpu.Snapshot {
	s := crowdOfUnits(1, 2, 2)
	s.GPUs[0].Book.Accounts[0].Throttled = gpu.ByThrottle{gpu.ThrottleThermal: {Energy: 1_000, Time: 2 * time.Second}}
	s.GPUs[0].Book.Accounts[0].Energy = gpu.ByMethod{gpu.Shared: 20_001, gpu.Allocated: 3}
	s.GPUs[0].Book.Accounts[0].Allocated = time.Minute
	s.GPUs[0].Book.Energy = s.GPUs[0].Book.Sum()
	inPod := newAccount("slinky", "slurmd-0", "slurmd")
	inPod.Energy = gpu.ByMethod{gpu.Exclusive: 500}
	inPod.Units = []gpu.UnitAccount{{Unit: gpu.Unit{Manager: "slurm", Name: "99"}, Opened: boot, Energy: 400}}
	s.GPUs = append(s.GPUs, newGPU(1, inPod))
	s.Units = map[gpu.Unit]gpu.UnitInfo{{Manager: "slurm", Name: "4711"}: {
		SLUID: "s8FXKTA79XAR00", User: "ada\n", UID: "1001", Account: "physics", Partition: "gpu", Cluster: "alps", ContainerID: "c", Image: "i", Project: "p",
	}}
	return s
}

// lostGPU returns a node with two GPUs. The first GPU was lost from the bus an hour ago. The second GPU does not
// respond.
func lostGPU() *gpu.Snapshot {
	s := fullNode()
	lost := &s.GPUs[0]
	lost.Present, lost.Reading, lost.Book = false, nil, nil
	lost.Holders, lost.Processes = nil, nil
	lost.LastReading = now.Add(-time.Hour)
	lost.ReportsEvents = false
	lost.Events.Add(gpu.DriverEvent{Code: 79, At: now.Add(-time.Hour)})
	lost.Events.Losses = 1
	late := &s.GPUs[1]
	late.Reading = nil
	late.LastReading = now.Add(-30 * time.Second)
	s.GPUs = s.GPUs[:2]
	s.PCIGPUs, s.DriverGPUs = new(1), new(1)
	return s
}

func noDriver() *gpu.Snapshot {
	return &gpu.Snapshot{
		At:      gpu.Instant{Wall: now, Boot: 90 * time.Minute},
		Node:    gpu.Node{Name: "gpu-node-18", SysVendor: "Default string", SystemUUID: "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"},
		PCIGPUs: new(8),
		Stages:  []gpu.Stage{{Name: "driver", Duration: 3 * time.Millisecond, Failures: 1}},
	}
}

// heldAccounts returns a node on which a pod ended a minute ago. The GPU of this pod was just allocated to another pod.
// One process of the other pod has already ended.
func heldAccounts() *gpu.Snapshot {
	ended := newAccount("team-a", "batch-1", "main")
	ended.Energy = gpu.ByMethod{gpu.Exclusive: 500_000}
	ended.Processes = []gpu.ProcessAccount{newProcess(100, "batch", 500_000, 0)}
	begun := newAccount("team-a", "batch-2", "main")
	begun.Processes = []gpu.ProcessAccount{newProcess(100, "batch", 0, 0), newProcess(200, "batch", 0, 0)}
	g := newGPU(0, ended, begun)
	g.Holders = []gpu.Holder{{AccountKey: begun.AccountKey, Resource: "nvidia.com/gpu", Sharing: gpu.SharingExclusive, Replicas: 1}}
	g.Processes = []gpu.LiveProcess{newLive(begun, 1)}
	return &gpu.Snapshot{At: gpu.Instant{Wall: now}, Drivers: []gpu.Driver{{Name: "nvml"}}, GPUs: []gpu.GPU{g}}
}

// hostile returns a node with invalid, long and special strings. Some strings differ only in parts
// that are truncated or repaired.
func hostile() *gpu.Snapshot {
	long := strings.Repeat("ab€", 2000)
	evil := newAccount("quo\"te", "new\nline", `back\slash`)
	evil.Energy = gpu.ByMethod{gpu.Shared: 1}
	evil.Processes = []gpu.ProcessAccount{
		newProcess(1, "bad\xff\xfeutf8", 0, 1),
		newProcess(1, "bad\xfeutf8", 0, 2),
		newProcess(2, "tab\tbell\x07", 0, 3),
		newProcess(3, long, 0, 4),
		newProcess(3, long+"!", 0, 5),
	}
	cut := newAccount(long, "pod", "container")
	cutToo := newAccount(long+"too", "pod", "container")
	emoji := newAccount(strings.Repeat("a", 254)+"🙂", "pod", "}")
	g := newGPU(0, evil, cut, cutToo, emoji)
	g.Serial, g.Model, g.Platform.ChassisSerial = "\xff\xff\xff", "\"\n\\", "S1\x00\x00"
	for _, a := range g.Book.Accounts {
		g.Holders = append(g.Holders, gpu.Holder{AccountKey: a.AccountKey, Resource: "r\n", Claim: long, Sharing: "\xff"})
	}
	twin := newGPU(1)
	twin.UUID = g.UUID
	return &gpu.Snapshot{
		Node:    gpu.Node{Name: "node\n# TYPE x counter\nx 1", ProductName: long},
		Drivers: []gpu.Driver{{Name: `"`, Version: "\xc3"}},
		GPUs:    []gpu.GPU{g, twin},
		Stages:  []gpu.Stage{{Name: "a\xff"}, {Name: "a\xfe"}},
	}
}

func newGPU(i int, accounts ...gpu.Account) gpu.GPU {
	b := &gpu.Book{Opened: boot, Retired: 1_500, Floor: gpu.IdlePower{Power: 91.5, Source: gpu.IdleSource(i % 5)}, Resets: uint64(i), Unsampled: new(time.Duration(i) * 1500 * time.Millisecond), Accounts: accounts}
	for r := range gpu.NumReasons {
		b.Unattributed[r] = gpu.Millijoules(1000*i + int(r))
	}
	b.Energy = b.Sum()
	return gpu.GPU{
		Device: gpu.Device{
			UUID: fmt.Sprintf("GPU-00000000-0000-4000-8000-%012d", i), Index: i, DeviceNode: fmt.Sprintf("nvidia%d", i),
			PCIBusID: fmt.Sprintf("00000000:%02X:00.0", 27+16*i), Vendor: "NVIDIA", Model: "NVIDIA B200",
			Serial: fmt.Sprintf("16509230004%02d", i/2), BoardPartNumber: "900-2G000-0000-000", VBIOSVersion: "97.00.82.00.0F",
			Platform: gpu.Platform{
				ChassisSerial: "1820000000042", Slot: new(5), Tray: new(4), HostID: new(0), ModuleID: new(i + 1),
			},
			EnergySource: gpu.EnergyCounter, EnergyScope: gpu.ScopeGPU, ReportsEvents: true,
		},
		Present: true,
		Reading: &gpu.Reading{
			Throttled: &gpu.ThrottledTimes{},
			Gauges: allGauges(gpu.Gauges{
				gpu.Power: new(412.345), gpu.Temperature: new(61.0), gpu.Utilization: new(0.97), gpu.MemoryUsed: new(68.0 * (1 << 30)),
				gpu.MemoryTotal: new(180.0 * (1 << 30)), gpu.MemoryReserved: new(0.5 * (1 << 30)), gpu.SMClock: new(1.965e9), gpu.MemoryClock: new(3.996e9),
			}),
			RowRemap: &gpu.RowRemap{Pending: true}, SharesMemory: true, Recovery: gpu.RecoveryDrainAndReset,
		},
		Totals: []gpu.HealthValue{ // errors that only AMD GPUs report
			{Metric: gpu.ECCErrors, Labels: []string{"dram", "correctable"}, Value: 57},
			{Metric: gpu.ECCErrors, Labels: []string{"dram", "uncorrectable"}, Value: 2},
			{Metric: gpu.ECCErrors, Labels: []string{"sram", "correctable"}},
			{Metric: gpu.ECCErrors, Labels: []string{"sram", "uncorrectable"}},
		},
		LastReading: now,
		Events:      gpu.DriverEvents{Since: boot},
		Strays:      new(0),
		Unused:      new(i),
		Book:        b,
	}
}

func profile() *gpu.Profile {
	p := &gpu.Profile{}
	for i := range p.Last {
		p.Last[i] = new(float64(i) + 0.5)
	}
	copy(p.Seconds[:], p.Last[:])
	return p
}

// allHealth returns one value for each health series and each series of details. All values are different. A label
// without values in the catalogue gets one value.
func allHealth(i int) (values, details []gpu.HealthValue) {
	for m, info := range gpu.HealthInfos {
		sets := [][]string{nil}
		for _, name := range info.Labels {
			var longer [][]string
			for _, l := range collector.Labels() {
				for _, value := range append(slices.Clone(l.Values), "any")[:max(1, len(l.Values))] {
					for _, s := range sets {
						if l.Name == name {
							longer = append(longer, append(slices.Clone(s), value))
						}
					}
				}
			}
			sets = longer
		}
		for _, labels := range sets {
			v := gpu.HealthValue{Metric: gpu.HealthMetric(m), Labels: labels, Value: float64(1000*i + len(values) + len(details))}
			if info.Detail {
				details = append(details, v)
			} else {
				values = append(values, v)
			}
		}
	}
	return values, details
}

func newMIG(n int) *gpu.Partitioning {
	m := &gpu.Partitioning{Slices: 7}
	for i := range n {
		m.Instances = append(m.Instances, gpu.Partition{
			ID: fmt.Sprint(i + 1), Profile: "1g.23gb", Slices: 1, Devices: []gpu.PartitionDevice{{UUID: fmt.Sprintf("MIG-00000000-0000-4000-8000-%012d", i), Index: i}},
		})
	}
	return m
}

func newAccount(namespace, pod, container string) gpu.Account {
	return gpu.Account{
		AccountKey: gpu.AccountKey{Owner: gpu.Owner{
			Kind: gpu.OwnerPod, Scope: namespace, Name: pod, UID: "uid-of-" + pod, Part: container,
		}},
		Opened: boot.Add(10 * time.Minute),
	}
}

func newProcess(pid uint32, name string, exclusive, shared gpu.Millijoules) gpu.ProcessAccount {
	return gpu.ProcessAccount{
		ProcessID:   gpu.ProcessID{PID: pid, Start: uint64(pid) * 100},
		Name:        name,
		ContainerID: strings.Repeat("0123456789abcdef", 4),
		StartTime:   boot.Add(11 * time.Minute),
		Opened:      boot.Add(11*time.Minute + time.Second),
		Energy:      gpu.ByMethod{gpu.Exclusive: exclusive, gpu.Shared: shared},
	}
}

func newLive(a gpu.Account, i int) gpu.LiveProcess {
	q := a.Processes[i]
	return gpu.LiveProcess{
		Process: &gpu.Process{
			ID: q.ProcessID, Name: "as it is called now", StartTime: q.StartTime,
			Owner: a.Owner,
		},
		MemoryUsed: new(uint64(8 << 30)), SM: new(0.5), Memory: new(0.25),
	}
}

func allGauges(g gpu.Gauges) gpu.Gauges {
	for i := range g {
		if g[i] == nil {
			g[i] = new(float64(i))
		}
	}
	return g
}
