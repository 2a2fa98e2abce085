package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

type size struct{ gpus, containers, processes int }

func (s size) String() string {
	return fmt.Sprintf("%d GPUs, %d containers on each, %d processes in each", s.gpus, s.containers, s.processes)
}

var boot = time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC)

// snapshot returns the snapshot at the n-th tick. Labels have realistic lengths. GPUs report everything except MIG
// devices and an NVLink domain.
func (s size) snapshot(n int) *gpu.Snapshot {
	at := boot.Add(90*time.Minute + time.Duration(n)*time.Second)
	snap := &gpu.Snapshot{
		At: gpu.Instant{Wall: at, Boot: at.Sub(boot)},
		Node: gpu.Node{
			Name: "gpu-node-0017.region.example", SysVendor: "Acme", ProductName: "Rack Server 9", ProductSerial: "PRD0017A",
			BoardSerial: "BRD0017B", ChassisSerial: "CHS0017C", SystemUUID: "8e3f0b54-52a5-4f0e-8f63-27a1f2c90017",
		},
		Drivers: []gpu.Driver{{Vendor: "NVIDIA", Name: "nvml", Version: "580.65.06", Details: map[string]string{"nvml_version": "13.580.65.06"}}},
		PCIGPUs: &s.gpus, DriverGPUs: &s.gpus,
	}
	for _, name := range []string{"driver", "pci", "dmi", "processes", "host_pids", "container_logs", "pod_resources", "state"} {
		snap.Stages = append(snap.Stages, gpu.Stage{Name: name, Up: true, Duration: time.Duration(1234567 + n), LastSuccess: at})
	}
	for i := range s.gpus {
		snap.GPUs = append(snap.GPUs, s.gpu(i, n, at))
	}
	return snap
}

func (s size) gpu(i, n int, at time.Time) gpu.GPU {
	joules := gpu.Millijoules(n*700_123 + i)
	g := gpu.GPU{
		Device: gpu.Device{
			UUID: fmt.Sprintf("GPU-5d2f9a60-52a5-4f0e-8f63-%012d", i), Index: i, DeviceNode: fmt.Sprintf("nvidia%d", i),
			PCIBusID: fmt.Sprintf("00000000:%02X:00.0", 27+8*i), Vendor: "NVIDIA", Model: "NVIDIA H100 80GB HBM3",
			Serial: fmt.Sprintf("16539240%05d", i), BoardPartNumber: "900-2G000-0000-000", VBIOSVersion: "96.00.74.00.01",
			Platform:     gpu.Platform{ChassisSerial: "1820000000042", Slot: new(5), Tray: new(4), HostID: new(0), ModuleID: new(i + 1)},
			EnergySource: gpu.EnergyCounter, EnergyScope: gpu.ScopeGPU, ReportsEvents: true,
		},
		Present: true, LastReading: at, Events: gpu.DriverEvents{Since: boot}, Strays: new(0), Unused: new(0),
		Reading: &gpu.Reading{
			Gauges: gpu.Gauges{
				gpu.Power: new(412.345 + float64(n)), gpu.Temperature: new(61.0), gpu.Utilization: new(0.97),
				gpu.MemoryUsed: new(float64(68<<30 + n)), gpu.MemoryTotal: new(float64(80 << 30)), gpu.SMClock: new(1.965e9), gpu.MemoryClock: new(2.619e9),
			},
			RowRemap: new(gpu.RowRemap),
		},
		Book: &gpu.Book{Opened: boot, Energy: joules * 1000, Unsampled: new(time.Duration)},
	}
	for j := range s.containers {
		s.fill(&g, i*s.containers+j, n)
	}
	return g
}

// fill adds a container with its processes to the GPU. Names and numbers vary as on real nodes, because the compressed
// size of the page depends on them.
func (s size) fill(g *gpu.GPU, j, n int) {
	r := rand.New(rand.NewPCG(1, uint64(j)))
	joules := func() gpu.Millijoules { return gpu.Millijoules(r.IntN(1e9) + n*r.IntN(1e6)) }
	duration := func() time.Duration { return time.Duration(r.Int64N(1e13)) + time.Duration(n)*time.Second }
	a := gpu.Account{
		AccountKey: gpu.AccountKey{Owner: gpu.Owner{
			Kind: gpu.OwnerPod, Scope: fmt.Sprintf("team-%d", r.IntN(40)), Name: fmt.Sprintf("inference-%09x-%05x", r.IntN(1<<36), r.IntN(1<<20)),
			UID: fmt.Sprintf("%08x-%04x-4%03x-9%03x-%012x", r.IntN(1<<32), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<12), r.IntN(1<<48)), Part: "server",
		}},
		Opened: boot.Add(10 * time.Minute), Energy: gpu.ByMethod{gpu.Exclusive: joules(), gpu.Shared: joules()},
		Idle: joules() / 3, Allocated: duration(), Active: duration(), Busy: duration(), Estimated: joules() / 5,
	}
	id := fmt.Sprintf("%016x%016x%016x%016x", r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64())
	for k := range s.processes {
		q := gpu.ProcessAccount{
			ProcessID: gpu.ProcessID{PID: uint32(1_000_000 + r.IntN(1000) + 1000*(100*j+k)), Start: 1}, Name: "python3", ContainerID: id,
			StartTime: boot.Add(11*time.Minute + duration()/1000), Opened: boot.Add(12 * time.Minute), Energy: gpu.ByMethod{gpu.Exclusive: joules(), gpu.Shared: joules()},
		}
		a.Processes = append(a.Processes, q)
		g.Processes = append(g.Processes, gpu.LiveProcess{
			Process:    &gpu.Process{ID: q.ProcessID, Name: q.Name, Owner: a.Owner},
			MemoryUsed: new(uint64(r.Int64N(80 << 30))), SM: new(r.Float64()), Memory: new(r.Float64()),
		})
	}
	g.Holders = append(g.Holders, gpu.Holder{AccountKey: a.AccountKey, Resource: "nvidia.com/gpu.shared", Sharing: gpu.SharingTimeSlicing, Replicas: 1})
	g.Book.Accounts = append(g.Book.Accounts, a)
}
