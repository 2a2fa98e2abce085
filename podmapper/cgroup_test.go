package podmapper

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unique"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/proc"
)

const (
	uid      = "3f1c2b9a-7d54-4e0b-9c66-0a1b2c3d4e5f"
	uidSlice = "3f1c2b9a_7d54_4e0b_9c66_0a1b2c3d4e5f" // UID in the form that systemd requires
	otherUID = "8a0e6d11-52c7-4f3e-b1aa-77c0ffee0001"
	hash     = "f2ca1bb6c7e907d06dafe4687e579fce" // UID of a static pod
)

var (
	id      = strings.Repeat("0123456789abcdef", 4)
	otherID = strings.Repeat("fedcba9876543210", 4)
)

func TestParseCgroup(t *testing.T) {
	inPod := cgroup{podUID: uid, containerID: id}
	onHost := cgroup{host: true}
	tests := []struct {
		name string
		file string
		want cgroup
	}{
		{"systemd v2 burstable", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope", inPod},
		{"systemd v2 best effort", "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope", inPod},
		{"systemd v2 guaranteed", "0::/kubepods.slice/kubepods-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope", inPod},
		{"systemd v1", "4:memory:/kubepods.slice/kubepods-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope\n1:name=systemd:/kubepods.slice/kubepods-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope\n", inPod},
		{"systemd cgroup of a child", "0::/kubepods.slice/kubepods-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope/init.scope", inPod},
		{"cri-o", "0::/kubepods.slice/kubepods-pod" + uidSlice + ".slice/crio-" + id + ".scope", inPod},
		{"cri-o nested", "0::/kubepods.slice/kubepods-pod" + uidSlice + ".slice/crio-" + id + ".scope/container", inPod},
		{"cri-o conmon", "0::/kubepods.slice/kubepods-pod" + uidSlice + ".slice/crio-conmon-" + id + ".scope", inPod},
		{"cri-o cgroupfs", "0::/kubepods/burstable/pod" + uid + "/crio-" + id, inPod},
		{"cgroupfs v2 guaranteed", "0::/kubepods/pod" + uid + "/" + id, inPod},
		{"cgroupfs v1 burstable", "4:memory:/kubepods/burstable/pod" + uid + "/" + id, inPod},
		{"cgroupfs v1 best effort", "9:cpu,cpuacct:/kubepods/besteffort/pod" + uid + "/" + id, inPod},
		{"cri-dockerd systemd", "0::/kubepods.slice/kubepods-pod" + uidSlice + ".slice/docker-" + id + ".scope", inPod},
		{"cri-dockerd cgroupfs", "0::/kubepods/burstable/pod" + uid + "/docker/" + id, inPod},
		{"systemd kubelet with cgroupfs runc", "0::/system.slice/containerd.service/kubepods-burstable-pod" + uidSlice + ".slice:cri-containerd:" + id, inPod},
		{"kind", "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope", inPod},
		{"kind seen from the host", "0::/docker/" + otherID + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope", inPod},
		{"docker in a container", "0::/kubepods/pod" + uid + "/" + id + "/docker/" + otherID, inPod},
		{"cluster in a container", "0::/kubepods/pod" + uid + "/" + id + "/kubepods/pod" + otherUID + "/" + otherID, inPod},
		{"private namespace, other pod", "0::/../../kubepods-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope", inPod},
		{"private namespace, other pod, cgroupfs", "0::/../../pod" + uid + "/" + id, inPod},
		{"private namespace, same pod", "0::/../cri-containerd-" + id + ".scope", cgroup{containerID: id}},
		{"private namespace, only parents", "0::/../..", cgroup{}},
		{"private namespace, host service", "0::/../../../system.slice/docker-" + id + ".scope", cgroup{host: true, containerID: id}},
		{"static pod", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + hash + ".slice/cri-containerd-" + id + ".scope", cgroup{podUID: hash, containerID: id}},
		{"pod's own cgroup", "0::/kubepods/pod" + uid, cgroup{podUID: uid}},
		{"dead", "0::/kubepods/pod" + uid + "/" + id + " (deleted)", inPod},
		{"kind, no root", "0::/docker/" + otherID + "/kubepods-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope", inPod},
		{"hybrid: v1 names the pod", "4:memory:/kubepods/pod" + uid + "/" + id + "\n0::/system.slice/containerd.service", inPod},
		{"hybrid: one line has no id", "4:memory:/kubepods/pod" + uid + "\n0::/kubepods/pod" + uid + "/" + id, inPod},

		{"hybrid: v2 names the pod", "1:name=systemd:/system.slice/containerd.service\n0::/kubepods/pod" + uid + "/" + id, inPod},
		{"v1, the kubelet uses some hierarchies", "12:rdma:/\n4:memory:/kubepods/pod" + uid + "/" + id + "\n3:cpu,cpuacct:/kubepods/pod" + uid + "/" + id + "\n1:name=systemd:/\n", inPod},
		{"escaped dashes", "0::/kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", `\x2d`) + ".slice/cri-containerd-" + id + ".scope", inPod},
		{"custom cgroup root", "0::/kubelet/kubepods/burstable/pod" + uid + "/" + id, inPod},
		{"cgroup root with dashes", "0::/my.slice/my-root.slice/my-root-kubepods.slice/my-root-kubepods-burstable.slice/my-root-kubepods-burstable-pod" + uidSlice + ".slice/crio-" + id + ".scope", inPod},
		{"kind, cgroup v1", "4:memory:/docker/" + otherID + "/kubelet/kubepods/besteffort/pod" + uid + "/" + id, inPod},
		{"private namespace, other class", "0::/../../../besteffort/pod" + uid + "/" + id, inPod},
		{"private namespace, guaranteed, cgroupfs", "0::/../../../pod" + uid + "/" + id, inPod},
		{"private namespace, static pod", "0::/../../kubepods-burstable-pod" + hash + ".slice/crio-" + id + ".scope", cgroup{podUID: hash, containerID: id}},
		{"gVisor", "0::/kubepods.slice/kubepods-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope", inPod},
		{"Kata", "0::/kubepods/burstable/pod" + uid + "/kata_" + id, inPod},
		{"Kata systemd", "0::/kubepods.slice/kubepods-pod" + uidSlice + ".slice/kata_" + id + ".scope", inPod},
		{"Kata overhead", "0::/kata_overhead/" + id, cgroup{containerID: id}},
		{"no cgroups for pods, containerd", "4:memory:/k8s.io/" + id, cgroup{containerID: id}},
		{"no cgroups for pods, systemd", "0::/system.slice/cri-containerd-" + id + ".scope", cgroup{containerID: id}},
		{"no cgroups for pods, cri-o", "0::/system.slice/crio-" + id + ".scope", cgroup{containerID: id}},
		{"Slurm in a container", "0::/kubepods.slice/kubepods-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", cgroup{podUID: uid, containerID: id}},
		{"Slurm in one hierarchy", "4:memory:/kubepods/pod" + uid + "/" + id + "/slurm/uid_1000/job_12/step_batch\n1:name=systemd:/kubepods/pod" + uid + "/" + id, cgroup{podUID: uid, containerID: id}},

		{"Slurm on the host", "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", onHost},
		{"Slurm on the host, second daemon", "0::/system.slice/node1_slurmstepd.scope/job_3/step_0", onHost},
		{"Slurm on the host, v1", "9:devices:/slurm/uid_1000/job_12/step_0\n1:name=systemd:/system.slice/slurmd.service", onHost},
		{"no Slurm job, at the root", "0::/job_12/step_0", onHost},
		{"no Slurm job, a number", "0::/system.slice/slurmstepd.scope/4711", onHost},
		{"no Slurm job", "0::/system.slice/job_12/step_0", onHost},
		{"Slurm job without a number", "0::/system.slice/slurmstepd.scope/job_x", onHost},
		{"user service", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-pod.slice/jupyter.service", onHost},
		{"rootless podman", "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope/container", cgroup{host: true, containerID: id}},
		{"kind in Docker with systemd", "0::/system.slice/docker-" + otherID + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope", inPod},
		{"kind in Podman", "0::/machine.slice/libpod-" + otherID + ".scope/container/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope", inPod},
		{"kind in nerdctl", "0::/default/" + otherID + "/kubelet/kubepods/pod" + uid + "/" + id, inPod},
		{"private namespace, above kubepods", "0::/../../../../kubepods.slice/kubepods-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope", inPod},
		{"no cgroups for pods, in kind", "0::/docker/" + otherID + "/k8s.io/" + id, cgroup{containerID: id}},

		{"service's cgroup with the name kubepods", "0::/system.slice/x.service/kubepods.slice", onHost},
		{"service's cgroup with the name of a runtime's cgroup", "0::/system.slice/x.service/k8s.io", onHost},
		{"cgroup with the name of a QoS class, at the root", "0::/burstable/pod" + uid, onHost},
		{"service's cgroup with the name of the exporter's level", "0::/system.slice/x.service/../pod" + uid, onHost},
		{"service's cgroup with the name of a pod's cgroup, v1", "4:memory:/\n1:name=systemd:/system.slice/x.service/kubepods/pod" + uid, onHost},
		{"pod inside a pod, both in kubepods", "0::/kubepods/kubepods/pod" + uid + "/" + id + "/kubepods/kubepods/pod" + otherUID + "/" + otherID, inPod},

		{"user's cgroup with the name of a pod's cgroup", "0::/user.slice/user-1000.slice/user@1000.service/kubepods.slice/kubepods-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope", cgroup{host: true, containerID: id}},
		{"user's cgroup with the name of a pod's cgroup, cgroupfs", "0::/user.slice/user-1000.slice/user@1000.service/kubepods/pod" + uid + "/x", onHost},
		{"user's cgroup with the name kubepods", "0::/user.slice/user-1000.slice/user@1000.service/kubepods.slice", onHost},
		{"user's cgroup with the name of a runtime's cgroup", "0::/user.slice/user-1000.slice/user@1000.service/cri-containerd-" + id + ".scope", cgroup{host: true, containerID: id}},
		{"user's cgroup with the name of a pod's cgroup, without user.slice", "0::/user@1000.service/app.slice/kubepods-pod" + uidSlice + ".slice", onHost},
		{"user's cgroup with the name of a pod's cgroup, private namespace", "0::/../../../user.slice/user-1000.slice/user@1000.service/kubepods-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope", cgroup{host: true, containerID: id}},
		{"user's cgroup with the name of a pod's cgroup, private namespace, cgroupfs", "0::/../../../../user.slice/user-1000.slice/user@1000.service/../pod" + uid, onHost},
		{"user's cgroup with the name of a pod's cgroup, v1", "4:memory:/\n1:name=systemd:/user.slice/user-1000.slice/user@1000.service/kubepods-pod" + uidSlice + ".slice", onHost},
		{"user's cgroup with the name of a pod's cgroup, in a container on the host", "0::/system.slice/docker-" + otherID + ".scope/user.slice/user-1000.slice/kubepods-pod" + uidSlice + ".slice", cgroup{host: true, containerID: otherID}},
		{"user's cgroup with the name of a Slurm job's cgroup", "0::/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_12/step_0", onHost},
		{"users in a pod", "0::/kubepods/pod" + uid + "/" + id + "/user.slice/user-1000.slice/session-1.scope", inPod},
		{"users in a container of the exporter's pod", "0::/../cri-containerd-" + id + ".scope/user.slice/user-0.slice", cgroup{containerID: id}},
		{"a user's cluster, seen from inside its cgroup namespace", "0::/kubelet/kubepods/pod" + uid + "/" + id, inPod},
		{"root", "0::/", onHost},
		{"host service", "0::/system.slice/sshd.service", onHost},
		{"host user", "0::/user.slice/user-1000.slice/session-3.scope", onHost},
		{"host podman, not a pod", "0::/system.slice/my-podman-thing.slice/x", onHost},
		{"host docker", "4:memory:/docker/" + id + "\n0::/", cgroup{host: true, containerID: id}},
		{"host libpod", "0::/machine.slice/libpod-" + id + ".scope", cgroup{host: true, containerID: id}},
		{"pod at the root", "0::/pod" + uid + "/" + id, cgroup{host: true, containerID: id}},
		{"container at the root", "0::/docker-" + id + ".scope", cgroup{host: true, containerID: id}},
		{"cgroup of a runtime, without a container", "0::/k8s.io/shim", onHost},
		{"not below kubepods", "0::/x/pod" + uid + "/" + id, cgroup{host: true, containerID: id}},

		{"no pod in kubepods", "0::/kubepods.slice/kubepods-burstable.slice", cgroup{}},
		{"no pod in kubepods, beside host", "4:memory:/kubepods.slice/kubepods-burstable.slice\n0::/system.slice/sshd.service", cgroup{}},
		{"pod below an unidentified pod", "0::/kubepods/pod3f1c2b9a/" + id + "/kubepods/pod" + uid + "/" + otherID, cgroup{}},
		{"UID too short", "0::/kubepods/pod3f1c2b9a/" + id, cgroup{}},
		{"UID not hexadecimal", "0::/kubepods.slice/kubepods-podg" + uidSlice[1:] + ".slice/" + id, cgroup{}},
		{"no UID", "0::/kubepods/burstable/pod/" + id, cgroup{}},
		{"container id too short", "0::/kubepods/pod" + uid + "/" + id[1:], cgroup{podUID: uid}},
		{"two pods", "4:memory:/kubepods/pod" + uid + "/" + id + "\n0::/kubepods/pod" + otherUID + "/" + id, cgroup{}},
		{"two pods, the last one twice", "4:memory:/kubepods/pod" + uid + "/" + id + "\n3:cpu:/kubepods/pod" + otherUID + "/" + id + "\n0::/kubepods/pod" + otherUID + "/" + id, cgroup{}},
		{"two containers", "4:memory:/kubepods/pod" + uid + "/" + id + "\n0::/kubepods/pod" + uid + "/" + otherID, cgroup{}},
		{"escaped dashes of a short UID", "0::/kubepods.slice/kubepods-pod3f1c2b9a\\x2d7d54.slice/" + id, cgroup{}},
		{"Slurm job without a pod", "0::/kubepods.slice/slurmstepd.scope/job_12", cgroup{}},
		{"empty", "", cgroup{}},
		{"no colon", "kubepods", cgroup{}},
		{"no hierarchy", "x::/", cgroup{}},
		{"relative path", "0::kubepods/pod" + uid + "/" + id, cgroup{}},
		{"malformed beside host", "garbage\n0::/system.slice/sshd.service", cgroup{}},
		{"malformed beside pod", "garbage\n0::/kubepods/pod" + uid + "/" + id, inPod},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseCgroup(tt.file)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(cgroup{})); diff != "" {
				t.Errorf("parseCgroup(%q) (-want +got):\n%s", tt.file, diff)
			}
			if (err != nil) != (got == cgroup{}) {
				t.Errorf("parseCgroup(%q) = %+v, %v, want a zero cgroup with an error", tt.file, got, err)
			}
		})
	}
}

// TestForgedCgroups checks that a process is not attributed to a pod if a user other than root may have created the
// process's cgroup.
func TestForgedCgroups(t *testing.T) {
	above := map[string]string{
		"service":                       "/system.slice/x.service",
		"service with a runtime's name": "/ml.slice/containerd.service",
		"service template":              `/system.slice/system-a\x2db.slice/a-b@kubelet.service`,
		"service in kubelet's slice":    "/kubelet.slice/kubelet-x.service",
		"scope":                         "/system.slice/run-u1.scope",
		"scope with the kubelet's name": "/system.slice/kubelet.scope",
		"LXC 3":                         "/lxc/web",
		"LXC":                           "/lxc.payload.web/system.slice",
		"LXC in a slice":                "/machine.slice/lxc-web.scope",
		"nspawn":                        "/machine.slice/systemd-nspawn@ai.service/payload",
		"virtual machine":               `/machine.slice/machine-qemu\x2d1\x2dvm.scope/libvirt`,
		"session":                       "/user.slice/user-1000.slice/session-3.scope",
		"user's service":                "/user.slice/user-1000.slice/user@1000.service/app.slice/docker-" + otherID + ".scope",
		"slice of users":                "/user.slice",
		"Slurm job":                     "/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0",
		"Slurm job, v1":                 "/slurm/uid_1001/job_12/step_0/task_0",
		"OpenPBS job":                   "/pbs_jobs.service/jobid/1234.pbs01",
		"Nomad task":                    "/nomad.slice/share.slice/5a1b2c3d-0000-1111-2222-333344445555.train.scope",
		"Podman in a service":           "/system.slice/ollama.service/libpod-payload-" + otherID,
		"container in a container":      "/system.slice/docker-" + otherID + ".scope/docker/" + id,
		"service in a container":        "/docker/" + otherID + "/system.slice/x.service",
		"unknown engine":                "/ml/" + otherID,
		"service at another level":      "/../../system.slice/x.service",
		"LXC at another level":          "/../lxc/web",
		"slice outside its parent":      "/machine.slice/kubelet.slice",
		"slice of services":             "/system.slice",
		"slice of machines":             "/machine.slice",
	}
	pods := map[string]string{
		"systemd":             "/kubepods.slice/kubepods-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope",
		"cgroupfs":            "/kubepods/burstable/pod" + uid + "/" + id,
		"kind":                "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + uidSlice + ".slice/crio-" + id + ".scope",
		"kubelet's root":      "/kubelet/kubepods/pod" + uid + "/" + id,
		"twice":               "/kubepods/kubepods/pod" + uid + "/" + id,
		"nested":              "/kubepods.slice/kubepods-pod" + uidSlice + ".slice/kubepods/pod" + uid + "/" + id,
		"without kubepods":    "/kubepods-pod" + uidSlice + ".slice/" + id,
		"three parts":         "/kubepods-pod" + uidSlice + ".slice:cri-containerd:" + id,
		"container of a pod":  "/x/cri-containerd-" + id + ".scope",
		"containerd":          "/x/k8s.io/" + id,
		"class":               "/burstable/pod" + uid + "/" + id,
		"below a Docker path": "/docker/x/kubepods/pod" + uid + "/" + id,
	}
	for place, prefix := range above {
		for form, path := range pods {
			t.Run(place+", "+form, func(t *testing.T) {
				if c, err := parseCgroup("0::" + prefix + path); err != nil || !c.host {
					t.Errorf("parseCgroup(%q) = %+v, %v, want the host", prefix+path, c, err)
				}
			})
		}
	}
}

// TestCgroupForgetsFile checks that a stored cgroup does not keep the content of the cgroup file in memory.
func TestCgroupForgetsFile(t *testing.T) {
	const files, size = 100, 64 << 10
	tree := proc.Tree{Root: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(tree.Root, "7"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) {
		if err := os.WriteFile(tree.File(7, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("stat", "7 (x) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0")
	var kept [files]unique.Handle[cgroup]
	before := heap()
	for i := range kept {
		write("cgroup", fmt.Sprintf("4:memory:/kubepods/pod%s/%064x%s", uid, i, strings.Repeat("/a", size/2)))
		_, c, err := readCgroup(tree, 7, proc.Stat{Start: 5})
		if err != nil {
			t.Fatal(err)
		}
		kept[i] = c
	}
	if grown := heap() - before; grown > size {
		t.Errorf("%d cgroups keep %d KiB in memory", files, grown>>10)
	}
	runtime.KeepAlive(kept)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func FuzzCgroup(f *testing.F) {
	f.Add("0::/kubepods.slice/kubepods-burstable-pod" + uidSlice + ".slice/cri-containerd-" + id + ".scope\n")
	f.Add("4:memory:/kubepods/besteffort/pod" + hash + "/" + id + "\n0::/\n")
	f.Add("0::/../cri-containerd-" + id + ".scope")
	f.Add("0::/system.slice/containerd.service/kubepods-pod" + uidSlice + ".slice:cri-containerd:" + id)
	f.Add("0::/docker/" + id)
	f.Add("0::/..")
	f.Add("0::/k8s.io/" + id + "/system.slice/slurmstepd.scope/job_12/step_0")
	f.Add("0::/kubepods/pod" + strings.ReplaceAll(uid, "-", `\x2d`) + "/kata_" + id)
	f.Fuzz(func(t *testing.T, file string) {
		below, _ := parseCgroup("0::/system.slice/x.service/" + strings.ReplaceAll(file, "\n", "/"))
		if !below.host {
			t.Errorf("%+v below a service, want the host", below)
		}
		c, err := parseCgroup(file)
		switch {
		case c.podUID != "" && !validUID(c.podUID):
			t.Errorf("UID %q is not well formed", c.podUID)
		case c.containerID != "" && !proc.IsContainerID(c.containerID):
			t.Errorf("container id %q is not well formed", c.containerID)
		case c.host && c.podUID != "":
			t.Errorf("%+v is both on the host and in a pod", c)
		case (err != nil) != (c == cgroup{}):
			t.Errorf("%+v with error %v", c, err)
		case c.podUID != "" && !strings.Contains(dashes.Replace(file), "pod"+c.podUID):
			t.Errorf("UID %q is not in the file", c.podUID)
		}
	})
}
