package unit

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/podmapper"
)

const (
	containerID = "3f4a9c0d1e2b5a697887766554433221100ffeeddccbbaa99887766554433221"
	podSlice    = "/kubepods.slice/kubepods-pod0a1b2c3d_0000_4000_8000_000000000001.slice/cri-containerd-" + containerID + ".scope"
)

func TestParse(t *testing.T) {
	slurm := func(id string) match { return match{manager: Slurm, id: id} }
	machine := func(manager, name string) match { return match{manager: manager, id: name} }
	service := func(name string) match { return match{manager: Systemd, id: name} }
	tests := []struct {
		name, file string
		want       match // the zero match means no unit
	}{
		{"Slurm up to 25.11", "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", slurm("4711")},
		{"Slurm 26.05 and later", "0::/system.slice/slurmstepd.scope/s8FXKTA79XAR00/step_batch/user/task_0", slurm("s8FXKTA79XAR00")},
		{"an adopted ssh session", "0::/system.slice/slurmstepd.scope/job_4711/step_extern/user/task_special", slurm("4711")},
		{"another slice", "0::/hpc.slice/hpc-slurm.slice/slurmstepd.scope/job_4711/step_0/user/task_0", slurm("4711")},
		{"several slurmd", "0::/system.slice/gpu-a_slurmstepd.scope/job_4711/step_0/user/task_0", slurm("4711")},
		{"a job in a private cgroup namespace", "0::/../../system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", slurm("4711")},
		{"the daemon of a step", "0::/system.slice/slurmstepd.scope/job_4711/step_0/slurm", match{manager: Slurm, id: "4711", daemon: true}},
		{"Slurm with cgroup v1", "4:memory:/slurm/uid_1001/job_12/step_0/task_0\n1:name=systemd:/system.slice/slurmd.service\n0::/", match{manager: Slurm, id: "12", uid: "1001"}},
		{"several slurmd with cgroup v1", "4:memory:/slurm_gpu-a/uid_0/job_12/step_0/task_0", match{manager: Slurm, id: "12", uid: "0"}},
		{"a deleted cgroup", "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0 (deleted)", slurm("4711")},
		{"the daemon of Slurm", "0::/system.slice/slurmstepd.scope/system", match{}},
		{"the scope of Slurm", "0::/system.slice/slurmstepd.scope", match{}},
		{"a job without a number", "0::/system.slice/slurmstepd.scope/job_/step_0", match{}},
		{"a job with a sign", "0::/system.slice/slurmstepd.scope/job_-1/step_0", match{}},
		{"a job with a leading zero", "0::/system.slice/slurmstepd.scope/job_04711/step_0", match{}},
		{"a job with eleven digits", "0::/system.slice/slurmstepd.scope/job_12345678901/step_0", match{}},
		{"a short SLUID", "0::/system.slice/slurmstepd.scope/s8FXKTA79XAR0/step_0", match{}},
		{"a SLUID with a letter outside its alphabet", "0::/system.slice/slurmstepd.scope/s8FXKTA79XARU0/step_0", match{}},
		{"two jobs", "4:memory:/slurm/uid_1/job_12/step_0\n5:devices:/slurm/uid_1/job_13/step_0", match{}},

		{"Docker", "0::/system.slice/docker-" + containerID + ".scope", match{manager: Docker, id: containerID}},
		{"Docker without systemd", "0::/docker/" + containerID, match{manager: Docker, id: containerID}},
		{"Docker below another slice", "0::/batch.slice/docker-" + containerID + ".scope/init.scope", match{manager: Docker, id: containerID}},
		{"Podman", "0::/machine.slice/libpod-" + containerID + ".scope/container", match{manager: Podman, id: containerID}},
		{"Podman without systemd", "0::/libpod_parent/libpod-" + containerID, match{manager: Podman, id: containerID}},
		{"the monitor of Podman", "0::/machine.slice/libpod-conmon-" + containerID + ".scope", match{}},
		{"a service", `0::/system.slice/system-foo\x2dbar.slice/foo\x2dbar@1.service`, match{manager: Systemd, id: "foo-bar@1"}},
		{"a daemon of the driver", "0::/system.slice/nvidia-persistenced.service", match{}},
		{"the fabric manager", "0::/system.slice/nvidia-fabricmanager.service", match{}},
		{"the old name of DCGM", "0::/system.slice/dcgm.service", match{}},
		{"NVIDIA's exporter", "0::/system.slice/dcgm-exporter.service", match{}},
		{"a service with a name similar to the driver's services", "0::/system.slice/nvidia-nim.service", service("nvidia-nim")},
		{"a service in a slice of its own", "0::/ml.slice/vllm.service", service("vllm")},
		{"a service in a nested slice", "0::/ml.slice/ml-batch.slice/jupyter-ada-singleuser.service", service("jupyter-ada-singleuser")},
		{"a service with groups of its own", "0::/ml.slice/ray.service/ray-node_1/user/workers", service("ray")},
		{"a container below a service", "0::/ml.slice/ollama.service/libpod-payload-" + containerID, service("ollama")},
		{"a service without a slice", "0::/ollama.service", match{}},
		{"a service at an unknown level", "0::/../ollama.service", match{}},
		{"a service in a slice at an unknown level", "0::/../../ml.slice/ollama.service", match{}},
		{"the service of a machine", "0::/machine.slice/machine-ai.slice/systemd-nspawn@ai.service", match{}},
		{"a user's slice", "0::/user.slice/user-1000.slice/user@1000.service/ml.slice/vllm.service", match{manager: User, id: "1000"}},
		{"a service in a scope", "0::/system.slice/run-r1.scope/ml.slice/vllm.service", match{}},
		{"a session", "0::/user.slice/user-1000.slice/session-7.scope", match{manager: User, id: "1000"}},
		{"a user's service", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.service", match{manager: User, id: "1000"}},
		{"root's session", "0::/user.slice/user-0.slice/session-1.scope", match{}},
		{"init", "0::/init.scope", match{}},
		{"the root", "0::/", match{}},
		{"nothing", "", match{}},
		{"a malformed line", "0::/system.slice/ollama.service\nx", match{}},

		{"a container inside a job", "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0/docker-" + containerID + ".scope", slurm("4711")},
		{"a job inside a container", "0::/system.slice/docker-" + containerID + ".scope/system.slice/slurmstepd.scope/job_1/step_0", match{manager: Docker, id: containerID}},
		{"a user's cgroup with the name of a job's cgroup", "0::/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_1/step_0/user/task_0", match{manager: User, id: "1000"}},
		{"a user's cgroup with the name of a container's cgroup", "0::/user.slice/user-1000.slice/user@1000.service/docker-" + containerID + ".scope", match{manager: User, id: "1000"}},
		{"a service's cgroup with the name of a job's cgroup", "0::/system.slice/x.service/slurmstepd.scope/job_1/step_0", match{manager: Systemd, id: "x"}},
		{"the monitor of a machine", "0::/lxc.monitor.x/system.slice/slurmstepd.scope/job_1/step_0", match{}},
		{"a service inside a machine", "0::/machine.slice/systemd-nspawn@x.service/payload/system.slice/ollama.service", machine("machine", "x")},
		{"a job inside a machine", "0::/lxc.payload.x/system.slice/slurmstepd.scope/job_1/step_0", machine("lxc", "x")},
		{"a session inside a machine", "0::/lxc.payload.x/user.slice/user-1000.slice/session-1.scope", machine("lxc", "x")},
		{"a virtual machine", `0::/machine.slice/machine-qemu\x2d1\x2dvm.scope/libvirt/emulator`, machine("libvirt", "vm")},

		{"a pod", "0::" + podSlice, match{}},
		{"a job inside a pod", "0::" + podSlice + "/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", match{manager: Slurm, id: "4711", inPod: true}},
		{"a job inside a pod with cgroup v1", "4:memory:/kubepods/pod0a1b2c3d-0000-4000-8000-000000000001/" + containerID + "/slurm/uid_1/job_7/step_0", match{manager: Slurm, id: "7", uid: "1", inPod: true}},
		{"a container of Docker inside a pod", "0::" + podSlice + "/docker/" + containerID, match{}},
		{"a pod inside a job", "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0" + podSlice, slurm("4711")},
	}
	p := parser{BuiltInManagers(), podmapper.IsPod}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := p.parse(tt.file + "\n")
			if got != tt.want || ok != (tt.want != match{}) {
				t.Errorf("parse = %+v, %v, want %+v", got, ok, tt.want)
			}
		})
	}
}

func TestPatterns(t *testing.T) {
	var patterns Patterns
	for _, s := range []string{`pbs=/pbs_jobs\.service/jobid/([^/]+)`, `lxc=^/lxc\.payload\.([^/]+)`, `flux=/shell-[0-9]+-([^/.]+)\.service`} {
		if err := patterns.Set(s); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, file string
		want       match
	}{
		{"PBS", "7:memory:/pbs_jobs.service/jobid/123.server/x", match{manager: "pbs", id: "123.server"}},
		{"a machine container with any paths", "0::/lxc.payload.web/system.slice/slurmstepd.scope/job_1/step_0", match{manager: "lxc", id: "web"}},
		{"instead of a service", "0::/system.slice/shell-0-f23.service", match{manager: "flux", id: "f23"}},
		{"below a job", "0::/system.slice/slurmstepd.scope/job_1/step_0/shell-0-f23.service", match{manager: Slurm, id: "1"}},
		{"below a user", "0::/user.slice/user-1000.slice/user@1000.service/pbs_jobs.service/jobid/1", match{manager: User, id: "1000"}},
		{"below a pod", "0::" + podSlice + "/pbs_jobs.service/jobid/1", match{}},
	}
	p := parser{slices.Concat(patterns, BuiltInManagers()), podmapper.IsPod}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := p.parse(tt.file + "\n"); got != tt.want {
				t.Errorf("parse = %+v, want %+v", got, tt.want)
			}
		})
	}
	for _, s := range []string{"pbs", "=x", "slurm=/(x)", "pbs=/x", "pbs=/(a)(b)", "pbs=(", "PBS=/(x)"} {
		if err := patterns.Set(s); err == nil {
			t.Errorf("Set(%q) succeeded, want an error", s)
		}
	}
}

// FuzzParse checks that the owner of a process does not depend on the names of cgroups below a slice of users, a pod or
// a unit.
func FuzzParse(f *testing.F) {
	f.Add("/system.slice/slurmstepd.scope/job_1/step_0", "/slurmstepd.scope/job_2/step_0")
	f.Add("/user.slice/user-1000.slice", "/docker/"+containerID)
	f.Add("/lxc/x", podSlice)
	var patterns Patterns
	if err := patterns.Set(`pbs=/jobid/([^/]+)`); err != nil {
		f.Fatal(err)
	}
	p := parser{slices.Concat(patterns, BuiltInManagers()), podmapper.IsPod}
	f.Fuzz(func(t *testing.T, above, below string) {
		// Newlines are replaced, because a newline in the input would begin another line of the file. This line could
		// name another unit.
		above, below = strings.ReplaceAll(above, "\n", " "), strings.ReplaceAll(below, "\n", " ")
		m, ok := p.parse("0::" + above)
		if ok && (m.manager == "" || !validName(m.id)) {
			t.Errorf("%q is the unit %q of %q", above, m.id, m.manager)
		}
		for _, safe := range []match{
			{manager: Slurm, id: "1"}, {manager: User, id: "1000"}, {manager: Docker, id: containerID},
		} {
			path := map[string]string{Slurm: "/system.slice/slurmstepd.scope/job_1", User: "/user.slice/user-1000.slice", Docker: "/docker/" + containerID}[safe.manager]
			got, _ := p.parse("0::" + path + "/" + strings.TrimPrefix(below, "/"))
			if got.daemon = false; got != safe && !strings.HasSuffix(below, " (deleted)") {
				t.Errorf("a cgroup %q below %s is the unit %q of %q", below, path, got.id, got.manager)
			}
		}
	})
}

func FuzzTitle(f *testing.F) {
	f.Add("slurmstepd: [4711.batch]\x00")
	f.Add("slurmstepd: [4711.0 stepmgr]")
	f.Add("slurmstepd infinity")
	f.Fuzz(func(t *testing.T, title string) {
		if job := jobOfTitle(title); job != "" && !strings.HasPrefix(title, "slurmstepd: ["+job+".") {
			t.Errorf("job %q in the title %q", job, title)
		}
	})
}
