package status_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/status"
	"github.com/gpuledger/gpuledger/test/golden"
)

var (
	boot = time.Date(2026, 2, 27, 6, 0, 0, 0, time.UTC)
	now  = gpu.Instant{Wall: boot.Add(50 * time.Hour), Boot: 50 * time.Hour}
)

func at(before time.Duration) gpu.Instant {
	return gpu.Instant{Wall: now.Wall.Add(-before), Boot: now.Boot - before}
}

func busyNode() *gpu.Snapshot {
	whole := newGPU(0, account("research", "pretrain-0", "trainer", gpu.ByMethod{gpu.Exclusive: 61_234_567_891}))
	whole.Holders = []gpu.Holder{hold(whole, 0, gpu.SharingExclusive, 1)}

	shared := newGPU(1,
		account("team-a", "notebook-ada", "main", gpu.ByMethod{gpu.Exclusive: 9_000_000_000, gpu.Shared: 12_000_000_000, gpu.Allocated: 3_500_000_000}),
		account("team-b", "tuner", "main", gpu.ByMethod{gpu.Shared: 8_000_000_004}),
		account("team-b", "ended-1", "main", gpu.ByMethod{gpu.Exclusive: 1_500_000_000}),
		account("team-b", "ended-2", "main", gpu.ByMethod{gpu.Exclusive: 3}))
	shared.Holders = []gpu.Holder{hold(shared, 0, gpu.SharingTimeSlicing, 1), hold(shared, 1, gpu.SharingTimeSlicing, 2)}
	charge(&shared, gpu.Idle, 4_000_000_000)
	charge(&shared, gpu.Host, 250_000_000)
	charge(&shared, gpu.Unmapped, 5)
	shared.Book.Retired, shared.Book.Energy = 2_000_000_000, shared.Book.Energy+2_000_000_000
	shared.Intervals = func(func(gpu.Interval) bool) {}
	shared.Processes = []gpu.LiveProcess{
		{Process: &gpu.Process{Owner: gpu.Owner{Kind: gpu.OwnerHost}}},
		{Process: &gpu.Process{Owner: gpu.Owner{Kind: gpu.OwnerUnmapped}}},
		{Process: &gpu.Process{Owner: gpu.Owner{Kind: gpu.OwnerUnmapped}}},
		{Process: &gpu.Process{Owner: gpu.Owner{Kind: gpu.OwnerPod}}},
	}

	divided := newGPU(2, account("team-c", "slice-0", "main", gpu.ByMethod{gpu.Shared: 700_000_000}))
	divided.Partitions = &gpu.Partitioning{Slices: 7, Instances: []gpu.Partition{{ID: "1", Profile: "3g.90gb"}, {ID: "5", Profile: "1g.23gb"}}}
	divided.Book.Accounts[0].GPUInstance = "5"
	divided.Holders = []gpu.Holder{hold(divided, 0, gpu.SharingMIG, 1)}
	divided.Reading.Gauges[gpu.Utilization] = nil
	divided.EnergyScope, divided.EnergySource = gpu.ScopeModule, gpu.EnergyDivided

	stray := newGPU(3, account("team-d", "stray-0", "main", gpu.ByMethod{}))
	stray.Holders = []gpu.Holder{hold(stray, 0, gpu.SharingNone, 0)}
	stray.Platform, stray.EnergySource = gpu.Platform{}, gpu.EnergyPower
	stray.Reading.RowRemap = &gpu.RowRemap{Failed: true}
	whole.Reading.RowRemap = &gpu.RowRemap{}
	shared.Reading.RowRemap = &gpu.RowRemap{Pending: true}
	divided.Reading.RASErrors = []gpu.RASErrors{
		{Block: "gfx", Type: gpu.RASUncorrectable, Count: 0},
		{Block: "umc", Type: gpu.RASCorrectable, Count: 12},
		{Block: "umc", Type: gpu.RASUncorrectable, Count: 1},
	}
	shared.Reading.RASErrors = []gpu.RASErrors{{Block: "sdma", Type: gpu.RASCorrectable, Count: 2}}
	whole.Reading.RASErrors = []gpu.RASErrors{{Block: "umc", Type: gpu.RASDeferred}}
	stray.Events.Count, stray.Events.Last = 3, map[uint64]time.Time{31: at(time.Hour).Wall, 13: at(2 * time.Hour).Wall}
	return node(whole, shared, divided, stray)
}

func lostNode() *gpu.Snapshot {
	lost := newGPU(0, account("research", "pretrain-0", "trainer", gpu.ByMethod{gpu.Exclusive: 7_000_000}))
	lost.Present, lost.Reading, lost.LastReading = false, nil, at(20*time.Minute).Wall
	lost.Holders = []gpu.Holder{hold(lost, 0, gpu.SharingExclusive, 1)}
	lost.Events.Count, lost.Events.Last = 1, map[uint64]time.Time{79: at(20 * time.Minute).Wall}
	lost.Strays, lost.HoldersKnown, lost.Book = nil, false, nil

	silent := newGPU(1)
	silent.Reading, silent.Strays, silent.HoldersKnown, silent.LastReading = nil, nil, false, at(42*time.Second).Wall
	silent.Book.Settled = at(42 * time.Second)

	unseen := newGPU(2, account("team-d", "not-a-stray-0", "main", gpu.ByMethod{}))
	unseen.Holders = []gpu.Holder{hold(unseen, 0, gpu.SharingUnknown, 0)}
	unseen.Strays, unseen.HoldersKnown, unseen.ReportsEvents = nil, false, false

	s := node(lost, silent, unseen)
	s.PCIGPUs, s.DriverGPUs = new(2), new(3)
	s.Stages = []gpu.Stage{
		{Name: "driver", Up: true, LastSuccess: s.At.Wall},
		{Name: "pod_resources", Failures: 17, Err: "list pod resources: deadline exceeded", LastSuccess: at(5 * time.Minute).Wall},
		{Name: "pods_api", Failures: 2},
		{Name: "state", Up: true, LastSuccess: s.At.Wall},
	}
	return s
}

func oldNode() *gpu.Snapshot {
	silent := newGPU(0)
	silent.Reading, silent.Strays, silent.HoldersKnown, silent.Book, silent.LastReading = nil, nil, false, nil, time.Time{}
	s := node(silent)
	s.At, s.Drivers, s.DriverGPUs = at(3*time.Hour), nil, nil
	s.Stages = []gpu.Stage{{Name: "driver", Failures: 1}, {Name: "state", Failures: 3}}
	return s
}

func crowdedNode() *gpu.Snapshot {
	pod := func(i int) string { return strings.Repeat(fmt.Sprintf("p%d-", i), 84) + "x" }
	namespace, container := strings.Repeat("n", 63), strings.Repeat("c", 63)

	divided := newGPU(0)
	divided.Partitions = &gpu.Partitioning{Slices: 7}
	for i := range 7 {
		id := fmt.Sprint(7 + i)
		a := account(namespace, pod(i), container, gpu.ByMethod{gpu.Shared: 123_456_789_012})
		a.GPUInstance = id
		divided.Partitions.Instances = append(divided.Partitions.Instances, gpu.Partition{ID: id, Profile: "1g.23gb.me"})
		divided.Book.Accounts = append(divided.Book.Accounts, a)
		divided.Holders = append(divided.Holders, hold(divided, i, gpu.SharingMIG, 1))
	}
	divided.Book.Energy = divided.Book.Sum()

	crowd := newGPU(1)
	for i := range 20 {
		crowd.Book.Accounts = append(crowd.Book.Accounts, account("team-a", fmt.Sprintf("notebook-%d", i), "main", gpu.ByMethod{gpu.Shared: 1_000_000}))
		if i < 16 {
			crowd.Holders = append(crowd.Holders, hold(crowd, i, gpu.SharingTimeSlicing, 1))
		}
	}
	crowd.Book.Energy = crowd.Book.Sum()
	crowd.Processes = slices.Repeat([]gpu.LiveProcess{{Process: &gpu.Process{Owner: gpu.Owner{Kind: gpu.OwnerUnmapped}}}}, 100)

	s := node(divided, crowd)
	s.Node.Name = strings.Repeat("node-", 50) + "xyz"
	return s
}

func emptyNode() *gpu.Snapshot {
	s := node()
	s.Node.Name = ""
	return s
}

func hostileNode(evil string) *gpu.Snapshot {
	g := newGPU(0, account(evil, evil, evil, gpu.ByMethod{gpu.Shared: 1}), account(evil, evil+"2", evil, gpu.ByMethod{}))
	a := &g.Book.Accounts[0]
	a.GPUInstance, a.UID = evil, evil
	g.Holders = []gpu.Holder{{AccountKey: a.AccountKey, Resource: evil, Claim: evil, Sharing: gpu.Sharing(evil)}}
	g.UUID, g.PCIBusID, g.Model, g.Serial, g.BoardPartNumber, g.Platform.ChassisSerial = evil, evil, evil, evil, evil, evil
	g.Partitions = &gpu.Partitioning{Instances: []gpu.Partition{{ID: evil, Profile: evil}}}
	g.EnergySource, g.EnergyScope = gpu.EnergySource(evil), gpu.EnergyScope(evil)
	lost := g
	lost.Present = false
	s := node(g, lost)
	s.Node.Name, s.Drivers[0].Version = evil, evil
	s.Stages = []gpu.Stage{{Name: evil, Err: evil}}
	return s
}

func node(gpus ...gpu.GPU) *gpu.Snapshot {
	read := at(400 * time.Millisecond)
	return &gpu.Snapshot{
		At: read, Node: gpu.Node{Name: "gpu-node-17"}, Drivers: []gpu.Driver{{Vendor: "NVIDIA", Name: "nvml", Version: "580.65.06"}},
		PCIGPUs: new(len(gpus)), DriverGPUs: new(len(gpus)), GPUs: gpus,
		Stages: []gpu.Stage{{Name: "driver", Up: true, LastSuccess: read.Wall}},
	}
}

func newGPU(i int, accounts ...gpu.Account) gpu.GPU {
	b := &gpu.Book{Opened: boot, Settled: at(time.Second), Accounts: accounts}
	b.Energy = b.Sum()
	return gpu.GPU{
		Device: gpu.Device{
			UUID: fmt.Sprintf("GPU-00000000-0000-4000-8000-%012d", i), Index: i, PCIBusID: fmt.Sprintf("00000000:%02X:00.0", 27+16*i),
			Vendor: "NVIDIA", Model: "NVIDIA B200", Serial: fmt.Sprintf("16509230004%02d", i/2),
			Platform:     gpu.Platform{ChassisSerial: "1820000000042", Slot: new(5), Tray: new(4), ModuleID: new(i + 1)},
			EnergySource: gpu.EnergyCounter, EnergyScope: gpu.ScopeGPU, ReportsEvents: true,
		},
		Present: true, LastReading: at(500 * time.Millisecond).Wall, Strays: new(0), HoldersKnown: true, Book: b,
		Reading: &gpu.Reading{
			PowerLimit: new(gpu.Watts(1000)),
			Gauges: gpu.Gauges{
				gpu.Power: new(412.345), gpu.Temperature: new(61.0), gpu.Utilization: new(0.97),
				gpu.MemoryUsed: new(68.0 * (1 << 30)), gpu.MemoryTotal: new(180.0 * (1 << 30)),
			},
		},
	}
}

func account(namespace, pod, container string, energy gpu.ByMethod) gpu.Account {
	return gpu.Account{Energy: energy, AccountKey: gpu.AccountKey{
		Owner: gpu.Owner{Kind: gpu.OwnerPod, Scope: namespace, Name: pod, UID: "uid-of-" + pod, Part: container},
	}}
}

func hold(g gpu.GPU, account int, sharing gpu.Sharing, replicas int) gpu.Holder {
	return gpu.Holder{AccountKey: g.Book.Accounts[account].AccountKey, Resource: "nvidia.com/gpu", Sharing: sharing, Replicas: replicas}
}

func charge(g *gpu.GPU, r gpu.Reason, e gpu.Millijoules) {
	g.Book.Unattributed[r] += e
	g.Book.Energy += e
}

func render(t testing.TB, s *gpu.Snapshot) (text, page, object []byte) {
	t.Helper()
	p := status.New(s, now)
	var tb, hb bytes.Buffer
	if err := status.Write(&tb, &p); err != nil {
		t.Fatal(err)
	}
	if err := status.HTML(&hb, &p, "v0.0.0", []status.Link{{Path: "/metrics", Text: "Metrics", About: "for Prometheus"}}); err != nil {
		t.Fatal(err)
	}
	object, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return tb.Bytes(), hb.Bytes(), object
}

var style = regexp.MustCompile(`(?s)<style>.*</style>`)

// TestGolden checks the page as text, HTML and JSON. To update the golden files, run go test
// ./internal/status -update and review the diff.
func TestGolden(t *testing.T) {
	tests := []struct {
		name string
		node *gpu.Snapshot
	}{
		{"busy", busyNode()},
		{"lost", lostNode()},
		{"old", oldNode()},
		{"crowded", crowdedNode()},
		{"empty", emptyNode()},
		{"hostile", hostileNode("<b onload=\"x\">'&\x1b[31m\u202e\n\xff{{.}}")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text, page, object := render(t, tt.node)
			golden.Check(t, tt.name+".txt", text)
			golden.Check(t, tt.name+".html", style.ReplaceAll(page, []byte("<style></style>")))
			golden.Check(t, tt.name+".json", append(object, '\n'))
			checkPage(t, page)
		})
	}
}

func TestParts(t *testing.T) {
	p := status.New(busyNode(), now)
	for _, g := range p.GPUs {
		var sum float64
		for _, part := range g.Energy.Parts() {
			sum += part.Joules
		}
		if diff := sum - g.Energy.Total; diff > 1e-3 || diff < -1e-3 {
			t.Errorf("GPU %s: the parts sum to %v J, but the total is %v J", g.UUID, sum, g.Energy.Total)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	p := status.New(busyNode(), now)
	object, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var got status.Page
	if err := json.Unmarshal(object, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got); diff != "" {
		t.Errorf("page (-written +read):\n%s", diff)
	}
}

// FuzzStrings compares the page that contains any string with the page that contains a harmless string. The HTML pages
// must have the same elements, and the terminal outputs must have the same number of lines.
func FuzzStrings(f *testing.F) {
	for _, s := range []string{"", "</style><script>", "\"'>", "\x00\x1b]0;\a", "\u2028\u202e", "\xf0\x28", "a\tb\r\n", "{{.}}", "&lt;", strings.Repeat("€", 300)} {
		f.Add(s)
	}
	harmlessText, harmlessPage, _ := render(f, hostileNode("q"))
	elements, lines := checkPage(f, harmlessPage), bytes.Count(harmlessText, []byte("\n"))
	f.Fuzz(func(t *testing.T, s string) {
		text, page, _ := render(t, hostileNode("q"+s))
		if diff := cmp.Diff(elements, checkPage(t, page)); diff != "" {
			t.Errorf("elements (-harmless +hostile):\n%s", diff)
		}
		if n := bytes.Count(text, []byte("\n")); n != lines {
			t.Errorf("%d lines, want %d:\n%q", n, lines, text)
		}
		if i := bytes.IndexFunc(text, func(r rune) bool { return r != '\n' && r < ' ' || r == 0x7f || r == '\u202e' }); i >= 0 {
			t.Errorf("the text has a control character at %d: %q", i, text)
		}
	})
}
