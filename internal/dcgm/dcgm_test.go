package dcgm_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/dcgm"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes/nodestate"
)

// callTimeout is long enough for a busy machine to connect to a fake.
const callTimeout = 10 * time.Second

// scratch is the folder of the fake client library, which is compiled when it is first
// needed: a fuzzing worker does not need it.
var scratch string

var library = sync.OnceValue(func() string {
	path, err := fakes.CompileDCGM(scratch)
	if err != nil {
		panic(err)
	}
	return path
})

func TestMain(m *testing.M) {
	if path := os.Getenv(otherLibrary); path != "" {
		printError(path)
		return
	}
	var err error
	if scratch, err = os.MkdirTemp("", "dcgm"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// An engine is the fake host engine: the node that it sees, and whatever else its state
// file can say.
type engine struct {
	t     *testing.T
	dir   string
	clock *gputest.Clock
	node  gputest.Node
	// fields of the engine's record, and extra lines.
	fields string
	lines  []string
	cfg    dcgm.Config

	said bytes.Buffer // what the last source that was opened logs
}

func newEngine(t *testing.T, gpus ...gputest.GPU) *engine {
	address, err := dcgm.ParseAddress("localhost:5555")
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{t: t, dir: t.TempDir(), clock: gputest.NewClock(), node: gputest.Node{GPUs: gpus}}
	e.cfg = dcgm.Config{Address: address, LibraryPath: library(), CallTimeout: callTimeout, Tick: time.Second, Now: e.clock.Now}
	t.Setenv("GPULEDGER_FAKE_DCGM_STATE", filepath.Join(e.dir, "state"))
	t.Setenv("GPULEDGER_FAKE_DCGM_LOG", filepath.Join(e.dir, "log"))
	e.write()
	return e
}

func pair() []gputest.GPU { return []gputest.GPU{gputest.Full(0), gputest.Full(1)} }

func (e *engine) write() {
	e.t.Helper()
	lines := append([]string{nodestate.Driver(e.node), fmt.Sprintf("engine\tnow=%d%s", e.clock.Now().Wall.UnixMicro(), e.fields)}, e.lines...)
	for _, g := range e.node.GPUs {
		lines = append(lines, nodestate.Records(g)...)
	}
	path := filepath.Join(e.dir, "state")
	if err := os.WriteFile(path+".next", []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		e.t.Fatal(err)
	}
	if err := os.Rename(path+".next", path); err != nil {
		e.t.Fatal(err)
	}
}

// add adds a line to the state.
func (e *engine) add(format string, args ...any) {
	e.lines = append(e.lines, fmt.Sprintf(format, args...))
	e.write()
}

// fault adds a directive.
func (e *engine) fault(uuid, call, do string) { e.add("fault\tgpu=%s\tcall=%s\tdo=%s", uuid, call, do) }

// healed removes the extra lines.
func (e *engine) healed() {
	e.lines = nil
	e.write()
}

// pass lets time pass, for the engine too.
func (e *engine) pass(d time.Duration) {
	e.clock.Advance(d)
	e.write()
}

// open returns a source that reads the engine, and closes it with the test.
func (e *engine) open() *dcgm.Source {
	e.write()
	e.cfg.Log = slog.New(slog.NewTextHandler(&e.said, nil))
	s := dcgm.New(e.cfg)
	e.t.Cleanup(func() {
		e.healed()
		if err := s.Close(time.Minute); err != nil {
			e.t.Error(err)
		}
		e.checkLeaks()
	})
	return s
}

// calls lists the calls so far, with their return codes.
func (e *engine) calls() (out []string) {
	log, _ := os.ReadFile(filepath.Join(e.dir, "log"))
	for line := range strings.Lines(string(log)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		out = append(out, fields[1]+" "+fields[3])
	}
	return out
}

// count returns how often a call came to a return code.
func (e *engine) count(call string) (n int) {
	for _, c := range e.calls() {
		if c == call {
			n++
		}
	}
	return n
}

// watched lists what the engine was last told to watch, as kind/entity/field, since there
// was a connection.
func (e *engine) watched() map[string]bool {
	watched := make(map[string]bool)
	log, _ := os.ReadFile(filepath.Join(e.dir, "log"))
	for line := range strings.Lines(string(log)) {
		switch fields := strings.Split(strings.TrimSpace(line), "\t"); {
		case connects(fields[1]) && fields[3] == "0", fields[3] == "-21":
			clear(watched)
		case fields[1] == "dcgmWatch":
			watched[fields[4]] = true
		case fields[1] == "dcgmUnwatch":
			delete(watched, fields[4])
		}
	}
	return watched
}

// checkLeaks: what was taken from the engine was given back, and nothing was called
// without a connection.
func (e *engine) checkLeaks() {
	e.t.Helper()
	if left := slices.Sorted(maps.Keys(e.watched())); len(left) > 0 {
		e.t.Errorf("the engine still watches %v", left)
	}
	held := make(map[string]int)
	connected := false
	for _, call := range e.calls() {
		name, code, _ := strings.Cut(call, " ")
		switch {
		case connects(name) && code == "0":
			connected = true
			clear(held)
		case call == "dcgmShutdown 0":
			connected = false
			for what, n := range held {
				if n != 0 {
					e.t.Errorf("%d %s were left in the engine", n, what)
				}
			}
		case code == "-21":
			clear(held) // with the connection
		case !connected && name != "dcgmInit" && name != "dcgmVersionInfo" && !connects(name):
			e.t.Errorf("%s was called without a connection", name)
		case code != "0":
		case strings.HasSuffix(name, "Create"):
			held[strings.TrimSuffix(name, "Create")]++
		case strings.HasSuffix(name, "Destroy"):
			held[strings.TrimSuffix(name, "Destroy")]--
		}
	}
}

func connects(call string) bool {
	return strings.HasPrefix(call, "dcgmConnect") || call == "dcgmStartEmbedded"
}

// without removes what the engine cannot tell of a GPU, which is the library's part.
func without(gpus []gputest.GPU) gputest.Node {
	var n gputest.Node
	for _, g := range gpus {
		g.Device.BoardPartNumber = ""
		g.Reading.Contexts, g.Reading.ContextsKnown, g.Reading.Samples, g.Reading.SamplesKnown = nil, false, nil, false
		if m := g.Device.MIG; m != nil {
			m = &gpu.MIG{Slices: m.Slices, Instances: slices.Clone(m.Instances)}
			for i := range m.Instances {
				m.Instances[i].Devices, m.Instances[i].Start = nil, -1
			}
			g.Device.MIG = m
		}
		n.GPUs = append(n.GPUs, g)
	}
	return n
}

// readAll reads a report, which must be of all GPUs as they are.
func (e *engine) readAll(s *dcgm.Source) gpu.Report {
	e.t.Helper()
	report := gputest.Read(e.t, s)
	gputest.Check(e.t, report, without(e.node.GPUs))
	return report
}

// TestAlone reads an engine without any library beside it: all but who is on the GPUs,
// and what MIG devices are called, is there.
func TestAlone(t *testing.T) {
	e := newEngine(t, gputest.Full(0), gputest.Plain(1), gputest.Bare(2), gputest.Divided(3))
	s := e.open()
	report := e.readAll(s)
	want := gpu.Driver{Source: "dcgm", DriverVersion: "570.86.15", NVMLVersion: "12.570.86.15", DCGMVersion: "4.6.1", DCGMLibraryVersion: "4.6.1"}
	if report.Driver != want {
		t.Errorf("driver is %+v", report.Driver)
	}
	e.pass(time.Second)
	e.readAll(s)
}

// TestTimes: a counter's value has the time at which the engine read it, and an engine
// that stops reading is not taken for one that does.
func TestTimes(t *testing.T) {
	e := newEngine(t, pair()...)
	s := e.open()
	e.readAll(s)
	began := e.clock.Now()
	energy := *e.node.GPUs[0].Reading.Energy
	e.node.GPUs[0].Reading.Energy = new(energy + 5000)
	e.pass(400 * time.Millisecond) // the engine reads twice a second
	r := gputest.Read(t, s).Readings[0]
	if r.At != began || *r.Energy != energy {
		t.Errorf("%d mJ at %v, want %d at %v", *r.Energy, r.At.Boot, energy, began.Boot)
	}
	e.pass(100 * time.Millisecond)
	if r = gputest.Read(t, s).Readings[0]; r.At != e.clock.Now() || *r.Energy != energy+5000 {
		t.Errorf("%d mJ at %v, want %d at %v", *r.Energy, r.At.Boot, energy+5000, e.clock.Now().Boot)
	}

	last := r.At
	e.fault(e.node.GPUs[0].Device.UUID, "*", "hang")
	for range 3 {
		e.pass(time.Second)
		if r := gputest.Read(t, s).Readings[0]; r.At != last {
			t.Errorf("a GPU that hangs was read at %v", r.At.Boot)
		}
	}
	e.pass(time.Second)
	report := gputest.Read(t, s)
	if len(report.Devices) != 2 || len(report.Readings) != 1 || report.Readings[0].UUID != e.node.GPUs[1].Device.UUID {
		t.Errorf("after four seconds there are %d devices and %d readings", len(report.Devices), len(report.Readings))
	}
}

// TestClockStep: the clock was set back after the engine had read its values.
func TestClockStep(t *testing.T) {
	e := newEngine(t, pair()...)
	now := e.clock.Now()
	now.Wall = now.Wall.Add(-time.Hour)
	e.cfg.Now = func() gpu.Instant { return now }
	for _, r := range e.readAll(e.open()).Readings {
		if r.At != now {
			t.Errorf("a value from the future is of %v, now is %v", r.At, now)
		}
	}
}

// TestBlanks lets a field after the other be blank, or fail. Nothing else is missing, and
// no blank is taken for a number.
func TestBlanks(t *testing.T) {
	e := newEngine(t, pair()...)
	tests := map[int]func(*gputest.GPU){
		155: func(g *gputest.GPU) { g.Reading.Power = nil },
		156: func(g *gputest.GPU) { g.Reading.Energy = nil },
		164: func(g *gputest.GPU) { g.Reading.PowerLimit = nil },
		150: func(g *gputest.GPU) { g.Reading.Temperature = nil },
		203: func(g *gputest.GPU) { g.Reading.Utilization = nil },
		252: func(g *gputest.GPU) { g.Reading.MemoryUsed = nil },
		250: func(g *gputest.GPU) { g.Reading.MemoryTotal = nil },
		100: func(g *gputest.GPU) { g.Reading.SMClock = nil },
		101: func(g *gputest.GPU) { g.Reading.MemoryClock = nil },
		395: func(g *gputest.GPU) { g.Reading.RowRemap = nil },
		396: func(g *gputest.GPU) { g.Reading.RowRemap = nil },
		230: func(*gputest.GPU) {},
		67:  func(*gputest.GPU) {},
	}
	s := e.open()
	e.readAll(s)
	one := e.node.GPUs[0].Device.UUID
	for id, effect := range tests {
		for _, do := range []string{"blank", "fail:-6", "fail:-14"} {
			e.fault(one, fmt.Sprintf("field:%d", id), do)
			e.pass(time.Second)
			want := without(pair())
			effect(&want.GPUs[0])
			gputest.Check(t, gputest.Read(t, s), want)
			e.healed()
			e.pass(time.Second)
			e.readAll(s)
		}
	}
}

// TestIdentity lets the fields of identity be blank, fail, or be missing altogether,
// which fails a live read as a whole. The others are told all the same, and what may be
// told later is asked for again.
func TestIdentity(t *testing.T) {
	tests := map[int]func(*gpu.Device){
		52:  func(d *gpu.Device) { d.Index = 0 },
		50:  func(d *gpu.Device) { d.Model = "" },
		53:  func(d *gpu.Device) { d.Serial = "" },
		55:  func(d *gpu.Device) { d.DeviceNode = "" },
		57:  func(d *gpu.Device) { d.PCIBusID = "" },
		85:  func(d *gpu.Device) { d.VBIOSVersion = "" },
		162: func(d *gpu.Device) { d.MaxPower = 1000 },
		572: func(d *gpu.Device) { d.Platform.ChassisSerial = "" },
		573: func(d *gpu.Device) { d.Platform.Slot = nil },
		574: func(d *gpu.Device) { d.Platform.Tray = nil },
		575: func(d *gpu.Device) { d.Platform.HostID = nil },
		576: func(d *gpu.Device) { d.Platform.PeerType = nil },
		577: func(d *gpu.Device) { d.Platform.ModuleID = nil },
		170: func(d *gpu.Device) { d.Fabric = nil },
		172: func(d *gpu.Device) { d.Fabric.ClusterUUID = "" },
		173: func(d *gpu.Device) { d.Fabric.CliqueID = 0 },
		1:   func(*gpu.Device) {},
	}
	for id, effect := range tests {
		for _, do := range []string{"blank", "fail:-6", "drop"} {
			t.Run(fmt.Sprintf("%d %s", id, do), func(t *testing.T) {
				e := newEngine(t, pair()...)
				one := e.node.GPUs[1].Device.UUID
				e.fault(one, fmt.Sprintf("field:%d", id), do)
				s := e.open()
				want := without(pair())
				fabric := *want.GPUs[1].Device.Fabric
				want.GPUs[1].Device.Fabric = &fabric
				effect(&want.GPUs[1].Device)
				gputest.Check(t, gputest.Read(t, s), want)
				e.healed()
				e.pass(10 * time.Second)
				if do != "blank" { // which is the driver's last word
					e.readAll(s)
				}
			})
		}
	}
}

// TestOnce counts calls: a tick asks for the newest values, and for nothing that cannot
// have changed.
func TestOnce(t *testing.T) {
	e := newEngine(t, pair()...)
	s := e.open()
	e.readAll(s)
	first := len(e.calls())
	for range 5 {
		e.pass(time.Second)
		e.readAll(s)
	}
	for _, call := range e.calls()[first:] {
		if call != "dcgmLatestValues 0" && call != "dcgmLatestEnergy 0" {
			t.Errorf("a tick calls %s", call)
		}
	}
	e.pass(10 * time.Second)
	e.readAll(s)
	if n := e.count("dcgmGetAllSupportedDevices 0"); n != 2 {
		t.Errorf("GPUs were counted %d times", n)
	}
}

// TestGPUsChange takes a GPU away and gives it back.
func TestGPUsChange(t *testing.T) {
	e := newEngine(t, pair()...)
	s := e.open()
	e.readAll(s)
	e.node.GPUs = e.node.GPUs[:1]
	e.pass(10 * time.Second)
	e.readAll(s)
	e.node.GPUs = pair()
	e.pass(10 * time.Second)
	e.readAll(s)
}

// TestReconnect loses the engine: at once there is another attempt, and then there are
// ever fewer. A new engine is read like the first one.
func TestReconnect(t *testing.T) {
	e := newEngine(t, pair()...)
	s := e.open()
	e.readAll(s)
	e.fields = "\tgeneration=1"
	e.write()
	e.readAll(s) // it is there again

	e.fields = "\tup=0"
	e.pass(time.Second)
	before := e.count("dcgmConnectTCP -21")
	for range 60 {
		if _, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "localhost:5555") {
			t.Fatal("no engine, and the error is", err)
		}
		e.pass(time.Second)
	}
	if n := e.count("dcgmConnectTCP -21") - before; n < 5 || n > 8 {
		t.Errorf("%d attempts in a minute", n)
	}
	e.fields = "\tgeneration=2"
	e.pass(30 * time.Second)
	e.readAll(s)
}

// TestLateAnswer: nobody waits for a call that does not return, and it is not made twice.
func TestLateAnswer(t *testing.T) {
	e := newEngine(t, pair()...)
	e.cfg.CallTimeout = 50 * time.Millisecond
	s := e.open()
	gputest.Eventually(t, s, "the engine answers", func(_ gpu.Report, err error) bool { return err == nil })
	e.fault("*", "dcgmLatestValues", "hang")
	e.add("xid\tgpu=%s\tseq=1\tcode=79", e.node.GPUs[0].Device.UUID)
	for range 3 {
		if _, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "still waiting") {
			t.Fatal("error is", err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Read(ended); err == nil {
		t.Error("the context has ended, and there is a report")
	}
	e.lines = e.lines[1:]
	e.write()
	var xids []gpu.XID
	gputest.Eventually(t, s, "the engine answers again", func(r gpu.Report, err error) bool {
		xids = append(xids, r.XIDs...)
		return err == nil
	})
	if len(xids) != 1 || xids[0].Code != 79 {
		t.Errorf("errors that came meanwhile are %v", xids)
	}
}

// TestStuckClose leaves an engine that does not answer as it is.
func TestStuckClose(t *testing.T) {
	e := newEngine(t, pair()...)
	e.cfg.CallTimeout = 50 * time.Millisecond
	s := e.open()
	gputest.Eventually(t, s, "the engine answers", func(_ gpu.Report, err error) bool { return err == nil })
	e.fault("*", "dcgmLatestValues", "hang")
	_, _ = s.Read(t.Context())
	if err := s.Close(50 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "left as it is") {
		t.Error("error is", err)
	}
	if _, err := s.Read(t.Context()); err == nil || err.Error() != "closed" {
		t.Error("reading a closed source:", err)
	}
}

// TestFull: there is no room in the engine for our groups, or somebody has our fields.
func TestFull(t *testing.T) {
	for _, full := range []string{"\tgroups=64", "\tfield_groups=63"} {
		e := newEngine(t, pair()...)
		e.fields = full
		s := e.open()
		if _, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "Max limit reached") {
			t.Errorf("%s: error is %v", full, err)
		}
		e.fields = ""
		e.pass(time.Minute)
		e.readAll(s)
		if err := s.Close(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSkew: a client that is newer than the engine gets no value, and says why.
func TestSkew(t *testing.T) {
	e := newEngine(t, pair()...)
	e.fields = "\tversion=4.5.2"
	s := e.open()
	_, err := s.Read(t.Context())
	if want := "libdcgm 4.6.1 is newer than the host engine, 4.5.2, which does not know its requests"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want %q", err, want)
	}
	e.fields = "\tversion=4.5.2\tlibrary=4.4.0\tgeneration=1"
	e.pass(time.Minute)
	e.readAll(s)
	if strings.Contains(e.said.String(), "WARN") {
		t.Errorf("an older client is no reason to warn: %s", e.said.String())
	}
	e.fields = "\tversion=4.4.9\tlibrary=4.5.0\tgeneration=2"
	e.pass(time.Minute)
	e.readAll(s)
	e.pass(time.Second)
	e.readAll(s)
	if n := strings.Count(e.said.String(), "libdcgm is newer than the host engine"); n != 1 {
		t.Errorf("told %d times: %s", n, e.said.String())
	}
}

// TestXIDs: each error is told once, in order, and none from before.
func TestXIDs(t *testing.T) {
	e := newEngine(t, pair()...)
	one, two := e.node.GPUs[0].Device.UUID, e.node.GPUs[1].Device.UUID
	e.add("xid\tgpu=%s\tseq=1\tcode=13", one)
	s := e.open()
	want := func(codes ...uint64) {
		t.Helper()
		var got []uint64
		for _, x := range gputest.Read(t, s).XIDs {
			got = append(got, x.Code)
		}
		if !slices.Equal(got, codes) {
			t.Errorf("errors are %v, want %v", got, codes)
		}
	}
	want()
	e.pass(time.Second)
	e.add("xid\tgpu=%s\tseq=2\tcode=48", one)
	e.add("xid\tgpu=%s\tseq=3\tcode=79", two)
	e.add("xid\tgpu=%s\tseq=4\tcode=63", one)
	want(48, 63, 79)
	want()
	e.pass(time.Second)
	e.fault("*", "dcgmGetMultipleValuesForField", "fail:-14")
	e.add("xid\tgpu=%s\tseq=5\tcode=31", two)
	want(31)
}

// TestStorm: a GPU that has more errors than one report takes loses none.
func TestStorm(t *testing.T) {
	e := newEngine(t, pair()...)
	s := e.open()
	e.readAll(s)
	e.pass(time.Second)
	for i := range 90 {
		e.lines = append(e.lines, fmt.Sprintf("xid\tgpu=%s\tseq=%d\tcode=%d", e.node.GPUs[0].Device.UUID, i+1, 100+i))
	}
	e.write()
	var codes []uint64
	for range 3 {
		for _, x := range gputest.Read(t, s).XIDs {
			codes = append(codes, x.Code)
		}
		e.pass(time.Second)
	}
	if len(codes) != 90 || !slices.IsSorted(codes) || codes[0] != 100 || codes[89] != 189 {
		t.Errorf("%d errors: %v", len(codes), codes)
	}
}

// TestProfileLater: the name of a MIG instance's profile that could not be told is asked
// for again, a few times.
func TestProfileLater(t *testing.T) {
	e := newEngine(t, gputest.Busy(0))
	e.fault(e.node.GPUs[0].Device.UUID, "field:50", "drop")
	s := e.open()
	profile := func() string { return gputest.Read(t, s).Devices[0].MIG.Instances[0].Profile }
	if p := profile(); p != "" {
		t.Errorf("profile is %q", p)
	}
	e.healed()
	e.pass(10 * time.Second)
	if p := profile(); p != e.node.GPUs[0].Device.MIG.Instances[0].Profile || p == "" {
		t.Errorf("ten seconds later it is %q", p)
	}

	e.node.GPUs[0].Device.MIG = &gpu.MIG{Slices: 7, Instances: e.node.GPUs[0].Device.MIG.Instances[1:]}
	e.node.GPUs[0].Reading.Instances = e.node.GPUs[0].Reading.Instances[1:]
	e.fault(e.node.GPUs[0].Device.UUID, "field:50", "drop")
	asked := e.count("dcgmLiveValues -3")
	for range 20 {
		e.pass(10 * time.Second)
		gputest.Read(t, s)
	}
	if n := e.count("dcgmLiveValues -3") - asked; n > 2*4 {
		t.Errorf("asked %d times in vain", n)
	}
}

// TestProfiling: an engine that may not measure instances serves everything else.
func TestProfiling(t *testing.T) {
	e := newEngine(t, gputest.Busy(0), gputest.Full(1))
	e.cfg.Profiling = true
	e.fields = "\tprofiling=0"
	s := e.open()
	for range 3 {
		if r := e.readAll(s).Readings[0]; r.InstancesKnown {
			t.Errorf("instances are known: %v", r.Instances)
		}
		e.pass(time.Second)
	}
	if n := strings.Count(e.said.String(), "going on without"); n != 1 {
		t.Errorf("told %d times: %s", n, e.said.String())
	}
}

// TestTicks: instances are measured from the second reading on, however far apart
// readings are.
func TestTicks(t *testing.T) {
	for _, tick := range []time.Duration{200 * time.Millisecond, time.Second, 15 * time.Second, time.Minute} {
		t.Run(tick.String(), func(t *testing.T) {
			e := newEngine(t, gputest.Busy(0), gputest.Full(1))
			e.cfg.Profiling, e.cfg.Tick = true, tick
			s := e.open()
			for i := range 6 {
				r := gputest.Read(t, s)
				if len(r.Readings) != 2 || r.Readings[1].Energy == nil || r.Readings[0].InstancesKnown != (i >= 1) {
					t.Errorf("reading %d: %+v", i, r.Readings)
				}
				e.pass(tick)
			}
		})
	}
}

// TestRepartitioned: nothing of instances that are gone is watched any longer, and what is
// watched of the others is watched still.
func TestRepartitioned(t *testing.T) {
	e := newEngine(t, gputest.Busy(0), gputest.Full(1))
	e.cfg.Profiling = true
	e.cfg.Fields = parse(t, "DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, x")
	s := e.open()
	instances := func(want ...string) {
		t.Helper()
		gputest.Read(t, s)
		got := slices.DeleteFunc(slices.Sorted(maps.Keys(e.watched())), func(w string) bool { return !strings.HasPrefix(w, "4/") })
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("watched (-want +got):\n%s", diff)
		}
		e.pass(time.Second)
	}
	whole := e.node.GPUs[0]
	instances("4/0/1001", "4/0/1002", "4/1/1001", "4/1/1002")
	part := gputest.Busy(0)
	part.Device.MIG.Instances, part.Reading.Instances = part.Device.MIG.Instances[:1], part.Reading.Instances[:1]
	e.node.GPUs[0] = part
	e.write()
	instances("4/0/1001", "4/0/1002")
	e.node.GPUs[0] = whole
	e.write()
	instances("4/0/1001", "4/0/1002", "4/1/1001", "4/1/1002")
	e.node.GPUs[0] = gputest.Full(0)
	e.write()
	instances()
}

// TestRoom: while others have the engine's groups some things are done without. Once there
// is room they are there, and no field was blamed.
func TestRoom(t *testing.T) {
	for room := range 3 {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			e := newEngine(t, gputest.Busy(0), gputest.Full(1))
			e.fields = fmt.Sprintf("\tfield_groups=%d", 62-room) // beside energy and gauges
			e.cfg.Profiling = true
			e.cfg.Fields = parse(t, "DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, x\nDCGM_FI_DEV_GPU_TEMP, gauge, x\nDCGM_FI_DEV_MEM_COPY_UTIL, gauge, x")
			s := e.open()
			for range 3 {
				gputest.Read(t, s)
				if w := e.watched(); w["1/0/230"] != (room > 0) || w["1/0/204"] != (room > 1) {
					t.Errorf("watched: %v", w)
				}
				e.pass(10 * time.Second)
			}
			if strings.Count(e.said.String(), "fields=page ") > 1 || !strings.Contains(e.said.String(), "going on without") {
				t.Errorf("told: %s", e.said.String())
			}
			e.fields = ""
			e.pass(10 * time.Second)
			e.readAll(s)
			e.add("xid\tgpu=%s\tseq=2\tcode=48", e.node.GPUs[1].Device.UUID)
			e.pass(time.Second)
			e.pass(time.Second)
			r := e.readAll(s)
			if len(r.XIDs) != 1 || !r.Readings[0].InstancesKnown || len(r.Fields.Fields) != 3 || len(page(t, s)["DCGM_FI_PROF_GR_ENGINE_ACTIVE"]) == 0 {
				t.Errorf("with room there are %d errors, instances %v, fields %+v", len(r.XIDs), r.Readings[0].Instances, r.Fields)
			}
		})
	}
}

// TestProfilingLater: profiling that another program had is taken when it is free, and
// stays when instances go, though the page had the same field before.
func TestProfilingLater(t *testing.T) {
	e := newEngine(t, gputest.Busy(0), gputest.Full(1))
	e.cfg.Profiling = true
	e.cfg.Fields = parse(t, "DCGM_FI_PROF_SM_ACTIVE, gauge, x\nDCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, x")
	e.fields = "\tfield_groups=60" // beside energy, gauges, xids and the page
	s := e.open()
	gputest.Read(t, s)
	e.fields = ""
	e.pass(10 * time.Second)
	gputest.Read(t, s)
	part := gputest.Busy(0)
	part.Device.MIG.Instances, part.Reading.Instances = part.Device.MIG.Instances[:1], part.Reading.Instances[:1]
	e.node.GPUs[0] = part
	e.pass(10 * time.Second)
	gputest.Read(t, s)
	if w := e.watched(); !w["4/0/1002"] || w["4/1/1002"] || !w["4/0/1001"] || w["4/1/1001"] {
		t.Errorf("watched: %v", w)
	}
}

// TestUnprofiled: without being asked, nothing is measured.
func TestUnprofiled(t *testing.T) {
	e := newEngine(t, gputest.Busy(0))
	s := e.open()
	for range 3 {
		if r := gputest.Read(t, s).Readings[0]; r.InstancesKnown {
			t.Errorf("instances are known: %v", r.Instances)
		}
		e.pass(time.Second)
	}
}
