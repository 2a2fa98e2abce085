package nvml_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/nvml"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// callTimeout is short, since tests wait for it, and long enough for a busy
// machine to make a dozen calls of a fake.
const callTimeout = 400 * time.Millisecond

// libraryPath is the fake driver library.
var libraryPath string

func TestMain(m *testing.M) {
	if path := os.Getenv(oldLibrary); path != "" {
		printReport(path)
		return
	}
	dir, err := os.MkdirTemp("", "nvml")
	if err != nil {
		panic(err)
	}
	if libraryPath, err = fakes.Compile(dir); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// A driver is the fake driver: the node it is, and whatever else its state file
// can say.
type driver struct {
	t    *testing.T
	path string
	node gputest.Node
	// extra lines, and extra fields of the gpu records.
	lines  []string
	fields map[string]string // by UUID, tab separated

	said   bytes.Buffer // what the last source that was opened logs
	stages *stage.Set   // what it tells of its stages
}

// newDriver makes the fake library that this process loads be the node.
func newDriver(t *testing.T, n gputest.Node) *driver {
	dir := t.TempDir()
	d := &driver{t: t, path: filepath.Join(dir, "state"), node: n, fields: map[string]string{}}
	t.Setenv("GPULEDGER_FAKE_NVML_STATE", d.path)
	t.Setenv("GPULEDGER_FAKE_NVML_LOG", filepath.Join(dir, "log"))
	d.write()
	return d
}

// open returns a source that reads the driver, and closes it with the test.
func (d *driver) open(now gpu.Clock) *nvml.Source {
	d.stages = stage.New(slog.New(slog.DiscardHandler), now)
	s := nvml.New(nvml.Config{
		LibraryPath: libraryPath, CallTimeout: callTimeout, Now: now,
		Log: slog.New(slog.NewTextHandler(&d.said, nil)), Stages: d.stages,
	})
	d.t.Cleanup(func() {
		d.change(gputest.Node{Loads: d.node.Loads}) // no call is stuck, no driver is gone
		if err := s.Close(time.Minute); err != nil && !strings.Contains(err.Error(), "nvmlShutdown: ") {
			d.t.Error(err)
		}
		if n := d.calls("nvmlShutdown"); n > 0 && d.last() != "nvmlShutdown" {
			d.t.Errorf("%s was called after the driver was shut down", d.last())
		}
	})
	return s
}

// change makes the driver another node, without anything extra.
func (d *driver) change(n gputest.Node) {
	d.node, d.lines, d.fields = n, nil, map[string]string{}
	d.write()
}

// fault adds a directive.
func (d *driver) fault(uuid, call, do string) {
	d.lines = append(d.lines, fmt.Sprintf("fault\tgpu=%s\tcall=%s\tdo=%s", uuid, call, do))
	d.write()
}

// healed removes all extra lines.
func (d *driver) healed() {
	d.lines = nil
	d.write()
}

func (d *driver) add(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
	d.write()
}

func (d *driver) write() {
	d.t.Helper()
	loaded := 1
	if d.node.Down {
		loaded = 0
	}
	lines := []string{fmt.Sprintf("driver\tversion=570.86.15\tnvml=12.570.86.15\tgeneration=%d\tloaded=%d", d.node.Loads, loaded)}
	for _, g := range d.node.GPUs {
		lines = append(lines, gpuRecords(g)...)
		if extra := d.fields[g.Device.UUID]; extra != "" {
			for i, l := range lines {
				if strings.HasPrefix(l, "gpu\tuuid="+g.Device.UUID) {
					lines[i] += "\t" + extra
				}
			}
		}
	}
	lines = append(lines, d.lines...)
	next := d.path + ".next"
	if err := os.WriteFile(next, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(next, d.path); err != nil {
		d.t.Fatal(err)
	}
}

// calls returns how often a function was called.
func (d *driver) calls(function string) int {
	return strings.Count(d.log(), "\t"+function+"\t")
}

// last returns the function that was called last.
func (d *driver) last() string {
	log := d.log()
	line := log[strings.LastIndexByte(strings.TrimSuffix(log, "\n"), '\n')+1:]
	return strings.Split(line, "\t")[1]
}

func (d *driver) log() string {
	log, _ := os.ReadFile(filepath.Join(filepath.Dir(d.path), "log"))
	return string(log)
}

// await waits until a function was called that often.
func (d *driver) await(function string, calls int) {
	d.t.Helper()
	deadline := time.After(20 * time.Second)
	for d.calls(function) < calls {
		select {
		case <-deadline:
			d.t.Fatalf("waited in vain for call %d of %s", calls, function)
		case <-time.After(time.Millisecond):
		}
	}
}

// gpuRecords writes a GPU as the state file has it.
func gpuRecords(g gputest.GPU) []string {
	f := []string{"gpu", "uuid=" + g.Device.UUID}
	add := func(key string, value any) { f = append(f, fmt.Sprintf("%s=%v", key, value)) }
	text := func(key, value string) {
		if value != "" {
			add(key, value)
		}
	}
	add("index", g.Device.Index)
	text("minor", strings.TrimPrefix(g.Device.DeviceNode, "nvidia"))
	text("bus", g.Device.PCIBusID)
	text("name", g.Device.Model)
	text("serial", g.Device.Serial)
	text("part", g.Device.BoardPartNumber)
	text("vbios", g.Device.VBIOSVersion)
	text("chassis", g.Device.Platform.ChassisSerial)
	number(add, "slot", g.Device.Platform.Slot, 1)
	number(add, "tray", g.Device.Platform.Tray, 1)
	number(add, "host", g.Device.Platform.HostID, 1)
	number(add, "peer", g.Device.Platform.PeerType, 1)
	number(add, "module", g.Device.Platform.ModuleID, 1)
	if fabric := g.Device.Fabric; fabric != nil {
		add("fabric_cluster", strings.ReplaceAll(fabric.ClusterUUID, "-", ""))
		add("fabric_clique", fabric.CliqueID)
		add("fabric_state", map[string]int{"not_started": 1, "in_progress": 2, "completed": 3}[fabric.State])
	}
	if g.Device.XIDEvents {
		add("events", 8)
	}
	if g.Device.MaxPower != 0 {
		number(add, "power_max", &g.Device.MaxPower, 1000)
	}
	if m := g.Device.MIG; m != nil {
		add("mig", 1)
		add("mig_slices", m.Slices)
	}
	if g.Reading.InstancesKnown {
		add("gpm", 1)
	}
	lines := []string{strings.Join(append(f, readingFields(g)...), "\t")}
	return append(append(lines, instanceRecords(g)...), processRecords(g)...)
}

// instanceRecords writes a GPU's MIG devices. A GPU instance with several has its
// slices divided between them, as the names say.
func instanceRecords(g gputest.GPU) (lines []string) {
	if g.Device.MIG == nil {
		return nil
	}
	busy := make(map[string]string)
	for _, s := range g.Reading.Instances {
		busy[s.Instance] = fmt.Sprintf("\tsm=%.0f", 100*s.SM)
	}
	for _, i := range g.Device.MIG.Instances {
		for ci, device := range i.Devices {
			name, place := i.Profile, ""
			if len(i.Devices) > 1 {
				name = "1c." + name
			}
			if i.ProfileID >= 0 {
				place = fmt.Sprintf("\tprofile=%d\tstart=%d\tsize=1", i.ProfileID, i.Start)
			}
			lines = append(lines, fmt.Sprintf("instance\tgpu=%s\tuuid=%s\tgi=%s\tci=%d\tname=%s MIG %s\tgi_slices=%d\tci_slices=1%s%s",
				g.Device.UUID, device.UUID, i.ID, ci, g.Device.Model, name, i.Slices, place, busy[i.ID]))
		}
	}
	return lines
}

func readingFields(g gputest.GPU) (f []string) {
	add := func(key string, value any) { f = append(f, fmt.Sprintf("%s=%v", key, value)) }
	r := g.Reading
	if g.Device.EnergySource == gpu.EnergyCounter {
		key := "energy"
		if g.Device.EnergyScope == gpu.ScopeGPU {
			key = "energy_gpu"
		}
		number(add, key, r.Energy, 1)
	}
	number(add, "power", r.Power, 1000)
	number(add, "power_limit", r.PowerLimit, 1000)
	number(add, "temperature", r.Temperature, 1)
	number(add, "utilization", r.Utilization, 100)
	number(add, "memory_used", r.MemoryUsed, 1)
	number(add, "memory_total", r.MemoryTotal, 1)
	number(add, "sm_clock", r.SMClock, 1e-6)
	number(add, "memory_clock", r.MemoryClock, 1e-6)
	if rows := r.RowRemap; rows != nil {
		add("remap_pending", bit(rows.Pending))
		add("remap_failed", bit(rows.Failed))
	}
	if r.ContextsKnown {
		add("processes", 1)
	}
	if r.SamplesKnown {
		add("samples", 1)
	}
	if g.Lost {
		add("lost", 1)
	}
	return f
}

func processRecords(g gputest.GPU) (lines []string) {
	for _, c := range g.Reading.Contexts {
		kind, memory := "compute", ""
		if c.MPS {
			kind = "mps"
		}
		if c.MemoryUsed != nil {
			memory = fmt.Sprintf("\tmemory=%d", *c.MemoryUsed)
		}
		if c.GPUInstance != "" {
			memory += fmt.Sprintf("\tgi=%s\tci=0", c.GPUInstance)
		}
		lines = append(lines, fmt.Sprintf("process\tgpu=%s\tpid=%d\tkind=%s%s", g.Device.UUID, c.PID, kind, memory))
	}
	for _, s := range g.Reading.Samples {
		lines = append(lines, rowRecord(g.Device.UUID, g.SampledAt, s.PID, s.SM, s.Memory))
	}
	if g.Stuck {
		lines = append(lines, "fault\tgpu="+g.Device.UUID+"\tcall=*\tdo=hang")
	}
	return lines
}

func rowRecord(uuid string, at time.Time, pid uint32, sm, mem float64) string {
	return fmt.Sprintf("row\tgpu=%s\ttime=%d\tpid=%d\tsm=%.0f\tmem=%.0f", uuid, at.UnixMicro(), pid, sm*100, mem*100)
}

func bit(on bool) int {
	if on {
		return 1
	}
	return 0
}

// number adds a key whose value is known, in the driver's unit.
func number[T ~int | ~int64 | ~uint64 | ~float64](add func(string, any), key string, value *T, unit float64) {
	if value == nil {
		return
	}
	if unit == 1 {
		add(key, fmt.Sprintf("%v", *value))
		return
	}
	add(key, fmt.Sprintf("%.0f", float64(*value)*unit))
}
