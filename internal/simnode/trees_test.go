package simnode_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/sysfs"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

var podCgroup = regexp.MustCompile(`^/kubepods\.slice/(kubepods-(burstable|besteffort)\.slice/)?kubepods-((burstable|besteffort)-)?pod[0-9a-f_]{36}\.slice/cri-containerd-[0-9a-f]{64}\.scope(/kubepods\.slice/.*)?$`)

func TestProcIsReadable(t *testing.T) {
	for _, sc := range simnode.Scenarios() {
		t.Run(sc.Name, func(t *testing.T) {
			n := open(t, sc.Name)
			run(t, n, 0, 3*time.Second, 100*time.Millisecond)
			fs, err := procfs.NewFS(filepath.Join(n.Dir(), "proc"))
			if err != nil {
				t.Fatal(err)
			}
			processes, err := fs.AllProcs()
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range processes {
				checkProcess(t, n, p)
			}
			if _, err := fs.Self(); err != nil {
				t.Errorf("the tree has no exporter process: %v", err)
			}
		})
	}
}

// checkProcess reads /proc with the exporter's library.
func checkProcess(t *testing.T, n *simnode.Node, p procfs.Proc) {
	t.Helper()
	stat, err := p.Stat()
	if err != nil {
		t.Fatalf("process %d: %v", p.PID, err)
	}
	comm, err := p.Comm()
	if err != nil {
		t.Fatal(err)
	}
	if stat.PID != p.PID || stat.Comm != comm || stat.Starttime > uint64((start.Boot+3*time.Second)/(10*time.Millisecond)) {
		t.Errorf("process %d (%s): stat is %+v", p.PID, comm, stat)
	}
	cgroups, err := p.Cgroups()
	if err != nil || len(cgroups) == 0 {
		t.Fatalf("process %d: cgroups %v, error %v; want at least one", p.PID, cgroups, err)
	}
	path := cgroups[0].Path
	if p.PID == 1 && path != "/init.scope" && comm != "gpuledger" {
		t.Errorf("PID 1 has the cgroup %s", path)
	}
	if strings.HasPrefix(path, "/kubepods") && !podCgroup.MatchString(path) {
		t.Errorf("process %d has the cgroup %s", p.PID, path)
	}
	line, err := os.ReadFile(filepath.Join(n.Dir(), "proc", strconv.Itoa(p.PID), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	if rest := string(line)[strings.LastIndex(string(line), ")")+1:]; len(strings.Fields(rest)) != 50 {
		t.Errorf("stat of %d has %d fields after the name, want 50", p.PID, len(strings.Fields(rest)))
	}
}

// The exporter must be in the initial PID namespace. In a scenario with private PIDs, it must be the only process in
// its own PID namespace.
func TestPIDNamespace(t *testing.T) {
	for _, sc := range simnode.Scenarios() {
		t.Run(sc.Name, func(t *testing.T) {
			n := open(t, sc.Name)
			proc := filepath.Join(n.Dir(), "proc")
			namespace, err := os.Readlink(filepath.Join(proc, "self/ns/pid"))
			if err != nil {
				t.Fatal(err)
			}
			fs, err := procfs.NewFS(proc)
			if err != nil {
				t.Fatal(err)
			}
			processes, err := fs.AllProcs()
			if err != nil {
				t.Fatal(err)
			}
			alone := len(processes) == 1 && processes[0].PID == 1
			listed := len(driverState(t, n)["process"])
			if sc.Name != "no-hostpid" {
				kfd, _ := filepath.Glob(filepath.Join(n.Dir(), "sys/class/kfd/kfd/proc/*")) // the pattern is valid
				if listed += len(kfd); namespace != "pid:[4026531836]" || alone || listed == 0 {
					t.Errorf("PID namespace %s with %d processes, %d on GPUs; want the initial namespace", namespace, len(processes), listed)
				}
				return
			}
			if namespace == "pid:[4026531836]" || !alone || listed != 0 {
				t.Errorf("PID namespace %s with %d processes, %d on GPUs; want a namespace with a single process", namespace, len(processes), listed)
			}
			if used := driverState(t, n)["gpu"][0]["memory_used"]; number(t, used) < 70<<30 {
				t.Errorf("used memory is %s bytes, want at least 70 GiB", used)
			}
		})
	}
}

// /proc must contain the processes that the driver reports. Their start times must agree with the truth and the boot
// time.
func TestProcessesAgree(t *testing.T) {
	n := open(t, "dgx-h100")
	run(t, n, 0, time.Second, time.Second)
	fs, err := procfs.NewFS(filepath.Join(n.Dir(), "proc"))
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := fs.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if boot := start.Wall.Add(-start.Boot).Unix(); int64(kernel.BootTime) != boot {
		t.Errorf("btime %d, want %d", kernel.BootTime, boot)
	}
	names := make(map[string]bool)
	row := history(t, n)[10]
	for _, g := range row.GPUs {
		for _, p := range g.Processes {
			proc, err := fs.Proc(int(p.PID))
			if err != nil {
				t.Fatal(err)
			}
			stat, err := proc.Stat()
			if err != nil {
				t.Fatal(err)
			}
			names[stat.Comm] = true
			if got := (gpu.ProcessID{PID: p.PID, Start: stat.Starttime}); got != p.ProcessID || stat.Comm != p.Command {
				t.Errorf("/proc has %v %q, but the truth has %v %q", got, stat.Comm, p.ProcessID, p.Command)
			}
		}
	}
	if !names[`re"rank) R (1 2`] {
		t.Errorf("no process has a name with special characters: %v", names)
	}
}

func TestBootID(t *testing.T) {
	n := open(t, "idle")
	id, err := os.ReadFile(filepath.Join(n.Dir(), "proc/sys/kernel/random/boot_id"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\n$`).Match(id) {
		t.Errorf("boot_id is %q", id)
	}
}

func TestSysIsReadable(t *testing.T) {
	for _, sc := range simnode.Scenarios() {
		t.Run(sc.Name, func(t *testing.T) {
			n := open(t, sc.Name)
			fs, err := sysfs.NewFS(filepath.Join(n.Dir(), "sys"))
			if err != nil {
				t.Fatal(err)
			}
			devices, err := fs.PciDevices()
			if err != nil {
				t.Fatal(err)
			}
			gpus := len(sc.GPUs)
			for _, d := range sc.Devices {
				if d.Vendor == "0x10de" && strings.HasPrefix(d.Class, "0x03") {
					gpus++
				}
			}
			for _, d := range devices {
				if d.Vendor == 0x10de && d.Class>>16 == 0x03 || d.Vendor == 0x1002 {
					gpus--
				}
			}
			if gpus != 0 || len(devices) != len(sc.GPUs)+len(sc.Devices) {
				t.Errorf("%d GPUs are missing; %d PCI devices, want %d", gpus, len(devices), len(sc.GPUs)+len(sc.Devices))
			}
			dmi, err := fs.DMIClass()
			if err != nil {
				t.Fatal(err)
			}
			if dmi.ProductSerial == nil || *dmi.ProductSerial != sc.DMI["product_serial"] {
				t.Errorf("product serial is %v", dmi.ProductSerial)
			}
		})
	}
}

func TestLogLinks(t *testing.T) {
	n := open(t, "dgx-h100")
	dir := filepath.Join(n.Dir(), "log", "containers")
	links, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	target := regexp.MustCompile(`^/var/log/pods/([a-z-]+)_([a-z0-9-]+)_[0-9a-f-]{36}/([a-z-]+)/0\.log$`)
	var got []string
	for _, l := range links {
		to, err := os.Readlink(filepath.Join(dir, l.Name()))
		if err != nil {
			t.Fatal(err)
		}
		m := target.FindStringSubmatch(to)
		if m == nil {
			t.Fatalf("the target of link %s is %s", l.Name(), to)
		}
		prefix := m[2] + "_" + m[1] + "_" + m[3] + "-"
		id, ok := strings.CutPrefix(l.Name(), prefix)
		if !ok || !regexp.MustCompile(`^[0-9a-f]{64}\.log$`).MatchString(id) {
			t.Errorf("the name of link %s does not match its target %s", l.Name(), to)
		}
		got = append(got, prefix)
	}
	want := []string{
		"chat-0_serving_proxy-", "chat-0_serving_server-", "finetune-7b_research_worker-",
		"nvidia-device-plugin-daemonset-x7k2p_kube-system_gpuledger-",
		"nvidia-device-plugin-daemonset-x7k2p_kube-system_nvidia-device-plugin-ctr-",
		"pretrain-0_research_trainer-",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}
