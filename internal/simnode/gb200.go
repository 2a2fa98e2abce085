package simnode

import (
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// The machine is a compute tray of an NVL72 rack whose driver has one energy counter per GPU.
func gb200() Scenario {
	sc := gb200Tray("gb200", CountsScoped)
	sc.Description = "4 GB200 GPUs on 2 boards of one chassis, in a fabric; energy counted per GPU"
	sc.Pods = append(sc.Pods, infer("infer-0", 2, 700), infer("infer-1", 3, 640))
	return sc
}

// gb200Module returns the tray of gb200 with a driver that counts the energy of whole modules. Each GPU then reports
// the energy of both GPUs in its module. Each pod holds whole modules, so its energy on a module is the larger of the
// two readings.
func gb200Module() Scenario {
	sc := gb200Tray("gb200-module", CountsModule)
	sc.Description = "as gb200, but each GPU shows the energy of its whole module"
	pod := infer("infer-0", 2, 700)
	second := infer("", 3, 640).Containers[0]
	c := &pod.Containers[0]
	c.Devices = append(c.Devices, second.Devices...)
	c.Processes = append(c.Processes, second.Processes...)
	sc.Pods = append(sc.Pods, pod)
	return sc
}

func infer(name string, g, watts int) Pod {
	return Pod{Namespace: "serving", Name: name, QoS: "burstable", Containers: []Container{{
		Name: "engine", Devices: GPUs(g),
		Processes: []Process{{Comm: "trtllm-serve", Work: []Work{
			{GPU: g, Watts: watts, Load: Ramp(20, 95, 30*time.Second), Memory: 150 * gib},
		}}},
	}}}
}

// The module numbers do not follow the order on the bus. Serial and chassis numbers are invented.
func gb200Tray(name string, counts Counts) Scenario {
	sc := Scenario{
		Name: name, Node: name + "-0",
		Driver: Driver{Version: "570.148.08", NVML: "12.570.148.08"},
		DMI: map[string]string{
			"sys_vendor": "NVIDIA", "product_name": "GB200 NVL", "product_serial": "1832925110238",
			"product_uuid": "3c5a1d6e-9f40-11ef-8e55-3c6d66e10238", "board_serial": "1832925140911",
			"board_asset_tag": "Not Specified", "board_vendor": "NVIDIA",
			"chassis_serial": "1820925190655", "chassis_asset_tag": "RACK-N12", "chassis_vendor": "NVIDIA",
		},
		Daemons: hostDaemons(),
		Devices: []PCIDevice{
			{Address: "0000:03:00.0", Vendor: "0x15b3", Device: "0x1021", Class: "0x020700"}, // InfiniBand
			{Address: "0010:03:00.0", Vendor: "0x15b3", Device: "0x1021", Class: "0x020700"}, // InfiniBand
			{Address: "0006:01:00.0", Vendor: "0x15b3", Device: "0xa2dc", Class: "0x020000"}, // DPU
			{Address: "0000:00:00.0", Vendor: "0x10de", Device: "0x22b9", Class: "0x060400"}, // root port of the CPU
		},
		Pods: []Pod{devicePlugin(), {Namespace: "research", Name: "moe-train-0", Containers: []Container{{
			Name: "trainer", Devices: GPUs(0, 1),
			Processes: []Process{
				{Comm: "python3", Work: []Work{{GPU: 0, Watts: 980, Load: Constant(98), Memory: 170 * gib}}},
				{Comm: "python3", Work: []Work{{GPU: 1, Watts: 955, Load: Constant(98), Memory: 171 * gib}}},
			},
		}}}},
	}
	serials := []string{"1761925340118", "1761925340118", "1761925341042", "1761925341042"}
	modules := []int{2, 1, 4, 3}
	for i, domain := range []string{"08", "09", "18", "19"} {
		sc.GPUs = append(sc.GPUs, GPU{
			UUID: "GPU-" + uuid("gb200", fmt.Sprint(i)), Bus: "000000" + domain + ":01:00.0",
			Model: "NVIDIA GB200", Serial: serials[i], Generation: Blackwell, Part: "692-2G548-0200-000", VBIOS: "97.00.82.00.11",
			Place:  &Place{Chassis: "1820925190655", Slot: 15, Tray: 5, Host: 1, Peer: 1, Module: modules[i]},
			Fabric: &Fabric{Cluster: "5f2d8a7c41be4f0e9a6d3b1c0e7f2a94", Clique: 1},
			Floor:  148 + i*5%9, Limit: 1200, MaxLimit: 1200, Memory: 186 * gib,
			Counter: gpu.Millijoules(95_000_000_000 + int64(i)*3_210_987_654), Counts: counts, GPM: true,
		})
	}
	return sc
}
