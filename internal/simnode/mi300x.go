package simnode

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// The serial numbers and ids are invented. A monitoring program has opened all GPUs.
func mi300x() Scenario {
	sc := withoutNVIDIA("mi300x")
	sc.Description = "8 MI300X; pods of 4, 1 and 1 GPUs, one GPU idle, one in CPX mode with 3 pods; one GPU has correctable errors"
	for i, bus := range []string{"05", "26", "46", "65", "85", "A6", "C6", "E5"} {
		sc.GPUs = append(sc.GPUs, instinctMI300X(i, bus))
	}
	sc.GPUs[2].AMD.MemoryErrors = 4 * time.Second
	sc.GPUs[7].MIG = &MIG{Slices: 8}
	for i := range 8 {
		sc.GPUs[7].MIG.Instances = append(sc.GPUs[7].MIG.Instances, Instance{ID: i, Profile: "CPX", Slices: 1})
	}
	sc.Pods = []Pod{
		amdDevicePlugin(true),
		metricsExporter(len(sc.GPUs)),
		{Namespace: "research", Name: "pretrain-0", Containers: []Container{{
			Name: "trainer", Devices: GPUs(0, 1, 2, 3),
			Processes: []Process{
				{Comm: "torchrun"},
				{Comm: "python3", Work: []Work{
					{GPU: 0, Watts: 560, Load: Constant(97), Memory: 171 * gib},
					{GPU: 1, Watts: 575, Load: Constant(97), Memory: 170 * gib},
					{GPU: 2, Watts: 548, Load: Constant(96), Memory: 170 * gib},
					{GPU: 3, Watts: 590, Load: Constant(98), Memory: 170 * gib},
				}},
			},
		}}},
		{Namespace: "serving", Name: "chat-0", QoS: "burstable", Containers: []Container{{
			Name: "server", Devices: GPUs(4),
			Processes: []Process{
				{Comm: "vllm", Work: []Work{{GPU: 4, Watts: 520, Load: Constant(35), Memory: 120 * gib}}},
				{Comm: "rerank", Work: []Work{{GPU: 4, Watts: 310, Load: Ramp(5, 60, 20*time.Second), Memory: 9 * gib}}},
			},
		}}},
		{Namespace: "research", Name: "finetune-7b", QoS: "burstable", Containers: []Container{{
			Name: "worker", Devices: GPUs(5),
			Processes: []Process{{Comm: "python3", Work: []Work{{GPU: 5, Watts: 530, Load: Duty(92, 8*time.Second, 10*time.Second), Memory: 88 * gib}}}},
		}}},
		sharer("notebook-0", Parts(7, 0), Work{GPU: 7, Instance: 0, Watts: 60, Load: Constant(40), Memory: 6 * gib}),
		{Namespace: "team-a", Name: "embed-0", QoS: "burstable", Containers: []Container{{
			Name: "main", Devices: Parts(7, 1, 2),
			Processes: []Process{
				{Comm: "rank0", Work: []Work{{GPU: 7, Instance: 1, Watts: 70, Load: Constant(80), Memory: 11 * gib}}},
				{Comm: "rank1", Work: []Work{{GPU: 7, Instance: 2, Watts: 65, Load: Constant(75), Memory: 11 * gib}}},
			},
		}}},
		sharer("reserved-0", Parts(7, 3)),
	}
	return sc
}

// The machine has the device plugins of both vendors. gpuledger runs in the pod of NVIDIA's device plugin.
func mixed() Scenario {
	sc := hgxH100("mixed", 2)
	sc.Description = "2 H100 and 2 MI210; a pod on each kind of GPU, a pod with one container on each kind, an idle MI210"
	sc.Devices = append(sc.Devices, managementController())
	for i, bus := range []string{"A3", "E3"} {
		sc.GPUs = append(sc.GPUs, instinctMI210(i, bus))
	}
	sc.Pods = []Pod{
		devicePlugin(),
		amdDevicePlugin(false),
		{Namespace: "research", Name: "pretrain-0", Containers: []Container{{
			Name: "trainer", Devices: GPUs(0),
			Processes: []Process{{Comm: "python3", Work: []Work{{GPU: 0, Watts: 560, Load: Constant(97), Memory: 71 * gib}}}},
		}}},
		{Namespace: "ci", Name: "compare-0", QoS: "burstable", Containers: []Container{
			{Name: "cuda", Devices: GPUs(1), Processes: []Process{
				{Comm: "bench", Work: []Work{{GPU: 1, Watts: 480, Load: Duty(90, 6*time.Second, 10*time.Second), Memory: 30 * gib}}},
			}},
			{Name: "rocm", Devices: GPUs(2), Processes: []Process{
				{Comm: "bench", Work: []Work{{GPU: 2, Watts: 210, Load: Duty(95, 7*time.Second, 10*time.Second), Memory: 30 * gib}}},
			}},
		}},
	}
	return sc
}

// The pods have no allocation. They mount the GPU's device nodes instead.
func vulkan() Scenario {
	sc := withoutNVIDIA("vulkan")
	sc.Description = "1 MI210 that no pod holds; graphics in one pod, and a ROCm program in another pod"
	sc.GPUs = []GPU{instinctMI210(0, "A3")}
	sc.Pods = []Pod{
		amdDevicePlugin(true),
		sharer("embed-0", nil, Work{GPU: 0, Watts: 210, Load: Constant(40), Memory: 11 * gib}),
		{Namespace: "design", Name: "viewer-0", QoS: "burstable", Containers: []Container{{
			Name: "main",
			Processes: []Process{{Comm: "viewer", Work: []Work{
				{GPU: 0, Watts: 190, Load: Duty(50, 4*time.Second, 10*time.Second), Memory: 2 * gib, Context: Graphics},
			}}},
		}}},
	}
	return sc
}

// withoutNVIDIA returns a machine without GPUs and without NVIDIA's daemon.
func withoutNVIDIA(name string) Scenario {
	sc := Scenario{
		Name: name, Node: name + "-0",
		DMI: map[string]string{
			"sys_vendor": "Supermicro", "product_name": "AS -8125GS-TNMR2", "product_serial": "S561234X4900417",
			"product_uuid": "9d2f6b1e-7c40-11ef-8d31-7cc2556e0417", "board_serial": "OM24AS004417",
			"board_asset_tag": "Default string", "board_vendor": "Supermicro",
			"chassis_serial": "C8125FM48A10417", "chassis_asset_tag": "RACK-F03-U09", "chassis_vendor": "Supermicro",
		},
		Devices: []PCIDevice{managementController()},
	}
	for _, d := range hostDaemons() {
		if !strings.HasPrefix(d.Comm, "nvidia") {
			sc.Daemons = append(sc.Daemons, d)
		}
	}
	return sc
}

// A management controller has a display device.
func managementController() PCIDevice {
	return PCIDevice{Address: "0000:04:00.0", Vendor: "0x1a03", Device: "0x2000", Class: managementDisplay, Driver: "ast"}
}

func instinctMI300X(n int, bus string) GPU {
	serial := fmt.Sprintf("PCB079220-%04d", 417+(n*7919)%997)
	return GPU{
		UUID: hexID("mi300x", serial)[:16], Bus: "00000000:" + bus + ":00.0",
		Model: "AMD Instinct MI300X OAM", Serial: serial, Part: "102-G30211-00", VBIOS: "113-M3000100-102",
		Floor: 138 + n*3%7, Limit: 750, MaxLimit: 750, Memory: 192 * gib,
		Counter: gpu.Millijoules(210_000_000_000 + int64(n)*6_789_012_345),
		AMD:     &AMD{Device: "0x74a1", Class: "0x120000", Metrics: "1.7", Units: 304, Dies: 8, Hive: "5b1f0c7e92d34a68"},
	}
}

func instinctMI210(n int, bus string) GPU {
	serial := fmt.Sprintf("PCB052310-%04d", 118+(n*7919)%997)
	return GPU{
		UUID: hexID("mi210", serial)[:16], Bus: "00000000:" + bus + ":00.0",
		Model: "AMD Instinct MI210", Serial: serial, Part: "102-D67301-00", VBIOS: "113-D67301-063",
		Floor: 41 + n*3%7, Limit: 300, MaxLimit: 300, Memory: 64 * gib,
		Counter: gpu.Millijoules(31_000_000_000 + int64(n)*1_234_567_891),
		AMD:     &AMD{Device: "0x740f", Class: "0x038000", Metrics: "1.3", Units: 104, Dies: 1},
	}
}

// If injected is set, the pod also contains the exporter.
func amdDevicePlugin(injected bool) Pod {
	p := Pod{Namespace: "kube-system", Name: "amdgpu-device-plugin-daemonset-m4t9z", QoS: "besteffort", Containers: []Container{
		{Name: "amdgpu-dp-cntr", Processes: []Process{{Comm: "k8s-device-plug"}}},
	}}
	if injected {
		p.Containers = append(p.Containers, Container{Name: "gpuledger", Processes: []Process{{Comm: exporter}}})
	}
	return p
}

// The monitoring program has one open file for each part of a GPU.
func metricsExporter(gpus int) Pod {
	watch := Process{Comm: "amd-metrics-exp"}
	for i := range gpus {
		watch.Work = append(watch.Work, Work{GPU: i, Context: Monitor})
	}
	return Pod{Namespace: "kube-amd-gpu", Name: "default-metrics-exporter-7hq2d", QoS: "besteffort", Containers: []Container{
		{Name: "metrics-exporter-container", Processes: []Process{watch}},
	}}
}
