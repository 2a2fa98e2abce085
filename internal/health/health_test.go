package health_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/test/golden"
)

var (
	boot = time.Date(2026, 2, 27, 6, 0, 0, 0, time.UTC)
	now  = gpu.Instant{Wall: boot.Add(50 * time.Hour), Boot: 50 * time.Hour}
)

func newGPU(i int) gpu.GPU {
	return gpu.GPU{
		Device: gpu.Device{
			UUID: "GPU-00000000-0000-4000-8000-00000000000" + string(rune('0'+i)), Index: i, Vendor: "NVIDIA", Model: "NVIDIA B200", Serial: "1650923000417",
			PCIBusID: "00000000:1B:00.0", Platform: gpu.Platform{ChassisSerial: "1820000000042", Slot: new(5), Tray: new(4), ModuleID: new(i + 1)},
			ReportsEvents: true, Fabric: &gpu.Fabric{State: "completed", Problems: []gpu.FabricProblem{{Name: "degraded_bandwidth"}}},
		},
		Present: true, LastReading: now.Wall, Events: gpu.DriverEvents{Since: boot},
		Reading: &gpu.Reading{RowRemap: &gpu.RowRemap{}},
	}
}

func node(gpus ...gpu.GPU) *gpu.Snapshot {
	return &gpu.Snapshot{
		At: now, Node: gpu.Node{Name: "gpu-001"}, Drivers: []gpu.Driver{{Vendor: "NVIDIA", Name: "nvml"}},
		PCIGPUs: new(len(gpus)), DriverGPUs: new(len(gpus)), GPUs: gpus,
	}
}

// catalogue contains the immediate action for each XID error in NVIDIA's XID catalogue. For other errors, the advice is
// ok. For XID 48, the catalogue names a workflow that begins with RESET_GPU. The workflows for NVLink errors depend on
// the values of registers. The action for XID 154 depends on a text. Only the kernel log contains these values and this
// text.
var catalogue = map[uint64]string{
	46: "RESET_GPU", 48: "WORKFLOW_XID_48", 62: "RESET_GPU", 63: "IGNORE", 64: "RESET_GPU", 74: "WORKFLOW_NVLINK_ERR", 79: "RESTART_BM",
	94: "RESTART_APP", 95: "RESET_GPU", 119: "RESET_GPU", 120: "RESET_GPU", 140: "RESET_GPU", 143: "RESET_GPU",
	144: "WORKFLOW_NVLINK5_ERR", 145: "WORKFLOW_NVLINK5_ERR", 146: "WORKFLOW_NVLINK5_ERR", 147: "WORKFLOW_NVLINK5_ERR", 148: "WORKFLOW_NVLINK5_ERR",
	149: "WORKFLOW_NVLINK5_ERR", 150: "WORKFLOW_NVLINK5_ERR", 154: "XID_154", 158: "RESET_GPU",
}

// TestXIDs compares the advice with NVIDIA's catalogue. It checks the advice before a reset, after a reset, and after
// the error has recurred.
func TestXIDs(t *testing.T) {
	wants := map[string][3]health.Advice{ // advice for the first error, after a reset, and if the error recurs
		"RESET_GPU":            {health.Reset, health.Watch, health.Return},
		"RESTART_BM":           {health.Reset, health.Watch, health.Return},
		"WORKFLOW_XID_48":      {health.Reset, health.Watch, health.Return},
		"WORKFLOW_NVLINK_ERR":  {health.Watch, health.Watch, health.Watch},
		"WORKFLOW_NVLINK5_ERR": {health.Watch, health.Watch, health.Watch},
		"RESTART_APP":          {health.Watch, health.Watch, health.Watch},
		"IGNORE":               {health.Watch, health.Watch, health.Watch},
		"XID_154":              {health.Watch, health.Watch, health.Watch},
	}
	for code := range uint64(200) {
		action, listed := catalogue[code]
		want := wants[action]
		if !listed {
			want = [3]health.Advice{health.OK, health.OK, health.OK}
		}
		g := newGPU(0)
		advice := func() health.Advice { return health.New(node(g), now).GPUs[0].Advice }
		g.Events.Add(gpu.DriverEvent{Code: code, At: boot.Add(time.Hour)})
		first := advice()
		g.Events.Reset = boot.Add(2 * time.Hour)
		after := advice()
		g.Events.Add(gpu.DriverEvent{Code: code, At: boot.Add(3 * time.Hour)})
		if got := [3]health.Advice{first, after, advice()}; got != want {
			t.Errorf("XID %d (%s): %v, want %v", code, action, got, want)
		}
	}
}

// TestFindings checks each finding separately. It also checks that the node has the worst advice.
func TestFindings(t *testing.T) {
	tests := map[string]struct {
		change func(*gpu.Snapshot, *gpu.GPU)
		want   health.Advice
		codes  []string
		ofNode bool
	}{
		"healthy":            {func(*gpu.Snapshot, *gpu.GPU) {}, health.OK, nil, false},
		"pending row remap":  {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Reading.RowRemap.Pending = true }, health.Reset, []string{"row_remap_pending"}, false},
		"no spare row":       {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Reading.RowRemap.Failed = true }, health.Return, []string{"row_remap_failure"}, false},
		"both":               {func(_ *gpu.Snapshot, g *gpu.GPU) { *g.Reading.RowRemap = gpu.RowRemap{Pending: true, Failed: true} }, health.Return, []string{"row_remap_failure", "row_remap_pending"}, false},
		"fabric failed":      {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Fabric.State = "failed" }, health.Reset, []string{"fabric_failed"}, false},
		"fabric in progress": {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Fabric.State = "in_progress" }, health.Watch, []string{"fabric_not_completed"}, false},
		"slow links":         {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Fabric.Problems[0].Present = true }, health.Watch, []string{"fabric_problem"}, false},
		"no fabric":          {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Fabric = nil }, health.OK, nil, false},
		"SRAM errors":        {func(_ *gpu.Snapshot, g *gpu.GPU) { reports(g, gpu.SRAMThresholdExceeded, 1) }, health.Return, []string{"sram_threshold"}, false},
		"few SRAM errors":    {func(_ *gpu.Snapshot, g *gpu.GPU) { reports(g, gpu.SRAMThresholdExceeded, 0) }, health.OK, nil, false},
		"narrow link": {func(_ *gpu.Snapshot, g *gpu.GPU) {
			reports(g, gpu.PCIeLinkWidth, 8)
			reports(g, gpu.PCIeLinkWidthMax, 16)
		}, health.Watch, []string{"pcie_narrow"}, false},
		"wide link": {func(_ *gpu.Snapshot, g *gpu.GPU) {
			reports(g, gpu.PCIeLinkWidth, 16)
			reports(g, gpu.PCIeLinkWidthMax, 16)
		}, health.OK, nil, false},
		"memory errors":     {func(_ *gpu.Snapshot, g *gpu.GPU) { reports(g, gpu.ECCErrors, 2, "sram", "uncorrectable") }, health.Reset, []string{"memory_uncorrectable"}, false},
		"no memory errors":  {func(_ *gpu.Snapshot, g *gpu.GPU) { reports(g, gpu.ECCErrors, 0, "dram", "uncorrectable") }, health.OK, nil, false},
		"corrected errors":  {func(_ *gpu.Snapshot, g *gpu.GPU) { reports(g, gpu.ECCErrors, 9, "dram", "correctable") }, health.OK, nil, false},
		"few spare rows":    {func(_ *gpu.Snapshot, g *gpu.GPU) { reports(g, gpu.MemoryBanks, 1, "low") }, health.Watch, []string{"spare_rows_low"}, false},
		"some spare rows":   {func(_ *gpu.Snapshot, g *gpu.GPU) { reports(g, gpu.MemoryBanks, 1, "partial") }, health.OK, nil, false},
		"replays":           {func(_ *gpu.Snapshot, g *gpu.GPU) { reports(g, gpu.NVLinkErrors, 1, "replay") }, health.Watch, []string{"nvlink_errors"}, false},
		"CRC errors":        {func(_ *gpu.Snapshot, g *gpu.GPU) { reports(g, gpu.NVLinkErrors, 1, "crc_flit") }, health.OK, nil, false},
		"links down, alone": {func(_ *gpu.Snapshot, g *gpu.GPU) { reports(g, gpu.NVLinkLinks, 18, "inactive") }, health.OK, nil, false},
		"links down": {func(s *gpu.Snapshot, g *gpu.GPU) {
			other := newGPU(1)
			reports(&other, gpu.NVLinkLinks, 18, "active")
			reports(g, gpu.NVLinkLinks, 16, "active")
			reports(g, gpu.NVLinkLinks, 2, "inactive")
			s.GPUs, s.PCIGPUs, s.DriverGPUs = append(s.GPUs, other), new(2), new(2)
			s.GPUs[0] = *g
		}, health.Watch, []string{"nvlink_down"}, false},
		"hot for half of ten minutes": {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Recent = &gpu.Recent{Slowdowns: [7]float64{1: 0.5}} }, health.OK, nil, false},
		"hot for longer": {func(_ *gpu.Snapshot, g *gpu.GPU) {
			g.Recent = &gpu.Recent{Slowdowns: [7]float64{1: 0.51}}
		}, health.Watch, []string{"throttled"}, false},
		"hot, then lost": {func(_ *gpu.Snapshot, g *gpu.GPU) {
			g.Recent, g.Present, g.Reading, g.Events.Losses = &gpu.Recent{Slowdowns: [7]float64{1: 0.51}}, false, nil, 1
		}, health.Reset, []string{"lost"}, false},
		"unknown maximum":    {func(_ *gpu.Snapshot, g *gpu.GPU) { reports(g, gpu.PCIeLinkWidth, 1) }, health.OK, nil, false},
		"no recovery":        {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Reading.Recovery = "none" }, health.OK, nil, false},
		"recovery by reset":  {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Reading.Recovery = "reset" }, health.Reset, []string{"recovery_reset"}, false},
		"recovery by reboot": {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Reading.Recovery = "reboot" }, health.Reset, []string{"recovery_reset"}, false},
		"drain and reset":    {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Reading.Recovery = "drain_and_reset" }, health.Reset, []string{"recovery_reset"}, false},
		"reset of the bus":   {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Reading.Recovery = "bus_reset" }, health.Reset, []string{"recovery_reset"}, false},
		"system reboot":      {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Reading.Recovery = "system_reboot" }, health.Reset, []string{"recovery_reset"}, false},
		"drain peers":        {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Reading.Recovery = "drain_p2p" }, health.Watch, []string{"recovery_other"}, false},
		"newer recovery":     {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Reading.Recovery = "8" }, health.Watch, []string{"recovery_other"}, false},
		"AMD, uncorrectable": {func(_ *gpu.Snapshot, g *gpu.GPU) {
			g.Reading.RASErrors = []gpu.RASErrors{{Block: "umc", Type: gpu.RASUncorrectable, Count: 1}}
		}, health.Reset, []string{"ras_uncorrectable"}, false},
		"AMD, correctable": {func(_ *gpu.Snapshot, g *gpu.GPU) {
			g.Reading.RASErrors = []gpu.RASErrors{{Block: "umc", Type: gpu.RASCorrectable, Count: 9}}
		}, health.OK, nil, false},
		"lost":              {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Present, g.Reading, g.Events.Losses = false, nil, 1 }, health.Reset, []string{"lost"}, false},
		"lost, not counted": {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Present, g.Reading, g.Events = false, nil, gpu.DriverEvents{} }, health.Reset, []string{"lost"}, false},
		"lost and back":     {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Events.Losses, g.Events.Reset = 1, now.Wall }, health.Watch, []string{"lost"}, false},
		"lost again":        {func(_ *gpu.Snapshot, g *gpu.GPU) { g.Present, g.Reading, g.Events.Losses = false, nil, 2 }, health.Return, []string{"lost"}, false},
		"late": {func(_ *gpu.Snapshot, g *gpu.GPU) {
			g.Reading, g.LastReading, g.Silent = nil, now.Wall.Add(-time.Minute), time.Minute
		}, health.OK, nil, false},
		"not answering": {func(_ *gpu.Snapshot, g *gpu.GPU) {
			g.Reading, g.LastReading, g.Silent = nil, now.Wall.Add(-6*time.Minute), 6*time.Minute
		}, health.Reset, []string{"not_answering"}, false},
		"driver down": {func(s *gpu.Snapshot, g *gpu.GPU) {
			s.Drivers, g.Reading, g.LastReading, g.Silent = nil, nil, now.Wall.Add(-time.Hour), 6*time.Minute
		}, health.Watch, []string{"driver_down"}, true},
		"driver of this vendor down": {func(s *gpu.Snapshot, g *gpu.GPU) {
			s.Drivers[0].Vendor, g.Reading, g.LastReading, g.Silent = "AMD", nil, now.Wall.Add(-time.Hour), 6*time.Minute
		}, health.Watch, []string{"driver_down"}, true},
		"never initialised":   {func(s *gpu.Snapshot, _ *gpu.GPU) { s.PCIGPUs = new(2) }, health.Reset, []string{"gpus_missing"}, true},
		"lost, still on PCI":  {func(s *gpu.Snapshot, g *gpu.GPU) { s.DriverGPUs, g.Present, g.Events.Losses = new(0), false, 1 }, health.Reset, []string{"lost"}, false},
		"exporter is stalled": {func(s *gpu.Snapshot, g *gpu.GPU) { s.At.Wall, s.At.Boot, g.LastReading = boot, 0, boot }, health.Watch, []string{"not_read"}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := node(newGPU(0))
			tt.change(s, &s.GPUs[0])
			p := health.New(s, now)
			evidence, advice := p.GPUs[0].Evidence, p.GPUs[0].Advice
			if tt.ofNode {
				evidence, advice = p.Evidence, p.Advice
				if p.GPUs[0].Advice != health.OK {
					t.Errorf("advice for the GPU is %s: %v", p.GPUs[0].Advice, p.GPUs[0].Evidence)
				}
			} else if len(p.Evidence) > 0 {
				t.Errorf("evidence about the node: %v", p.Evidence)
			}
			var codes []string
			for _, e := range evidence {
				codes = append(codes, e.Code)
			}
			if advice != tt.want || p.Advice != tt.want || !slices.Equal(codes, tt.codes) {
				t.Errorf("GPU or node %s, node %s, by %v; want %s by %v", advice, p.Advice, codes, tt.want, tt.codes)
			}
		})
	}
}

// The limit is four fifths of the median. The median of 1.0, 1.6, 1.8 and 2.0 GHz is 1.7 GHz, so the limit is 1.36 GHz.
// The median of 1.44, 1.8 and 2.0 GHz is 1.8 GHz, so the limit is exactly 1.44 GHz.
func TestClocks(t *testing.T) {
	const a, b, c, d = 1.0, 1.6, 1.8, 2.0
	job := gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: "train-0", UID: "1", Part: "main"}
	tests := map[string]struct {
		clocks []float64 // clocks of the GPUs in GHz
		change func(*gpu.Snapshot)
		want   string // detail of the finding about the first GPU
	}{
		"slow":                               {[]float64{a, b, c, d}, func(*gpu.Snapshot) {}, "1000 MHz, median 1700 MHz"},
		"a fifth below":                      {[]float64{1.44, c, d}, func(*gpu.Snapshot) {}, ""},
		"more than a fifth below the median": {[]float64{1.43, c, d}, func(*gpu.Snapshot) {}, "1430 MHz, median 1800 MHz"},
		"alone":                              {[]float64{a}, func(*gpu.Snapshot) {}, ""},
		"other container":                    {[]float64{a, c, d}, func(s *gpu.Snapshot) { s.GPUs[0].Holders[0].Part = "sidecar" }, "1000 MHz, median 1800 MHz"},
		"other pod":                          {[]float64{a, c, d}, func(s *gpu.Snapshot) { s.GPUs[0].Holders[0].Name = "train-1" }, ""},
		"no pod":                             {[]float64{a, c, d}, func(s *gpu.Snapshot) { s.GPUs[0].Holders = nil }, ""},
		"other model":                        {[]float64{a, c, d}, func(s *gpu.Snapshot) { s.GPUs[0].Model = "NVIDIA L4" }, ""},
		"not busy":                           {[]float64{a, c, d}, func(s *gpu.Snapshot) { s.GPUs[0].Recent.Utilization = 0.8 }, ""},
		"other GPUs not busy":                {[]float64{a, c, d}, func(s *gpu.Snapshot) { s.GPUs[1].Recent.Utilization, s.GPUs[2].Recent.Utilization = 0.8, 0 }, ""},
		"other GPUs not yet known":           {[]float64{a, c, d}, func(s *gpu.Snapshot) { s.GPUs[1].Recent, s.GPUs[2].Recent = nil, nil }, ""},
		"GPU not yet known":                  {[]float64{a, c, d}, func(s *gpu.Snapshot) { s.GPUs[0].Recent = nil }, ""},
		"slow among slower GPUs":             {[]float64{a, b, a, a}, func(*gpu.Snapshot) {}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := node()
			for i, clock := range tt.clocks {
				g := newGPU(i)
				g.Recent = &gpu.Recent{Clock: clock * 1e9, Utilization: 0.81}
				g.Holders = []gpu.Holder{{AccountKey: gpu.AccountKey{Owner: job}}}
				s.GPUs = append(s.GPUs, g)
			}
			tt.change(s)
			got := ""
			for _, e := range health.New(s, now).GPUs[0].Evidence {
				if e.Code != "clock_low" || e.Advice != health.Watch {
					t.Errorf("unexpected finding %v", e)
				}
				got = e.Detail
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestGolden compares the page with the documented page, byte by byte.
func TestGolden(t *testing.T) {
	bad, lost, fine := newGPU(0), newGPU(1), newGPU(2)
	bad.Reading.RowRemap.Failed = true
	bad.Events.Add(gpu.DriverEvent{Code: 48, At: boot.Add(time.Hour)})
	bad.Events.Add(gpu.DriverEvent{Code: 48, At: boot.Add(2 * time.Hour)})
	bad.Fabric.Problems = []gpu.FabricProblem{{Name: "incorrect_configuration", Present: true, Cause: "no_partition"}}
	lost.Present, lost.Reading, lost.Events.Losses = false, nil, 1
	lost.Events.Add(gpu.DriverEvent{Code: 79, At: boot.Add(49 * time.Hour)})
	lost.Events.Add(gpu.DriverEvent{Code: 31, At: boot.Add(49 * time.Hour)})
	fine.ReportsEvents, fine.Reading.RowRemap, fine.Serial = false, nil, "To Be Filled By O.E.M."
	s := node(bad, lost, fine)
	s.DriverGPUs = new(2)
	page, err := json.MarshalIndent(health.New(s, gpu.Instant{Wall: now.Wall.Add(time.Second), Boot: now.Boot + time.Second}), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "health.json", append(page, '\n'))
}

// An unknown value must count as the worst advice.
func TestWorse(t *testing.T) {
	order := []health.Advice{"ok", "watch", "reset", "return", "explode"}
	for i, a := range order {
		for j, b := range order {
			if got, want := health.Worse(a, b), order[max(i, j)]; got != want {
				t.Errorf("%s or %s: %s, want %s", a, b, got, want)
			}
		}
	}
}

func TestRules(t *testing.T) {
	seen := make(map[string]bool)
	for _, r := range health.Rules {
		if seen[r.Code] || r.Advice == "" || r.Advice == health.OK || r.Meaning == "" || r.Source.Address == "" {
			t.Errorf("%s: the code is not unique, or the rule lacks advice, a meaning or a source:%s", r.Code, cmp.Diff(health.Rule{}, r))
		}
		seen[r.Code] = true
	}
}

func reports(g *gpu.GPU, m gpu.HealthMetric, value float64, labels ...string) {
	g.Reading.Health = append(g.Reading.Health, gpu.HealthValue{Metric: m, Labels: labels, Value: value})
}
