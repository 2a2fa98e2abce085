package unit_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/unit"
	"github.com/gpuledger/gpuledger/podmapper"
)

// ids of Docker's container train, Podman's container labeler, a container of another engine, and a container inside a
// container
const (
	dockerID = "5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e"
	podmanID = "90d390d390d390d390d390d390d390d390d390d390d390d390d390d390d390d3"
	otherID  = "abababababab0123456789abababababababababababababababababababab99"
	innerID  = "1111222233334444555566667777888899990000aaaabbbbccccddddeeeeffff"
)

// TestPaths checks cgroups from the managers' documentation and from reports by users. The expected owner is the owner
// that an administrator would name. If a container has no name, the beginning of its id is its name.
func TestPaths(t *testing.T) {
	const (
		user = "/user.slice/user-2001.slice/user@2001.service"
		pods = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod12345678_aaaa_4bbb_8ccc_0123456789ab.slice/"
	)
	scope := "/system.slice/docker-" + dockerID + ".scope"
	tests := []struct{ name, cgroup, want string }{
		// Slurm
		{"a step", "0::/system.slice/slurmstepd.scope/job_815/step_3/user/task_1", "slurm/815"},
		{"a batch script", "0::/system.slice/slurmstepd.scope/job_815/step_batch/user/task_0", "slurm/815"},
		{"an adopted session", "0::/system.slice/slurmstepd.scope/job_815/step_extern/user/task_special", "slurm/815"},
		{"a node's own slurmd", "0::/system.slice/rack7-gpu2_slurmstepd.scope/job_815/step_0/user/task_0", "slurm/815"},
		{"a run", "0::/system.slice/slurmstepd.scope/s7PQRSTVWXYZ01/step_batch/user/task_0", "slurm/s7PQRSTVWXYZ01"},
		{"a run on a node's own slurmd", "0::/system.slice/rack7_slurmstepd.scope/s7PQRSTVWXYZ01/step_extern/user/task_special", "slurm/s7PQRSTVWXYZ01"},
		{"enroot in a step", "0::/system.slice/slurmstepd.scope/job_815/step_0/user/task_0/enroot", "slurm/815"},
		{"apptainer in a step", "0::/system.slice/slurmstepd.scope/job_815/step_0/user/task_0/apptainer-77", "slurm/815"},
		{"cgroup v1, an old batch step", "11:devices:/slurm/uid_2001/job_81/step_4294967294/task_0\n1:name=systemd:/system.slice/slurmd.service", "slurm/81"},
		{"cgroup v1, an adopted session", "11:devices:/slurm/uid_2001/job_81/step_extern/task_0\n7:freezer:/slurm/uid_2001/job_81/step_extern\n1:name=systemd:/user.slice/user-2001.slice/session-9.scope", "slurm/81"},
		{"cgroup v1, the freezer only", "7:freezer:/slurm/uid_2001/job_81/step_0\n11:devices:/system.slice/slurmd.service\n1:name=systemd:/system.slice/slurmd.service", "slurm/81"},
		{"cgroup v1 and v2", "7:freezer:/slurm/uid_2001/job_81/step_0\n0::/user.slice/user-2001.slice/session-9.scope", "slurm/81"},
		{"without its cgroups", "0::/system.slice/slurmd.service", "systemd/slurmd"},
		{"Docker's daemon beside a job", "0::" + scope, "docker/train"},
		// PBS, TORQUE, LSF, HTCondor, Flux, Nomad
		{"PBS with cgroup v1", "7:memory:/pbs_jobs.service/jobid/77.pbsmaster\n11:devices:/pbs_jobs.service/jobid/77.pbsmaster\n1:name=systemd:/system.slice/pbs.service", "pbs/77.pbsmaster"},
		{"PBS in slices", "7:memory:/pbspro.slice/pbspro-77.pbsmaster.slice\n1:name=systemd:/system.slice/pbs.service", "pbs/77.pbsmaster"},
		{"an escaped element of an array of PBS", `0::/pbspro.slice/pbspro-77\x5b3\x5d.pbsmaster.slice`, "pbs/77[3].pbsmaster"},
		{"an element of an array of PBS", "0::/pbs_jobs.service/jobid/77[3].pbsmaster", "pbs/77[3].pbsmaster"},
		{"PBS's daemon", "0::/system.slice/pbs.service", "systemd/pbs"},
		{"TORQUE", "11:devices:/torque/77.master\n1:name=systemd:/system.slice/pbs_mom.service", "torque/77.master"},
		{"LSF", "7:memory:/lsf/alps/job.77.1234.1790000000\n1:name=systemd:/system.slice/lsfd.service", "lsf/77"},
		{"an element of an array of LSF", "0::/lsf/alps/job.77[3].1234.1790000000", "lsf/77[3]"},
		{"HTCondor with cgroup v1", "4:memory:/htcondor/condor_var_lib_condor_execute_slot2_3@exec7.example.com\n1:name=systemd:/system.slice/condor.service", "condor/slot2_3"},
		{"HTCondor with cgroup v2", "0::/system.slice/condor.service/condor_var_lib_condor_execute_slot2_3@exec7.example.com", "condor/slot2_3"},
		{"a static slot of HTCondor", "0::/system.slice/condor.service/condor_execute_slot4@exec7.example.com", "condor/slot4"},
		{"HTCondor's daemon", "0::/system.slice/condor.service", "systemd/condor"},
		{"Flux's own processes", "0::/system.slice/flux.service", "systemd/flux"},
		{"Nomad", "0::/nomad.slice/share.slice/00000000-1111-2222-3333-444455556666.embed.scope", "nomad/embed"},
		// Docker, ECS
		{"Docker", "0::" + scope, "docker/train"},
		{"Docker without systemd", "0::/docker/" + dockerID, "docker/train"},
		{"Docker with cgroup v1", "12:devices:/docker/" + dockerID + "\n1:name=systemd:/docker/" + dockerID + "\n0::/system.slice/containerd.service", "docker/train"},
		{"systemd inside Docker", "0::" + scope + "/system.slice/llm.service", "docker/train"},
		{"a parent of Docker's containers", "0::/research/" + dockerID, "docker/train"},
		{"ECS", "12:devices:/ecs/00112233445566778899aabbccddeeff/" + dockerID + "\n1:name=systemd:/ecs/00112233445566778899aabbccddeeff/" + dockerID, "docker/train"},
		{"ECS with systemd", "0::/ecstasks.slice/ecstasks-00112233445566778899aabbccddeeff.slice/docker-" + dockerID + ".scope", "docker/train"},
		{"rootless Docker", "0::" + user + "/user.slice/docker-" + otherID + ".scope", "user/2001"},
		{"the daemon of rootless Docker", "0::" + user + "/app.slice/docker.service", "user/2001"},
		{"Docker in Docker", "0::" + scope + "/docker/" + innerID, "docker/train"},
		{"Docker in Proxmox", "0::/lxc/204/ns/system.slice/docker-" + dockerID + ".scope", "lxc/204"},
		{"Docker above the cgroup namespace", "0::/../docker-" + dockerID + ".scope", "docker/train"},
		{"Docker without systemd above the cgroup namespace", "0::/../" + dockerID, "docker/train"},
		{"a user above the cgroup namespace", "0::/../../user.slice/user-2001.slice/session-9.scope", "user/2001"},
		{"a job above the cgroup namespace", "0::/../slurmstepd.scope/job_815/step_0/user/task_0", "slurm/815"},
		{"Docker of a snap", "0::/docker/" + otherID, "docker/abababababab"},
		// Podman, nerdctl
		{"Podman", "0::/machine.slice/libpod-" + podmanID + ".scope/container", "podman/labeler"},
		{"an older Podman", "0::/machine.slice/libpod-" + podmanID + ".scope", "podman/labeler"},
		{"Podman without systemd", "0::/libpod_parent/libpod-" + podmanID, "podman/labeler"},
		{"a pod of Podman", "0::/libpod_parent/" + innerID + "/libpod-" + podmanID, "podman/labeler"},
		{"a quadlet", "0::/system.slice/whisper.service/libpod-payload-" + podmanID, "systemd/whisper"},
		{"a quadlet in a slice", "0::/research.slice/whisper.service/libpod-payload-" + podmanID, "systemd/whisper"},
		{"a parent of Podman's containers", "0::/research.slice/libpod-" + podmanID + ".scope/container", "podman/labeler"},
		{"Podman's Kubernetes files", `0::/system.slice/system-podman\x2dkube.slice/podman-kube@stack.service/libpod-payload-` + podmanID, "systemd/podman-kube@stack"},
		{"nerdctl", "0::/system.slice/nerdctl-" + otherID + ".scope", "nerdctl/abababababab"},
		{"nerdctl without systemd", "0::/default/" + otherID, "nerdctl/abababababab"},
		{"ctr", "0::/default/burn", "nerdctl/burn"},
		// Machines
		{"LXC", "0::/lxc.payload.db/system.slice/whisper.service", "lxc/db"},
		{"an older LXC", "12:devices:/lxc/db\n1:name=systemd:/lxc/db/system.slice/x.service", "lxc/db"},
		{"a project of Incus", "0::/lxc.payload.lab_c7/user.slice/user-0.slice/session-2.scope", "lxc/lab_c7"},
		{"the monitor of LXC", "0::/lxc.monitor.db", "host"},
		{"nspawn", "0::/machine.slice/systemd-nspawn@lab.service/payload/system.slice/x.service", "machine/lab"},
		{"libvirt", `0::/machine.slice/machine-qemu\x2d3\x2dwin11\x2dgpu.scope/libvirt/emulator`, "libvirt/win11-gpu"},
		{"LXC of libvirt", `0::/machine.slice/machine-lxc\x2d4321\x2dbuild.scope`, "libvirt/build"},
		// Services
		{"a service with cgroup v1", "12:devices:/system.slice/whisper.service\n5:memory:/system.slice/whisper.service\n1:name=systemd:/system.slice/whisper.service\n0::/system.slice/whisper.service", "systemd/whisper"},
		{"a service in one hierarchy", "12:devices:/\n5:memory:/\n1:name=systemd:/system.slice/whisper.service", "systemd/whisper"},
		{"an escaped instance", `0::/system.slice/system-triton\x2dserver.slice/triton-server@yolo\x2d11.service`, "systemd/triton-server@yolo-11"},
		{"a slice", "0::/research.slice/triton.service", "systemd/triton"},
		{"a slice below system.slice", "0::/system.slice/system-research.slice/triton.service", "systemd/triton"},
		{"a delegated service", "0::/system.slice/ray.service/ray-node_4/user/workers", "systemd/ray"},
		{"a login screen", "0::/user.slice/user-120.slice/session-c2.scope", "user/120"},
		{"a display", "0::/system.slice/sddm.service", "systemd/sddm"},
		{"JupyterHub", "0::/system.slice/jupyter-grace-singleuser.service", "systemd/jupyter-grace-singleuser"},
		{"JupyterHub in a slice", "0::/jupyterhub.slice/jupyter-grace-singleuser.service", "systemd/jupyter-grace-singleuser"},
		{"a scope of root", "0::/system.slice/run-rfedcba9876543210.scope", "host"},
		{"a transient service of root", "0::/system.slice/run-rfedcba9876543210.service", "systemd/run-rfedcba9876543210"},
		{"the driver's daemon", "0::/system.slice/nvidia-persistenced.service", "host"},
		{"an older DCGM", "0::/system.slice/dcgm.service", "host"},
		{"NVIDIA's exporter", "0::/system.slice/dcgm-exporter.service", "host"},
		{"cron", "0::/system.slice/cron.service", "systemd/cron"},
		{"K3s itself", "0::/system.slice/k3s.service", "systemd/k3s"},
		{"init", "0::/init.scope", "host"},
		// Users
		{"ssh with cgroup v1", "12:devices:/user.slice\n5:memory:/user.slice/user-2001.slice/session-9.scope\n1:name=systemd:/user.slice/user-2001.slice/session-9.scope\n0::/user.slice/user-2001.slice/session-9.scope", "user/2001"},
		{"root's session", "0::/user.slice/user-0.slice/session-9.scope", "host"},
		{"Flatpak", "0::" + user + "/app.slice/app-flatpak-org.example.Game-99.scope", "user/2001"},
		{"a snap", "0::" + user + "/app.slice/snap.browser.browser-77aa.scope", "user/2001"},
		{"a user of a directory service", "0::/user.slice/user-4100000007.slice/session-9.scope", "user/4100000007"},
		{"elogind", "0::/5", "host"},
		{"no systemd", "0::/", "host"},
		{"a removed session", "0::/user.slice/user-2001.slice/session-9.scope (deleted)", "user/2001"},
		// Pods
		{"a node of kind", "0::" + scope + "/kubelet.slice" + pods + "cri-containerd-" + innerID + ".scope", "docker/train"},
		{"containerd", "0::" + pods + "cri-containerd-" + innerID + ".scope", "pod"},
		{"rootless K3s", "0::" + user + "/k3s-rootless.service/kubepods/besteffort/pod12345678-aaaa-4bbb-8ccc-0123456789ab/" + innerID, "user/2001"},
		{"CRI-O", "0::" + pods + "crio-" + innerID + ".scope/container", "pod"},
		{"Kata", "0::" + strings.TrimSuffix(pods, "/") + ":cri-containerd:" + innerID, "pod"},
		{"gVisor", "0::" + pods + "cri-containerd-" + innerID + ".scope/sub", "pod"},
		{"cri-dockerd", "0::" + pods + "docker-" + innerID + ".scope", "pod"},
	}
	machines := map[bool]*machine{
		false: newMachine(t, func(c *unit.Config) { c.Max = 1000 }),
		true:  newMachine(t, func(c *unit.Config) { c.Pods, c.IsPod, c.Max = pod{}, podmapper.IsPod, 1000 }),
	}
	for _, m := range machines {
		m.write("docker/containers/"+dockerID+"/config.v2.json", `{"Name":"/train"}`)
		m.write("docker/containers/"+dockerID+"/hostconfig.json", `{}`)
		m.write("podman/overlay-containers/containers.json", `[{"id":"`+podmanID+`","names":["labeler"]}]`)
		for i, tt := range tests {
			m.start(100+i, "python3", "/", "")
			m.write("proc/"+strconv.Itoa(100+i)+"/cgroup", tt.cgroup+"\n")
			_, _ = m.chain.Process(uint32(100 + i))
		}
		_ = m.Refresh(t.Context()) // returns an error because of a container without files
		m.now += 6 * time.Second
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := machines[tt.want == "pod"]
			m.t = t
			m.want(uint32(100+i), tt.want)
		})
	}
}
