package unit_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/owner"
	"github.com/gpuledger/gpuledger/internal/proc"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/internal/unit"
	"github.com/gpuledger/gpuledger/podmapper"
)

const containerID = "3f4a9c0d1e2b5a697887766554433221100ffeeddccbbaa99887766554433221"

type machine struct {
	t   *testing.T
	dir string
	now time.Duration
	cfg unit.Config
	*unit.Mapper
	chain *owner.Chain
}

type pod struct{}

func (pod) Resolve(p owner.Process) func() owner.Answer {
	if !strings.Contains(p.Cgroup, "kubepods") {
		return nil
	}
	return func() owner.Answer {
		return owner.Answer{Owner: gpu.Owner{Kind: gpu.OwnerPod, Name: "slurmd-0"}, Final: true}
	}
}

func newMachine(t *testing.T, configure func(*unit.Config)) *machine {
	m := &machine{t: t, dir: t.TempDir(), now: time.Hour}
	clock := func() gpu.Instant { return gpu.Instant{Wall: time.Now().Add(m.now - time.Hour), Boot: m.now} }
	m.cfg = unit.Config{
		ProcFS: m.path("proc"), Managers: unit.Managers, Max: 5, Keep: 10 * time.Minute,
		HeldDirs: []string{m.path("held")}, DockerRoot: m.path("docker"), PodmanRoots: []string{m.path("podman")}, Passwd: m.path("passwd"),
		Now: clock, Log: slog.New(slog.DiscardHandler), Stages: stage.New(slog.New(slog.DiscardHandler), clock),
	}
	if configure != nil {
		configure(&m.cfg)
	}
	m.Mapper = unit.New(m.cfg)
	resolvers := []owner.Resolver{m.Mapper}
	if m.cfg.Pods != nil {
		resolvers = append(resolvers, m.cfg.Pods)
	}
	m.write("proc/stat", "btime 2000000000\n")
	m.chain = owner.NewChain(proc.Tree{Root: m.cfg.ProcFS}, clock, resolvers...)
	return m
}

func onKubernetes(c *unit.Config) {
	c.Managers, c.Pods, c.IsPod = []string{unit.Slurm}, pod{}, podmapper.IsPod
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

func (m *machine) write(name, content string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.path(name)), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.path(name), []byte(content), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) remove(name string) {
	m.t.Helper()
	if err := os.RemoveAll(m.path(name)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) start(pid int, comm, cgroup, title string) {
	dir := "proc/" + strconv.Itoa(pid) + "/"
	m.write(dir+"stat", fmt.Sprintf("%d (%s) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 %d 0 0", pid, comm, pid))
	m.write(dir+"cgroup", "0::"+cgroup+"\n")
	m.write(dir+"cmdline", title+"\x00")
	m.write(dir+"status", "Name:\t"+comm+"\nUid:\t1001\t1001\t1001\t1001\n")
}

func (m *machine) job(pid int, id, run string) {
	path := "/system.slice/slurmstepd.scope/" + run
	m.start(pid, "slurmstepd", path+"/step_batch/slurm", "slurmstepd: ["+id+".batch]")
	m.start(pid+1, "python3", path+"/step_batch/user/task_0", "python3")
}

func (m *machine) refresh() {
	m.t.Helper()
	if err := m.Refresh(m.t.Context()); err != nil {
		m.t.Error(err)
	}
}

// want is manager/unit, or the kind of another owner.
func (m *machine) want(pid uint32, want string) {
	m.t.Helper()
	p, _ := m.chain.Process(pid)
	got := p.Owner.UID
	if p.Owner.Kind != gpu.OwnerUnit {
		got = p.Owner.Kind.String()
	}
	if p.Unit != (gpu.Unit{}) {
		got += " with " + p.Unit.Owner().UID
	}
	if got != want {
		m.t.Errorf("process %d belongs to %s, want %s", pid, got, want)
	}
}

// want contains manager/unit for each GPU, followed by "dead" if the unit is not alive. "none" stands for a file
// without a live job.
func (m *machine) wantHeld(want ...string) {
	m.t.Helper()
	var got []string
	for _, a := range m.Allocations(gpu.Allocations{Known: true, Optional: true}).List {
		s := a.Owner.UID + " " + string(a.Sharing)
		if a.Owner.UID == "" && a.Declared {
			got = append(got, "none")
			continue
		}
		if !a.Live {
			s += " dead"
		}
		got = append(got, s)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		m.t.Errorf("holders (-want +got):\n%s", diff)
	}
}

// TestSLUID checks a job whose cgroup contains only a SLUID. The first request must find the job's id in the title of
// its daemon, without a poll.
func TestSLUID(t *testing.T) {
	m := newMachine(t, nil)
	m.job(10, "4711", "s8FXKTA79XAR00")
	m.want(11, "slurm/4711")
	m.refresh()
	want := gpu.UnitInfo{SLUID: "s8FXKTA79XAR00", UID: "1001"}
	if diff := cmp.Diff(want, m.Units()[gpu.Unit{Manager: "slurm", Name: "4711"}]); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
}

// TestSLUIDWithoutTitle checks a job whose SLUID becomes its name, because the id is unknown. The name must not change
// when the id becomes known, because a new name would be a new series.
func TestSLUIDWithoutTitle(t *testing.T) {
	m := newMachine(t, nil)
	m.job(10, "x", "s8FXKTA79XAR00")
	m.want(11, "pending")
	m.now += 6 * time.Second
	m.want(11, "slurm/s8FXKTA79XAR00")
	m.job(10, "4711", "s8FXKTA79XAR00")
	m.start(12, "python3", "/system.slice/slurmstepd.scope/s8FXKTA79XAR00/step_0/user/task_0", "")
	m.refresh()
	m.want(12, "slurm/s8FXKTA79XAR00")
}

// TestForgedTitle checks that a process cannot imitate the daemon of another job by changing its own title.
func TestForgedTitle(t *testing.T) {
	m := newMachine(t, nil)
	m.start(9, "slurmstepd", "/system.slice/slurmstepd.scope/s8FXKTA79XAR00/step_batch/user/task_0", "slurmstepd: [1.batch]")
	m.job(10, "4711", "s8FXKTA79XAR00")
	m.want(9, "slurm/4711")
	m.want(11, "slurm/4711")
}

// TestRequeue checks a requeued job with another SLUID. It must stay one unit, and must hold its GPU only while it
// runs.
func TestRequeue(t *testing.T) {
	m := newMachine(t, nil)
	m.write("held/0", "4711 1001\n")
	if err := os.Chtimes(m.path("held/0"), time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	m.job(10, "4711", "s8FXKTA79XAR00")
	m.refresh()
	m.want(11, "slurm/4711")
	m.wantHeld("slurm/4711 exclusive")
	m.remove("proc/10")
	m.remove("proc/11")
	m.wantHeld("slurm/4711 exclusive dead")
	m.refresh()
	m.wantHeld("none")
	m.now += time.Minute
	m.job(20, "4711", "s8FXKTB00000T5")
	m.refresh()
	m.want(21, "slurm/4711")
	m.wantHeld("slurm/4711 exclusive")
	if got := m.Units()[gpu.Unit{Manager: "slurm", Name: "4711"}].SLUID; got != "s8FXKTB00000T5" {
		t.Errorf("SLUID is %s, want the SLUID of the last run", got)
	}
}

// TestHeldBeforeFirstProcess checks that a job holds its GPU as soon as its prolog has run. The file must expire if the
// job never starts.
func TestHeldBeforeFirstProcess(t *testing.T) {
	m := newMachine(t, nil)
	m.write("held/0", "4711\n4712\n")
	m.refresh()
	m.wantHeld("slurm/4711 time-slicing", "slurm/4712 time-slicing")
	if a := m.Allocations(gpu.Allocations{Known: true, Optional: true}); a.Optional || a.Requested != m.now {
		t.Errorf("allocations requested at %v, optional %v, want required allocations", a.Requested, a.Optional)
	}
	m.now += time.Minute
	m.refresh()
	m.wantHeld("none", "none")
}

// TestJobInPod checks a job inside a pod. The pod must own the job's processes and hold the GPU. The answer must also
// name the job.
func TestJobInPod(t *testing.T) {
	const kubepods = "/kubepods.slice/kubepods-pod0a1b2c3d_0000_4000_8000_000000000001.slice/cri-containerd-" + containerID + ".scope"
	m := newMachine(t, onKubernetes)
	m.write("held/0", "4711\n")
	m.start(10, "slurmstepd", kubepods+"/system.slice/slurmstepd.scope/s8FXKTA79XAR00/step_0/slurm", "slurmstepd: [4711.0]")
	m.start(11, "python3", kubepods+"/system.slice/slurmstepd.scope/s8FXKTA79XAR00/step_0/user/task_0", "")
	m.start(12, "slurmd", kubepods, "")
	m.want(11, "pod with slurm/4711")
	m.want(12, "pod")
	m.refresh()
	m.wantHeld()
}

// TestKubernetesNode checks that only jobs are units on a Kubernetes node. No source may be read before the first job.
func TestKubernetesNode(t *testing.T) {
	m := newMachine(t, func(c *unit.Config) { onKubernetes(c); c.HeldDirs = nil })
	m.start(10, "ollama", "/system.slice/ollama.service", "")
	m.start(11, "python3", "/user.slice/user-1000.slice/session-1.scope", "")
	m.want(10, "host")
	m.want(11, "host")
	m.refresh()
	if got := m.cfg.Stages.Snapshot(); len(got) > 0 {
		t.Errorf("stages %v, want none", got)
	}
	m.job(20, "4711", "job_4711")
	m.want(21, "slurm/4711")
}

// TestContainers checks that a container is named by its id if the engine's files contain no name or an invalid name.
func TestContainers(t *testing.T) {
	m := newMachine(t, nil)
	other := strings.Replace(containerID, "3", "4", 1)
	evil := strings.Replace(containerID, "3", "5", 1)
	podman := strings.Replace(containerID, "3", "6", 1)
	m.write("docker/containers/"+containerID+"/config.v2.json", `{"Name":"/train","Config":{"Image":"vision:3","Labels":{"com.docker.compose.project":"vision"}}}`)
	m.write("docker/containers/"+containerID+"/hostconfig.json", `{"DeviceRequests":[{"Count":-1,"Capabilities":[["gpu"]]}]}`)
	m.write("docker/containers/"+evil+"/config.v2.json", `{"Name":"/a\nb"}`)
	m.write("docker/containers/"+evil+"/hostconfig.json", `{}`)
	m.write("podman/overlay-containers/containers.json", `[{"id":"`+podman+`","names":["labeler"]}]`)
	m.write("podman/overlay-containers/volatile-containers.json", `[]`)
	m.start(10, "python3", "/system.slice/docker-"+containerID+".scope", "")
	m.start(11, "python3", "/system.slice/docker-"+other+".scope", "")
	m.start(12, "python3", "/machine.slice/libpod-"+podman+".scope/container", "")
	m.start(13, "python3", "/docker/"+evil, "")
	for _, pid := range []uint32{10, 11, 13} {
		m.want(pid, "pending")
	}
	if err := m.Refresh(t.Context()); err == nil {
		t.Error("a container without files causes no error")
	}
	m.want(10, "docker/train")
	m.want(12, "podman/labeler")
	m.now += 6 * time.Second
	m.want(11, "docker/"+other[:12])
	m.want(13, "docker/"+evil[:12])
	m.wantHeld("docker/train exclusive")
}

// TestEqualNames checks that two containers from different engines keep their own images if they have the same name.
func TestEqualNames(t *testing.T) {
	m := newMachine(t, nil)
	podman := strings.Replace(containerID, "3", "6", 1)
	m.write("docker/containers/"+containerID+"/config.v2.json", `{"Name":"/web","Config":{"Image":"shop:1"}}`)
	m.write("docker/containers/"+containerID+"/hostconfig.json", `{}`)
	m.write("podman/overlay-containers/containers.json", `[{"id":"`+podman+`","names":["web"],"metadata":"{\"image-name\":\"blog:2\"}"}]`)
	m.start(10, "python3", "/system.slice/docker-"+containerID+".scope", "")
	m.start(11, "python3", "/machine.slice/libpod-"+podman+".scope/container", "")
	m.refresh()
	m.want(10, "docker/web")
	m.want(11, "podman/web")
	want := map[gpu.Unit]gpu.UnitInfo{
		{Manager: unit.Docker, Name: "web"}: {ContainerID: containerID, Image: "shop:1"},
		{Manager: unit.Podman, Name: "web"}: {ContainerID: podman, Image: "blog:2"},
	}
	for range 8 { // the order of the containers varies
		m.refresh()
		if diff := cmp.Diff(want, m.Units()); diff != "" {
			t.Fatalf("descriptions (-want +got):\n%s", diff)
		}
	}
}

// TestBrokenList checks that Podman's containers get their names as soon as the list of containers can be read.
func TestBrokenList(t *testing.T) {
	m := newMachine(t, nil)
	names := []string{"labeler", "tuner"}
	list := make([]string, len(names))
	m.write("podman/overlay-containers/containers.json", "[")
	m.write("podman/overlay-containers/volatile-containers.json", "[]")
	for i, name := range names {
		id := strings.Replace(containerID, "3", string(rune('6'+i)), 1)
		list[i] = `{"id":"` + id + `","names":["` + name + `"]}`
		m.start(10+i, "python3", "/machine.slice/libpod-"+id+".scope/container", "")
	}
	if err := m.Refresh(t.Context()); err == nil {
		t.Error("a broken list causes no error")
	}
	m.write("podman/overlay-containers/containers.json", "["+strings.Join(list, ",")+"]")
	if err := m.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	for i, name := range names {
		m.want(uint32(10+i), "podman/"+name)
	}
}

// TestPrivateNamespace checks services in a slice that the exporter's cgroup namespace hides. If services are units,
// the stage must report such a service while it runs. It must not report containers, users, or services in a visible
// slice.
func TestPrivateNamespace(t *testing.T) {
	tests := []struct {
		name, cgroup string
		managers     []string
		owner        string
		hidden       string // empty if there is none
	}{
		{"a service in the slice of the exporter", "/../ollama.service", unit.Managers, "host", "ollama.service"},
		{"a service below the exporter's slice", "/../ray.service/workers", unit.Managers, "host", "ray.service"},
		{"a service in a slice of its own", "/../../ml.slice/vllm.service", unit.Managers, "host", "vllm.service"},
		{"a service of the system", "/../../system.slice/ollama.service", unit.Managers, "systemd/ollama", ""},
		{"a user's service", "/../../user.slice/user-1000.slice/user@1000.service/app.slice/x.service", unit.Managers, "user/1000", ""},
		{"a user", "/../user@1000.service/app.slice/x.service", unit.Managers, "host", ""},
		{"a container", "/../docker-" + containerID + ".scope", unit.Managers, "pending", ""},
		{"a machine's service", "/../../machine.slice/systemd-nspawn@x.service/payload", unit.Managers, "machine/x", ""},
		{"init", "/../../init.scope", unit.Managers, "host", ""},
		{"services are not units", "/../ollama.service", []string{unit.Slurm}, "host", ""},
		{"no namespace", "/ollama.service", unit.Managers, "host", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t, func(c *unit.Config) { c.Managers = tt.managers })
			m.write("docker/containers/"+containerID+"/config.v2.json", `{"Name":"/train"}`)
			m.write("docker/containers/"+containerID+"/hostconfig.json", `{}`)
			m.start(10, "python3", tt.cgroup, "")
			m.want(10, tt.owner)
			for range 3 {
				m.now += 10 * time.Second
				err := m.Refresh(t.Context())
				if want := tt.hidden + " is in an unknown slice"; (err == nil) != (tt.hidden == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
					t.Errorf("error %v, want %q", err, tt.hidden)
				}
				for _, s := range m.cfg.Stages.Snapshot() {
					if s.Name == string(stage.Units) && s.Up != (tt.hidden == "") {
						t.Errorf("stage %+v", s)
					}
				}
			}
			m.remove("proc/10")
			m.refresh()
		})
	}
}

// TestLimit checks that all units of a manager above the limit have one common name. After other units have ended, new
// units must get their own names.
func TestLimit(t *testing.T) {
	m := newMachine(t, func(c *unit.Config) { c.HeldDirs = nil })
	for i := range 7 {
		m.start(10+i, "python3", fmt.Sprintf("/user.slice/user-%d.slice/session-1.scope", 1000+i), "")
	}
	for i := range 5 {
		m.want(uint32(10+i), fmt.Sprintf("user/%d", 1000+i))
	}
	m.want(15, "user/other")
	m.start(17, "ollama", "/system.slice/ollama.service", "")
	m.want(17, "systemd/other")
	m.refresh()
	m.remove("proc/10")
	m.now += 11 * time.Minute
	m.refresh()
	m.want(16, "user/1006")
}

func TestUsers(t *testing.T) {
	for users, want := range map[unit.Users]gpu.UnitInfo{
		unit.UsersUID:  {UID: "1001", Account: "physics"},
		unit.UsersName: {UID: "1001", User: "ada", Account: "physics"},
		unit.UsersNone: {Account: "physics"},
	} {
		m := newMachine(t, func(c *unit.Config) { c.Users = users })
		m.write("passwd", "root:x:0:0::/root:/bin/sh\nada:x:1001:1001::/home/ada:/bin/sh\nmalformed\n")
		m.write("held/jobs/4711", "account=physics\ngpus=0\n")
		m.job(10, "4711", "job_4711")
		m.want(11, "slurm/4711")
		m.refresh()
		if diff := cmp.Diff(want, m.Units()[gpu.Unit{Manager: "slurm", Name: "4711"}]); diff != "" {
			t.Errorf("users %v: info (-want +got):\n%s", users, diff)
		}
		session := "user/1000"
		if users == unit.UsersNone {
			session = "host"
		}
		m.start(12, "python3", "/user.slice/user-1000.slice/session-1.scope", "")
		m.want(12, session)
	}
}

// TestUnitsOfSilentKubelet checks that the mapper adds the allocations of units while the allocations of pods are
// unknown. If the live pods are known, it must also add the live units.
func TestUnitsOfSilentKubelet(t *testing.T) {
	m := newMachine(t, onKubernetes)
	m.write("held/0", "4711\n")
	m.job(10, "4711", "job_4711")
	if got := m.Allocations(gpu.Allocations{Known: true, Alive: map[string]bool{"pod": true}}); got.Known || got.Alive != nil {
		t.Errorf("allocations before the first poll of units: %+v, want unknown allocations and no list of live groups", got)
	}
	m.refresh()
	want := map[string]bool{"pod": true, "slurm/4711": true}
	got := m.Allocations(gpu.Allocations{Alive: map[string]bool{"pod": true}})
	if diff := cmp.Diff(want, got.Alive); diff != "" {
		t.Errorf("live groups (-want +got):\n%s", diff)
	}
	if len(got.List) != 1 || got.List[0].Owner.UID != "slurm/4711" || !got.List[0].Live {
		t.Errorf("allocations %+v, want only the allocation of job 4711", got.List)
	}
	if got := m.Allocations(gpu.Allocations{}).Alive; got != nil {
		t.Errorf("live groups before the first poll of pods: %v, want nil, which means unknown", got)
	}
}
