package unit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/unit"
)

// TestParentedContainers checks containers below any cgroup of root. A container in an engine's list must be a unit. No
// other process may become a unit because of the name of a cgroup.
//
// If the id in a cgroup is unknown, another line of the file may name a service. The process must then belong to this
// service, and otherwise to the host.
func TestParentedContainers(t *testing.T) {
	docker, podman, unknown := containerID, strings.Replace(containerID, "3", "6", 1), strings.Replace(containerID, "3", "7", 1)
	tests := []struct{ name, cgroup, want string }{
		{"Docker's parent", "/ml/" + docker, "docker/train"},
		{"Docker's nested parent", "/ml/batch/" + docker + "/init.scope", "docker/train"},
		{"a task of ECS", "/ecs/0a1b2c3d4e5f60718293a4b5c6d7e8f9/" + docker, "docker/train"},
		{"a slice", "/ml.slice/" + docker, "docker/train"},
		{"a private cgroup namespace", "/../" + docker, "docker/train"},
		{"cgroup v1", "/\n12:devices:/ml/" + docker + "\n1:name=systemd:/ml/" + docker, "docker/train"},
		{"cgroup v1 with a service", "/system.slice/containerd.service\n12:devices:/ml/" + docker, "docker/train"},
		{"Podman's parent", "/ml/libpod-" + podman, "podman/labeler"},
		{"a pod of Podman", "/libpod_parent/" + unknown + "/libpod-" + podman, "podman/labeler"},
		{"another engine", "/other/" + unknown, "host"},
		{"another engine with a service", "/system.slice/containerd.service\n12:devices:/other/" + unknown, "systemd/containerd"},
		{"a container inside a container", "/ml/" + docker + "/" + unknown, "docker/train"},
		{"a known container inside an unknown one", "/other/" + unknown + "/" + docker, "host"},
		{"different containers", "/ml/" + docker + "\n12:devices:/ml/" + podman, "host"},
		{"a user", "/user.slice/user-1000.slice/user@1000.service/ml/" + docker, "user/1000"},
		{"a user without a session", "/ml/user@1000.service/" + docker, "host"},
		{"a service", "/system.slice/x.service/" + docker, "systemd/x"},
		{"a scope", "/system.slice/run-r1.scope/" + docker, "host"},
		{"a machine", "/machine.slice/systemd-nspawn@ai.service/payload/" + docker, "machine/ai"},
		{"a machine without systemd", "/machine.slice/" + docker, "host"},
		{"LXC", "/lxc.payload.web/" + docker, "lxc/web"},
		{"LXC with cgroup v1", "/lxc/web/" + docker, "lxc/web"},
		{"a job", "/system.slice/slurmstepd.scope/job_1/step_0/user/task_0/" + docker, "slurm/1"},
		{"a malformed line", "/ml/" + docker + "\nx", "host"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t, nil)
			m.write("docker/containers/"+docker+"/config.v2.json", `{"Name":"/train"}`)
			m.write("docker/containers/"+docker+"/hostconfig.json", `{"DeviceRequests":[{"Count":-1,"Capabilities":[["gpu"]]}]}`)
			m.write("podman/overlay-containers/containers.json", `[{"id":"`+podman+`","names":["labeler"]}]`)
			m.start(10, "python3", tt.cgroup, "")
			_, _ = m.chain.Process(10)
			m.refresh()
			m.now += 6 * time.Second // a process with an unknown id waits for the engines
			m.want(10, tt.want)
		})
	}
}

// TestUnknownContainer checks that a process with an unknown container id waits for only one poll. If the containers of
// an engine are not units, the mapper must not read the engine's files.
func TestUnknownContainer(t *testing.T) {
	for managers, want := range map[string]string{"docker": "pending", "podman": "pending", "systemd": "host"} {
		m := newMachine(t, func(c *unit.Config) { c.Managers = []string{managers} })
		m.start(10, "python3", "/other/"+containerID, "")
		m.want(10, want)
		m.refresh()
		m.want(10, want)
		m.now += 6 * time.Second
		m.want(10, "host")
	}
}

func TestParentedEnds(t *testing.T) {
	m := newMachine(t, nil)
	m.write("docker/containers/"+containerID+"/config.v2.json", `{"Name":"/train"}`)
	m.write("docker/containers/"+containerID+"/hostconfig.json", `{"DeviceRequests":[{"Count":-1,"Capabilities":[["gpu"]]}]}`)
	m.start(10, "python3", "/ml/"+containerID, "")
	m.refresh()
	m.wantHeld("docker/train exclusive")
	m.remove("proc/10")
	m.refresh()
	m.wantHeld()
}
