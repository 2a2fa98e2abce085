package simnode_test

import (
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

func sysFile(t *testing.T, n *simnode.Node, path ...string) string {
	t.Helper()
	return strings.TrimSuffix(content(t, n, filepath.Join("sys", filepath.Join(path...))), "\n")
}

func ofGPU(g *simnode.GPU, file string) string {
	return filepath.Join("bus/pci/devices", strings.ToLower(strings.TrimPrefix(g.Bus, "0000")), file)
}

func amdGPUs(t *testing.T, scenario string, do func(g *simnode.GPU)) {
	t.Helper()
	sc, err := simnode.Lookup(scenario)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for i := range sc.GPUs {
		if sc.GPUs[i].AMD != nil {
			do(&sc.GPUs[i])
			count++
		}
	}
	if count == 0 {
		t.Error("no AMD GPU")
	}
}

// TestGPUMetrics decodes gpu_metrics according to the kernel's layouts and compares the values with the truth.
func TestGPUMetrics(t *testing.T) {
	for _, tt := range []struct {
		scenario                    string
		size, power, busy, busySums int
	}{
		{"mi300x", 2208, 10, 12, 76}, {"mixed", 120, 22, 16, 80},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			n := open(t, tt.scenario)
			run(t, n, 0, 3*time.Second, 100*time.Millisecond)
			rows := history(t, n)
			last, before := rows[len(rows)-1], rows[len(rows)-2]
			amdGPUs(t, tt.scenario, func(g *simnode.GPU) {
				m := []byte(content(t, n, filepath.Join("sys", ofGPU(g, "gpu_metrics"))))
				revision := strconv.Itoa(int(m[2])) + "." + strconv.Itoa(int(m[3]))
				if len(m) != tt.size || int(binary.NativeEndian.Uint16(m)) != tt.size || revision != g.AMD.Metrics {
					t.Fatalf("%s: revision %s, %d bytes", g.UUID, revision, len(m))
				}
				energy := binary.NativeEndian.Uint64(m[24:])
				truth := last.GPU(g.UUID)
				if mJ := gpu.Millijoules(energy * 1000 / 65536); mJ != *truth.Counter || mJ-g.Counter != truth.Energy {
					t.Errorf("%s: counter is %d mJ, but the truth is %d and %d since the start", g.UUID, mJ, *truth.Counter, truth.Energy)
				}
				power := int(binary.NativeEndian.Uint16(m[tt.power:]))
				if want := int(truth.Energy-before.GPU(g.UUID).Energy) * 10 / 1000; power != want {
					t.Errorf("%s: power is %d W, want %d", g.UUID, power, want)
				}
				// The firmware adds one sample per millisecond to the activity sum.
				busy, sum := int(binary.NativeEndian.Uint16(m[tt.busy:])), int(binary.NativeEndian.Uint32(m[tt.busySums:]))
				if busy > 100 || sum > 100*3000 || busy > 0 != (sum > 0) {
					t.Errorf("%s: %d %% busy, sum %d", g.UUID, busy, sum)
				}
			})
		})
	}
}

func TestPartitionActivity(t *testing.T) {
	n := open(t, "mi300x")
	run(t, n, 0, 2*time.Second, time.Second)
	sc, err := simnode.Lookup("mi300x")
	if err != nil {
		t.Fatal(err)
	}
	divided := &sc.GPUs[7]
	m := []byte(content(t, n, filepath.Join("sys", ofGPU(divided, "gpu_metrics"))))
	var got []uint64
	for p := range 8 {
		got = append(got, binary.NativeEndian.Uint64(m[344+232*p+104:]))
		if second := binary.NativeEndian.Uint64(m[344+232*p+104+8:]); second != 1<<64-1 {
			t.Errorf("partition %d has a second die, %d", p, second)
		}
	}
	if diff := cmp.Diff([]uint64{40 * 2000, 80 * 2000, 75 * 2000, 0, 0, 0, 0, 0}, got); diff != "" {
		t.Errorf("sums by partition (-want +got):\n%s", diff)
	}
	samples, whole := binary.NativeEndian.Uint32(m[40:]), binary.NativeEndian.Uint32(m[76:])
	if samples != 2000 || whole != 2000*(40+80+75)/8 {
		t.Errorf("%d samples, their sum %d", samples, whole)
	}
}

func TestErrorCounts(t *testing.T) {
	n := open(t, "mi300x")
	run(t, n, 0, 9*time.Second, time.Second)
	sc, err := simnode.Lookup("mi300x")
	if err != nil {
		t.Fatal(err)
	}
	for i := range sc.GPUs {
		g, want := &sc.GPUs[i], "ue: 0\nce: 0\nde: 0"
		if i == 2 {
			want = "ue: 0\nce: 2\nde: 0"
		}
		if got := sysFile(t, n, ofGPU(g, "ras/umc_err_count")); got != want {
			t.Errorf("%s: umc %q, want %q", g.UUID, got, want)
		}
		if got := sysFile(t, n, ofGPU(g, "ras/gfx_err_count")); got != "ue: 0\nce: 0" {
			t.Errorf("%s: gfx %q", g.UUID, got)
		}
	}
}

// TestCards checks the links between a GPU's card, its PCI device, its driver and the devices of its parts.
func TestCards(t *testing.T) {
	n := open(t, "mi300x")
	sys := filepath.Join(n.Dir(), "sys")
	next := 1
	amdGPUs(t, "mi300x", func(g *simnode.GPU) {
		device, err := filepath.EvalSymlinks(filepath.Join(sys, ofGPU(g, "")))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{
			"class/drm/card" + strconv.Itoa(next) + "/device", "class/drm/renderD" + strconv.Itoa(127+next) + "/device",
			"bus/pci/drivers/amdgpu/" + filepath.Base(device),
		} {
			if to, err := filepath.EvalSymlinks(filepath.Join(sys, path)); err != nil || to != device {
				t.Errorf("%s is %s, %v, want %s", path, to, err, device)
			}
		}
		if id := sysFile(t, n, ofGPU(g, "unique_id")); id != g.UUID || !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(id) {
			t.Errorf("unique_id is %s, want %s", id, g.UUID)
		}
		next += g.AMD.Dies
	})
	to, err := filepath.EvalSymlinks(filepath.Join(sys, "class/drm/card16/device"))
	if err != nil || filepath.Base(to) != "amdgpu_xcp_13" {
		t.Errorf("card16 is %s, %v, want the last part of the second GPU", to, err)
	}
}

// kfdProcesses returns the names of the files that describe a process in amdkfd's directory, by PID and topology node.
func kfdProcesses(t *testing.T, n *simnode.Node) map[string]map[string]string {
	t.Helper()
	root := filepath.Join(n.Dir(), "sys/class/kfd/kfd/proc") + "/"
	out := make(map[string]map[string]string)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		value, err := os.ReadFile(path)
		pid, file, _ := strings.Cut(strings.TrimPrefix(path, root), "/")
		if out[pid] == nil {
			out[pid] = make(map[string]string)
		}
		out[pid][file] = strings.TrimSpace(string(value))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// amdkfd must list the processes in the truth, with the topology nodes that each process uses. It must also list a
// monitoring program, although this program has no queues. It must not list any other process.
func TestKFD(t *testing.T) {
	n := open(t, "mi300x")
	run(t, n, 0, time.Second, time.Second)
	nodes, _ := filepath.Glob(filepath.Join(n.Dir(), "sys/class/kfd/kfd/topology/nodes/*")) // the pattern is valid
	ids := make(map[string]bool)
	for _, node := range nodes {
		id, err := os.ReadFile(filepath.Join(node, "gpu_id"))
		if err != nil {
			t.Fatal(err)
		}
		ids[strings.TrimSpace(string(id))] = true
	}
	if len(nodes) != 2+7+8 || len(ids) != 1+7+8 {
		t.Errorf("%d nodes, ids %v", len(nodes), ids)
	}
	rows := history(t, n)
	// used contains the number of GPUs that each process uses, by PID.
	used := make(map[string]int)
	for _, g := range rows[len(rows)-1].GPUs {
		for _, p := range g.Processes {
			used[strconv.Itoa(int(p.PID))]++
		}
	}
	monitors := 0
	for pid, files := range kfdProcesses(t, n) {
		queues, memory := 0, 0
		for name, value := range files {
			part := strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '/' })
			switch {
			case strings.HasSuffix(name, "/gpuid") && ids[value]:
				queues++
			case part[0] == "vram" && ids[part[1]] && value != "0":
				memory++
			}
		}
		if queues != memory {
			t.Errorf("process %s has %d queues and memory on %d nodes", pid, queues, memory)
		}
		if queues == 0 {
			monitors++
			continue
		}
		if used[pid] == 0 {
			t.Errorf("process %s is not in the truth", pid)
		}
		delete(used, pid)
	}
	if monitors != 1 || len(used) > 0 {
		t.Errorf("%d processes without queues; not listed: %v", monitors, used)
	}
}

// A process must occupy all compute units of its GPU or partition for part of the time. Two processes must never occupy
// one GPU or partition at the same time.
func TestOccupancy(t *testing.T) {
	n := open(t, "mi300x")
	seen := make(map[string]map[string]int) // number of steps by node and compute units
	for i := 1; i <= 50; i++ {
		if err := n.Step(after(time.Duration(i) * 100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		paths, _ := filepath.Glob(filepath.Join(n.Dir(), "sys/class/kfd/kfd/proc/*/stats_*/cu_occupancy")) // the pattern is valid
		busy := make(map[string]bool)
		for _, path := range paths {
			node := filepath.Base(filepath.Dir(path))
			units, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if seen[node] == nil {
				seen[node] = make(map[string]int)
			}
			if u := strings.TrimSpace(string(units)); u != "0" {
				if busy[node] {
					t.Fatalf("two processes occupy %s", node)
				}
				busy[node] = true
				seen[node][u]++
			}
		}
	}
	whole, parts, idle := 0, 0, 0
	for node, steps := range seen {
		switch {
		case len(steps) == 0:
			idle++
		case len(steps) == 1 && steps["304"] > 0:
			whole++
		case len(steps) == 1 && steps["38"] > 10:
			parts++
		default:
			t.Errorf("%s: %v", node, steps)
		}
	}
	if whole != 6 || parts != 3 || idle != 1 {
		t.Errorf("%d whole GPUs, %d partitions and %d idle nodes, want 6, 3 and 1", whole, parts, idle)
	}
}

// amdkfd must no longer list a process after its pod has ended.
func TestProcessOfKFDEnds(t *testing.T) {
	sc, err := simnode.Lookup("mixed")
	if err != nil {
		t.Fatal(err)
	}
	for i := range sc.Pods {
		if sc.Pods[i].Name == "compare-0" {
			sc.Pods[i].Until = 2 * time.Second
		}
	}
	n := openScenario(t, sc)
	if listed := kfdProcesses(t, n); len(listed) != 1 {
		t.Errorf("processes %v, want one", listed)
	}
	run(t, n, 0, 2100*time.Millisecond, 100*time.Millisecond)
	if listed := kfdProcesses(t, n); len(listed) != 0 {
		t.Errorf("processes %v after the end of the pod", listed)
	}
}

func TestDevicesOfAMD(t *testing.T) {
	held := devices(t, open(t, "mi300x"))
	want := map[string][]string{
		"chat-0":     {"amd.com/spx_nps1 0000:85:00.0"},
		"notebook-0": {"amd.com/cpx_nps1 0000:e5:00.0"},
		"embed-0":    {"amd.com/cpx_nps1 amdgpu_xcp_49", "amd.com/cpx_nps1 amdgpu_xcp_50"},
	}
	for pod, ids := range want {
		if diff := cmp.Diff(ids, held[pod]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", pod, diff)
		}
	}
	if rocm := devices(t, open(t, "mixed"))["compare-0"]; len(rocm) != 2 || rocm[0] != "amd.com/gpu 0000:a3:00.0" {
		t.Errorf("mixed: %v", rocm)
	}
}

// A reader of a hanging file must wait until the fault is cleared. Then the file must be readable.
func TestHungFile(t *testing.T) {
	n := open(t, "mixed")
	sc, err := simnode.Lookup("mixed")
	if err != nil {
		t.Fatal(err)
	}
	g := &sc.GPUs[2]
	path := filepath.Join(n.Dir(), "sys", ofGPU(g, "gpu_metrics"))
	if err := n.SetFaults(simnode.Fault{GPU: g.UUID, Call: "gpu_metrics", Do: "hang"}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Fatalf("%v, %v, want a FIFO", info, err)
	}
	read := make(chan []byte)
	go func() {
		m, _ := os.ReadFile(path) // the content of a FIFO is empty
		read <- m
	}()
	run(t, n, 0, time.Second, 100*time.Millisecond)
	if err := n.ClearFaults(); err != nil {
		t.Fatal(err)
	}
	if m := <-read; len(m) != 0 && len(m) != 120 {
		t.Errorf("the reader got %d bytes", len(m))
	}
	if m := sysFile(t, n, ofGPU(g, "gpu_metrics")); len(m) != 120 {
		t.Errorf("gpu_metrics has %d bytes", len(m))
	}
}

func TestFaultyFile(t *testing.T) {
	n := open(t, "mixed")
	err := n.SetFaults(
		simnode.Fault{GPU: "*", Call: "gpu_metrics", Do: "blank"},
		simnode.Fault{GPU: "*", Call: "hwmon/hwmon0/power1_average", Do: "drop"})
	if err != nil {
		t.Fatal(err)
	}
	amdGPUs(t, "mixed", func(g *simnode.GPU) {
		if m := content(t, n, filepath.Join("sys", ofGPU(g, "gpu_metrics"))); m != strings.Repeat("\xff", 120) {
			t.Errorf("gpu_metrics is %q", m)
		}
		if _, err := os.Stat(filepath.Join(n.Dir(), "sys", ofGPU(g, "hwmon/hwmon0/power1_average"))); !os.IsNotExist(err) {
			t.Errorf("power1_average: %v, want it missing", err)
		}
	})
	if err := n.ClearFaults(); err != nil {
		t.Fatal(err)
	}
	amdGPUs(t, "mixed", func(g *simnode.GPU) {
		if power := number(t, sysFile(t, n, ofGPU(g, "hwmon/hwmon0/power1_average"))); power < 40e6 {
			t.Errorf("power is %v µW", power)
		}
	})
}

func TestAMDRefuses(t *testing.T) {
	sc, err := simnode.Lookup("mixed")
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(g *simnode.GPU){
		"revision 2.0":     func(g *simnode.GPU) { g.AMD.Metrics = "2.0" },
		"have no replicas": func(g *simnode.GPU) { g.Replicas = 2 },
		"0 dies":           func(g *simnode.GPU) { g.AMD.Dies = 0 },
		"fall off the b":   func(*simnode.GPU) { sc.Events = []simnode.Event{{Do: simnode.FallOff, GPU: 3}} },
	} {
		other := sc
		other.GPUs = append([]simnode.GPU(nil), sc.GPUs...)
		g := &other.GPUs[3]
		g.AMD = new(*g.AMD)
		change(g)
		other.Events = sc.Events
		sc.Events = nil
		n, err := simnode.Open(t.TempDir(), other, start)
		if err == nil {
			n.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open = %v, want an error with %q", err, want)
		}
	}
}
