package simnode

import (
	"fmt"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Several users share the machine without a scheduler.
func workstation() Scenario {
	sc := machineWithoutKubelet("workstation", 3)
	sc.Description = "3 H100 without a scheduler; a Docker container that holds a GPU, a Podman container, a service, two users"
	sc.Daemons = append(sc.Daemons, Daemon{"/system.slice/nvidia-persistenced.service", Process{Comm: "nvidia-persiste"}})
	first := sysfsAddress(sc.GPUs[0].Bus)
	sc.Devices = append(sc.Devices,
		PCIDevice{Address: "0000:65:00.0", Vendor: "0x10de", Device: "0x128b", Class: "0x030000", Driver: "nouveau"}, // an old display card
		PCIDevice{Address: first[:len(first)-1] + "4", Vendor: "0x10de", Device: "0x2330", Class: "0x030200", Driver: "nvidia", Function: first})
	use := func(g, watts int, load Pattern) Work { return Work{GPU: g, Watts: watts, Load: load, Memory: 8 * gib} }
	sc.Units = []Unit{
		dockerContainer("vision-train-1", GPUs(0), use(0, 540, Constant(85))),
		podmanContainer("labeler", use(1, 350, Constant(20))),
		{
			Unit: gpu.Unit{Manager: "systemd", Name: "ollama"}, Cgroup: "/system.slice/ollama.service",
			Processes: []Process{{Comm: "ollama", Work: []Work{use(1, 350, Constant(20))}}},
		},
		session(1000, "/session-7.scope", use(2, 430, Constant(35))),
		session(1001, "/user@1001.service/app.slice/jupyter.scope", use(2, 430, Constant(30))),
	}
	return sc
}

func session(uid int, below string, work Work) Unit {
	return Unit{
		Unit: gpu.Unit{Manager: "user", Name: fmt.Sprint(uid)}, Cgroup: fmt.Sprintf("/user.slice/user-%d.slice", uid),
		Processes: []Process{{Comm: "python3", UID: uid, Below: below, Work: []Work{work}}},
	}
}

// Docker Compose created the container.
func dockerContainer(name string, devices []Device, work Work) Unit {
	id := hexID("docker", name)
	ids := ""
	for i, d := range devices {
		if i > 0 {
			ids += ","
		}
		ids += fmt.Sprintf("%q", fmt.Sprint(d.GPU))
	}
	dir := "docker/containers/" + id + "/"
	return Unit{
		Unit: gpu.Unit{Manager: "docker", Name: name}, Cgroup: "/system.slice/docker-" + id + ".scope", Devices: devices,
		Processes: []Process{{Comm: "python3", Work: []Work{work}}},
		Files: map[string]string{
			dir + "config.v2.json":  `{"ID":"` + id + `","Name":"/` + name + `","Config":{"Image":"vision:3","Env":["TOKEN=secret"],"Labels":{"com.docker.compose.project":"vision"}}}`,
			dir + "hostconfig.json": `{"DeviceRequests":[{"Driver":"","Count":0,"DeviceIDs":[` + ids + `],"Capabilities":[["gpu"]]}]}`,
		},
	}
}

// The container belongs to root's Podman.
func podmanContainer(name string, work Work) Unit {
	id := hexID("podman", name)
	return Unit{
		Unit: gpu.Unit{Manager: "podman", Name: name}, Cgroup: "/machine.slice/libpod-" + id + ".scope",
		Processes: []Process{{Comm: "python3", Below: "/container", Work: []Work{work}}},
		Files: map[string]string{
			"podman/overlay-containers/containers.json":          `[{"id":"` + id + `","names":["` + name + `"]}]`,
			"podman/overlay-containers/volatile-containers.json": `[]`,
		},
	}
}
