package app_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

// gpuCalls lists the driver calls for a GPU or one of its MIG devices. driverCalls lists all other driver calls.
// TestDriverFaults fails if the exporter makes a call that is in neither list.
var (
	gpuCalls = withGauges(
		"nvmlDeviceGetAccountingMode", "nvmlDeviceGetAttributes", "nvmlDeviceGetBoardPartNumber",
		"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetFieldValues",
		"nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuInstanceById", "nvmlDeviceGetGpuInstanceId",
		"nvmlDeviceGetGpuInstanceProfileInfo", "nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetHandleByIndex",
		"nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetMaxMigDeviceCount",
		"nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetMigMode", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetName",
		"nvmlDeviceGetPciInfo", "nvmlDeviceGetPlatformInfo", "nvmlDeviceGetPowerManagementLimitConstraints",
		"nvmlDeviceGetProcessUtilization", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetSamples", "nvmlDeviceGetSerial",
		"nvmlDeviceGetSupportedEventTypes", "nvmlDeviceGetTotalEnergyConsumption",
		"nvmlDeviceGetMemoryErrorCounter", "nvmlDeviceGetSramEccErrorStatus", "nvmlDeviceGetRowRemapperHistogram", "nvmlDeviceGetCurrPcieLinkGeneration",
		"nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetMaxPcieLinkWidth", "nvmlDeviceGetPerformanceState",
		"nvmlDeviceGetEncoderUtilization", "nvmlDeviceGetDecoderUtilization",
		"nvmlDeviceGetMarginTemperature", "nvmlDeviceGetSupportedClocksEventReasons", "nvmlDeviceGetNumFans", "nvmlDeviceGetMaxClockInfo",
		"nvmlDeviceGetGspFirmwareVersion", "nvmlDeviceGetInforomImageVersion", "nvmlDeviceValidateInforom", "nvmlDeviceGetPersistenceMode",
		"nvmlDeviceGetComputeMode",
		"nvmlDeviceGetUUID", "nvmlDeviceGetVbiosVersion", "nvmlDeviceRegisterEvents",
		"nvmlGpmMetricsGet", "nvmlGpmMigSampleGet", "nvmlGpmSampleGet", "nvmlGpmQueryDeviceSupport", "nvmlGpuInstanceGetInfo",
	)
	driverCalls = []string{
		"nvmlDeviceGetCount", "nvmlEventSetCreate", "nvmlEventSetFree", "nvmlGpmSampleAlloc", "nvmlGpmSampleFree",
		"nvmlInit", "nvmlShutdown", "nvmlSystemGetConfComputeState", "nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion",
	}
)

func withGauges(calls ...string) []string {
	for _, info := range gpu.GaugeInfos {
		if !slices.Contains(calls, info.Call) {
			calls = append(calls, info.Call)
		}
	}
	return calls
}

var (
	gpuFaults    = []string{"fail:1", "fail:3", "fail:15", "fail:999", "blank", "drop"}
	driverFaults = []string{"fail:1", "fail:3", "fail:999"}
)

// TestDriverFaults checks the exporter while each driver call in turn fails or returns no values. While one GPU has a
// fault, the other GPUs must be read. The charges for each GPU must always add up to the energy of the GPU. After the
// faults, every GPU must be read again, and its recorded energy must be the energy that its counter counted. Calls that
// hang or return late need real time, so the tests of such calls are in internal/source/nvml and cmd/gpuledger.
func TestDriverFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	for _, scenario := range []string{"timeslice", "mig"} {
		t.Run(scenario, func(t *testing.T) {
			sc, err := simnode.Lookup(scenario)
			if err != nil {
				t.Fatal(err)
			}
			sc.Sampling.Power = 100 * time.Millisecond // so that nvmlDeviceGetSamples is called repeatedly
			b := benchOf(t, sc, false, "--collector.health.details", "--collector.profiling")
			b.run(5)
			b.breakGPU(b.gpus()[0].UUID)
			b.breakDriver()
			b.run(60) // longer than every retry interval
			b.checkRead("without faults", "")
			b.checkCounters()
			b.checkCalls()
		})
	}
}

func (b *bench) breakGPU(uuid string) {
	b.t.Helper()
	for _, call := range gpuCalls {
		for _, do := range gpuFaults {
			b.fault(simnode.Fault{GPU: uuid, Call: call, Do: do})
			b.run(1)
			b.checkRead(call+": "+do, uuid)
			b.fault()
			b.run(1)
		}
	}
}

func (b *bench) breakDriver() {
	b.t.Helper()
	for _, call := range driverCalls {
		for _, do := range driverFaults {
			b.fault(simnode.Fault{GPU: "*", Call: call, Do: do})
			b.run(2)
			b.balanced()
			b.fault()
			b.run(1)
		}
	}
}

func (b *bench) gpus() []gpu.GPU { return b.node.Sampler.Latest().GPUs }

func (b *bench) fault(faults ...simnode.Fault) {
	b.t.Helper()
	if err := b.world.SetFaults(faults...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) checkRead(when, except string) {
	b.t.Helper()
	b.balanced()
	for _, g := range b.gpus() {
		if g.UUID != except && (g.Reading == nil || !g.Present) {
			b.t.Errorf("%s: %s was not read", when, g.UUID)
		}
	}
}

func (b *bench) checkCounters() {
	b.t.Helper()
	history, err := simnode.ReadTruth(filepath.Join(b.world.Dir(), "truth.jsonl"))
	if err != nil {
		b.t.Fatal(err)
	}
	counter := func(uuid string, at time.Time) gpu.Millijoules {
		i := slices.IndexFunc(history, func(row simnode.Truth) bool { return row.Time == at.UnixNano() })
		if i < 0 {
			b.t.Fatalf("truth has no row at %v", at)
		}
		return *history[i].GPU(uuid).Counter
	}
	for _, g := range b.gpus() {
		if want := counter(g.UUID, g.Book.Settled.Wall) - counter(g.UUID, g.Book.Opened); g.Book.Energy != want {
			b.t.Errorf("%s: the book contains %d mJ, but the counter increased by %d mJ", g.UUID, g.Book.Energy, want)
		}
	}
}

func (b *bench) checkCalls() {
	b.t.Helper()
	log, err := os.ReadFile(filepath.Join(b.world.Dir(), "driver", "calls.tsv"))
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		fields := strings.Split(line, "\t")
		known := driverCalls
		if fields[2] != "-" {
			known = gpuCalls
		}
		if !slices.Contains(known, fields[1]) {
			b.t.Fatalf("gpuCalls and driverCalls do not contain %s, so its faults are not tested", fields[1])
		}
	}
}
