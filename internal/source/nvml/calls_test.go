package nvml_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// Three of the eight GPUs have different properties, so that the program makes all calls.
const (
	plain  = 0 // not in MIG mode, with the older energy counter
	parted = 1 // in MIG mode
	scoped = 2 // with an energy counter that has a scope
	none   = -1
)

func eight() gputest.Node {
	var n gputest.Node
	for i := range 8 {
		n.GPUs = append(n.GPUs, gputest.Full(i))
	}
	n.GPUs[parted] = gputest.Busy(parted)
	n.GPUs[scoped].Device.EnergyScope = gpu.ScopeGPU
	return n
}

// An effect removes from the expected GPU the values that are unknown while a call fails.
type effect func(*gputest.GPU)

// nothing is the effect of a call whose failure changes no value in the report.
func nothing(*gputest.GPU) {}

type call struct {
	// gpu is the index of a GPU for which the call is made, or none.
	gpu int
	// first is the effect of a failure for a new GPU, and later is the effect for a known GPU. nil means that the call
	// is not made for such a GPU.
	first, later effect
}

// calls contains every driver function that the program calls, with seven exceptions. nvmlErrorString never fails.
// Other tests cover the other functions: nvmlDeviceGetGpuFabricInfo (TestOldDriver), nvmlDeviceGetHandleByPciBusId
// (TestReleaseGPU), nvmlDeviceGetAccountingPids and nvmlDeviceGetAccountingStats (TestAccountingFallsBack),
// nvmlGpmSampleGet (TestProfileFails) and nvmlDeviceGetFanSpeed (TestDetailCallFails).
var calls = withTables(map[string]call{
	"nvmlInit":                   {gpu: none},
	"nvmlShutdown":               {gpu: none},
	"nvmlSystemGetDriverVersion": {gpu: none},
	"nvmlSystemGetNVMLVersion":   {gpu: none},
	"nvmlDeviceGetCount":         {gpu: none},
	"nvmlEventSetCreate":         {gpu: none},
	"nvmlEventSetFree":           {gpu: none},
	"nvmlEventSetWait":           {gpu: none},

	"nvmlSystemGetConfComputeState": {gpu: none},
	"nvmlDeviceValidateInforom":     {plain, nothing, nil}, // the call is made once a day

	"nvmlDeviceGetHandleByIndex":                   {plain, lost, nil},
	"nvmlDeviceGetUUID":                            {plain, lost, nil},
	"nvmlDeviceGetName":                            {plain, func(g *gputest.GPU) { g.Device.Model = "" }, nil},
	"nvmlDeviceGetSerial":                          {plain, func(g *gputest.GPU) { g.Device.Serial = "" }, nil},
	"nvmlDeviceGetBoardPartNumber":                 {plain, func(g *gputest.GPU) { g.Device.BoardPartNumber = "" }, nil},
	"nvmlDeviceGetVbiosVersion":                    {plain, func(g *gputest.GPU) { g.Device.VBIOSVersion = "" }, nil},
	"nvmlDeviceGetMinorNumber":                     {plain, func(g *gputest.GPU) { g.Device.DeviceNode = "" }, nil},
	"nvmlDeviceGetPciInfo":                         {plain, func(g *gputest.GPU) { g.Device.PCIBusID = "" }, nil},
	"nvmlDeviceGetPlatformInfo":                    {plain, func(g *gputest.GPU) { g.Device.Platform = gpu.Platform{} }, nil},
	"nvmlDeviceGetGpuFabricInfoV":                  {plain, func(g *gputest.GPU) { g.Device.Fabric = nil }, nil},
	"nvmlDeviceGetPowerManagementLimitConstraints": {plain, func(g *gputest.GPU) { g.Device.MaxPower = *g.Reading.PowerLimit }, nil},
	"nvmlDeviceGetSupportedEventTypes":             {plain, func(g *gputest.GPU) { g.Device.ReportsEvents = false }, nil},
	"nvmlDeviceRegisterEvents":                     {plain, func(g *gputest.GPU) { g.Device.ReportsEvents = false }, nil},

	"nvmlDeviceGetTotalEnergyConsumption": {plain, unmetered, func(g *gputest.GPU) { g.Reading.Energy = nil }},
	"nvmlDeviceGetFieldValues":            {scoped, func(g *gputest.GPU) { unmetered(g); g.Reading.Recovery = "" }, func(g *gputest.GPU) { g.Reading.Energy = nil }},
	"nvmlDeviceGetEnforcedPowerLimit":     always(plain, func(g *gputest.GPU) { g.Reading.PowerLimit = nil }),
	"nvmlDeviceGetRemappedRows":           always(plain, func(g *gputest.GPU) { g.Reading.RowRemap = nil }),
	"nvmlDeviceGetProcessUtilization":     always(plain, func(g *gputest.GPU) { g.Reading.SamplesKnown = false }),

	"nvmlDeviceGetAccountingMode":            always(plain, nothing), // utilisation samples are used instead
	"nvmlDeviceGetCurrentClocksEventReasons": always(plain, nothing), // used only with drivers that have no counters of throttled time
	"nvmlDeviceGetSamples":                   always(plain, nothing), // the idle power is measured later

	"nvmlDeviceGetComputeRunningProcesses":    always(plain, unlisted),
	"nvmlDeviceGetGraphicsRunningProcesses":   always(plain, unlisted),
	"nvmlDeviceGetMPSComputeRunningProcesses": always(plain, unlisted),

	"nvmlDeviceGetMigMode":                {parted, undivided, unlisted},
	"nvmlDeviceGetMaxMigDeviceCount":      {parted, undivided, unlisted},
	"nvmlDeviceGetMigDeviceHandleByIndex": {parted, undivided, unlisted},
	"nvmlDeviceGetGpuInstanceId":          {parted, undivided, nil},
	"nvmlDeviceGetAttributes":             {parted, undivided, nil},
	"nvmlDeviceGetGpuInstanceProfileInfo": {parted, undivided, nil},
	"nvmlDeviceGetGpuInstanceById":        {parted, unplaced, nil},
	"nvmlGpuInstanceGetInfo":              {parted, unplaced, nil},
	"nvmlGpmQueryDeviceSupport":           {parted, nothing, nil},
	"nvmlGpmSampleAlloc":                  {gpu: none},
	"nvmlGpmSampleFree":                   {gpu: none},
	"nvmlGpmMigSampleGet":                 always(parted, nothing), // the value is always unknown in a first reading
	"nvmlGpmMetricsGet":                   {parted, nil, nothing},
})

// No GPU in this test supports these calls, so the program repeats them only after reaskAfter.
var healthCalls = []string{
	"nvmlDeviceGetMemoryErrorCounter", "nvmlDeviceGetSramEccErrorStatus", "nvmlDeviceGetRowRemapperHistogram",
	"nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetMaxPcieLinkWidth",
	"nvmlDeviceGetPerformanceState", "nvmlDeviceGetEncoderUtilization", "nvmlDeviceGetDecoderUtilization",
	"nvmlDeviceGetMarginTemperature", "nvmlDeviceGetSupportedClocksEventReasons", "nvmlDeviceGetNumFans", "nvmlDeviceGetMaxClockInfo",
	"nvmlDeviceGetGspFirmwareVersion", "nvmlDeviceGetInforomImageVersion", "nvmlDeviceGetPersistenceMode", "nvmlDeviceGetComputeMode",
}

// The program repeats an unsupported call within this time.
const reaskAfter = 11 * time.Minute

func withTables(calls map[string]call) map[string]call {
	for _, name := range healthCalls {
		calls[name] = always(plain, nothing)
	}
	for _, info := range gpu.GaugeInfos {
		calls[info.Call] = always(plain, func(g *gputest.GPU) { gputest.DropGauges(g, info.Call) })
	}
	return calls
}

func always(i int, e effect) call { return call{i, e, e} }

func lost(g *gputest.GPU) { g.Lost = true }

func unlisted(g *gputest.GPU) { g.Reading.Contexts, g.Reading.ContextsKnown = nil, false }

func unmetered(g *gputest.GPU) {
	g.Device.EnergySource, g.Device.EnergyScope, g.Reading.Energy = gpu.EnergyNone, "", nil
}

// TestCallsAreKnown compares the table calls with the calls that the program made, and with the driver's function names
// in the source code.
func TestCallsAreKnown(t *testing.T) {
	clock := gputest.NewClock()
	d := newDriver(t, eight())
	s := d.open(clock.Now)
	watch(t, s)
	gputest.Check(t, gputest.Read(t, s), d.node)
	clock.Advance(time.Second)
	gputest.Check(t, gputest.Read(t, s), d.node)
	d.add("xid\tgpu=%s\tseq=1\tcode=79", d.node.GPUs[plain].Device.UUID)
	wantXIDs(t, s, gpu.DriverEvent{UUID: d.node.GPUs[plain].Device.UUID, Code: 79})
	d.node.Loads++
	d.write()
	gputest.Check(t, gputest.Eventually(t, s, "the driver was reloaded", func(_ gpu.Report, err error) bool { return err == nil }), d.node)

	made := make(map[string]bool)
	for line := range strings.Lines(d.log()) {
		made[strings.Split(line, "\t")[1]] = true
	}
	want := slices.Sorted(maps.Keys(calls))
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(made))); diff != "" {
		t.Errorf("calls (-table +made):\n%s", diff)
	}
	want = append(want, "nvmlErrorString", "nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetHandleByPciBusId", "nvmlDeviceGetAccountingPids", "nvmlDeviceGetAccountingStats", "nvmlGpmSampleGet", "nvmlDeviceGetFanSpeed")
	slices.Sort(want)
	source := named(t)
	for _, info := range gpu.GaugeInfos {
		source = append(source, info.Call)
	}
	slices.Sort(source)
	if diff := cmp.Diff(want, slices.Compact(source)); diff != "" {
		t.Errorf("calls (-table +source):\n%s", diff)
	}
}

func named(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	function := regexp.MustCompile(`"(nvml[A-Z]\w*?)(_v\d)?"`)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range function.FindAllSubmatch(source, -1) {
			found[string(m[1])] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
