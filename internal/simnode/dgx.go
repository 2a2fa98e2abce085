package simnode

import (
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

const gib = 1 << 30

func dgxH100() Scenario {
	sc := hgxH100("dgx-h100", 8)
	sc.Description = "8 H100; pods of 4, 2 and 1 GPUs, one GPU idle; a GPU is throttled by heat and the power brake"
	sc.GPUs[6].Throttle = [gpu.NumThrottles]int{gpu.ThrottleThermal: 5, gpu.ThrottlePowerBrake: 20}
	sc.Pods = []Pod{
		devicePlugin(),
		{Namespace: "research", Name: "pretrain-0", Containers: []Container{{
			Name: "trainer", Devices: GPUs(0, 1, 2, 3),
			Processes: []Process{
				{Comm: "torchrun"},
				{Comm: "python3", Work: []Work{
					{GPU: 0, Watts: 560, Load: Constant(97), Memory: 71 * gib},
					{GPU: 1, Watts: 575, Load: Constant(97), Memory: 70 * gib},
					{GPU: 2, Watts: 548, Load: Constant(96), Memory: 70 * gib},
					{GPU: 3, Watts: 590, Load: Constant(98), Memory: 70 * gib},
				}},
			},
		}}},
		{Namespace: "research", Name: "finetune-7b", QoS: "burstable", Containers: []Container{{
			Name: "worker", Devices: GPUs(4, 5),
			Processes: []Process{
				{Comm: "python3", Work: []Work{{GPU: 4, Watts: 520, Load: Duty(92, 8*time.Second, 10*time.Second), Memory: 44 * gib}}},
				{Comm: "python3", Work: []Work{{GPU: 5, Watts: 505, Load: Duty(90, 8*time.Second, 10*time.Second), Memory: 44 * gib}}},
			},
		}}},
		{Namespace: "serving", Name: "chat-0", QoS: "burstable", Containers: []Container{
			{
				Name: "server", Devices: GPUs(6),
				Processes: []Process{
					{Comm: "vllm", Work: []Work{{GPU: 6, Watts: 480, Load: Constant(35), Memory: 52 * gib}}},
					{Comm: `re"rank) R (1 2`, Work: []Work{{GPU: 6, Watts: 260, Load: Ramp(5, 60, 20*time.Second), Memory: 9 * gib}}},
				},
			},
			{Name: "proxy", Processes: []Process{{Comm: "envoy"}}},
		}},
	}
	return sc
}

func idle() Scenario {
	sc := hgxH100("idle", 8)
	sc.Description = "8 H100 and no pods; the host's display server puts a light load on one GPU"
	sc.Daemons = append(sc.Daemons,
		Daemon{"/system.slice/gpuledger.service", Process{Comm: exporter}},
		Daemon{"/system.slice/display-manager.service", Process{Comm: "Xorg", Work: []Work{
			{GPU: 0, Watts: 90, Load: Constant(3), Memory: gib / 8, Context: Graphics},
		}}})
	return sc
}

func lost() Scenario {
	sc := dgxH100()
	sc.Name, sc.Node = "lost", "lost-0"
	sc.Description = "as dgx-h100; after 6 s one GPU falls off the bus, after 12 s the driver is loaded again"
	sc.Events = []Event{
		{At: 6 * time.Second, Do: FallOff, GPU: 2},
		{At: 12 * time.Second, Do: UnloadDriver},
		{At: 13 * time.Second, Do: LoadDriver},
	}
	return sc
}

func churn() Scenario {
	sc := hgxH100("churn", 4)
	sc.Description = "4 H100; on two of them a new pod every second"
	batch := func(name string, g, watts int) Pod {
		return Pod{Namespace: "batch", Name: name, QoS: "besteffort", Lifetime: time.Second, Containers: []Container{{
			Name: "job", Devices: GPUs(g),
			Processes: []Process{{Comm: "job", Work: []Work{{GPU: g, Watts: watts, Load: Constant(80), Memory: 4 * gib}}}},
		}}}
	}
	steady := func(name string, g, watts int, load Pattern) Pod {
		return Pod{Namespace: "serving", Name: name, Containers: []Container{{
			Name: "server", Devices: GPUs(g),
			Processes: []Process{{Comm: "vllm", Work: []Work{{GPU: g, Watts: watts, Load: load, Memory: 60 * gib}}}},
		}}}
	}
	sc.Pods = []Pod{
		devicePlugin(),
		batch("short-a", 0, 400), batch("short-b", 1, 310),
		steady("chat-0", 2, 450, Constant(60)),
		steady("chat-1", 3, 470, Ramp(10, 90, 30*time.Second)),
	}
	return sc
}

// The workloads of the demo change slowly, so that a user can watch them.
func jobs() Scenario {
	sc := hgxH100("jobs", 4)
	sc.Description = "4 H100; a new job every minute, a job that ends after 40 s, a service; after 2 min the idle GPU falls off the bus"
	job := func(name string, g, watts int, load Pattern) Pod {
		return Pod{Namespace: "research", Name: name, Containers: []Container{{
			Name: "trainer", Devices: GPUs(g),
			Processes: []Process{{Comm: "python3", Work: []Work{{GPU: g, Watts: watts, Load: load, Memory: 64 * gib}}}},
		}}}
	}
	nightly, sweep := job("nightly", 0, 570, Constant(97)), job("sweep", 1, 540, Duty(92, 8*time.Second, 10*time.Second))
	nightly.Lifetime, sweep.Until = time.Minute, 40*time.Second
	chat := job("chat", 2, 480, Ramp(10, 90, 30*time.Second))
	chat.Namespace, chat.QoS = "serving", "burstable"
	sc.Pods = []Pod{devicePlugin(), nightly, sweep, chat}
	sc.Events = []Event{{At: 2 * time.Minute, Do: FallOff, GPU: 3}}
	return sc
}

func noHostPID() Scenario {
	sc := hgxH100("no-hostpid", 4)
	sc.Description = "4 H100; pods of 2 and 1 GPUs, one GPU idle; the exporter has its own PID namespace"
	sc.PrivatePIDs = true
	sc.Pods = []Pod{
		devicePlugin(),
		{Namespace: "research", Name: "pretrain-0", Containers: []Container{{
			Name: "trainer", Devices: GPUs(0, 1),
			Processes: []Process{
				{Comm: "torchrun"},
				{Comm: "python3", Work: []Work{
					{GPU: 0, Watts: 560, Load: Constant(97), Memory: 71 * gib},
					{GPU: 1, Watts: 575, Load: Constant(97), Memory: 70 * gib},
				}},
			},
		}}},
		{Namespace: "serving", Name: "chat-0", QoS: "burstable", Containers: []Container{{
			Name: "server", Devices: GPUs(2),
			Processes: []Process{{Comm: "vllm", Work: []Work{
				{GPU: 2, Watts: 480, Load: Duty(60, 8*time.Second, 10*time.Second), Memory: 52 * gib},
			}}},
		}}},
	}
	return sc
}

// hgxH100 returns a machine with up to eight H100 and without pods. The GPUs do not report their chassis or their place
// in it. The serial numbers are invented.
func hgxH100(name string, gpus int) Scenario {
	bus := []string{"1B", "43", "52", "61", "9D", "C3", "D1", "DF"}
	sc := Scenario{
		Name: name, Node: name + "-0",
		Driver: Driver{Version: "570.86.15", NVML: "12.570.86.15"},
		DMI: map[string]string{
			"sys_vendor": "NVIDIA", "product_name": "DGXH100", "product_serial": "1660224000117",
			"product_uuid": "7b0e5c1e-4c1f-11ef-9d0a-a088c2aa0117", "board_serial": "1660924000733",
			"board_asset_tag": "Default string", "board_vendor": "NVIDIA",
			"chassis_serial": "1660224000117", "chassis_asset_tag": "RACK-D07-U21", "chassis_vendor": "NVIDIA",
		},
		Daemons: hostDaemons(),
	}
	for i := range gpus {
		serial := fmt.Sprintf("16539240%05d", 20817+(i*7919)%997)
		sc.GPUs = append(sc.GPUs, GPU{
			UUID: "GPU-" + uuid("h100", serial), Bus: "00000000:" + bus[i] + ":00.0",
			Model: "NVIDIA H100 80GB HBM3", Serial: serial, Part: "692-2G520-0200-000", VBIOS: "96.00.A5.00.01",
			Floor: 68 + i*3%7, Limit: 700, MaxLimit: 700, Memory: 80 * gib,
			Counter: gpu.Millijoules(180_000_000_000 + int64(i)*7_345_678_901), GPM: true,
		})
	}
	for i := range 4 {
		sc.Devices = append(sc.Devices,
			PCIDevice{Address: fmt.Sprintf("0000:%02x:00.0", 0x05+i), Vendor: "0x10de", Device: "0x22a3", Class: "0x068000"},      // NVSwitch
			PCIDevice{Address: fmt.Sprintf("0000:%02x:00.0", 0x18+0x22*i), Vendor: "0x15b3", Device: "0x1021", Class: "0x020700"}) // InfiniBand
	}
	return sc
}

func hostDaemons() []Daemon {
	service := func(comm string) Daemon {
		return Daemon{"/system.slice/" + comm + ".service", Process{Comm: comm}}
	}
	return []Daemon{
		{"/init.scope", Process{Comm: "systemd"}},
		service("containerd"), service("kubelet"), service("nvidia-persiste"), service("sshd"),
		{"/user.slice/user-1000.slice/session-7.scope", Process{Comm: "bash"}},
	}
}

func devicePlugin() Pod {
	return Pod{Namespace: "kube-system", Name: "nvidia-device-plugin-daemonset-x7k2p", QoS: "besteffort", Containers: []Container{
		{Name: "nvidia-device-plugin-ctr", Processes: []Process{{Comm: "nvidia-device-p"}}},
		{Name: "gpuledger", Processes: []Process{{Comm: exporter}}},
	}}
}
