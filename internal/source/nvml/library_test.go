package nvml_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// If the environment variable oldLibrary contains the path of a library, the test binary only reads this library and
// exits.
const oldLibrary = "GPULEDGER_TEST_OLD_NVML"

func printReport(path string) {
	clock, log := gputest.NewClock(), slog.New(slog.DiscardHandler)
	s := nvml.New(nvml.Config{LibraryPath: path, CallTimeout: gputest.HangTimeout, Now: clock.Now, Log: log, Stages: stage.New(log, clock.Now)})
	_, first := s.Read(context.Background())
	clock.Advance(time.Second)
	report, err := s.Read(context.Background())
	if err = errors.Join(first, err); err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		err = errors.Join(s.Run(ctx), s.Close(time.Minute), json.NewEncoder(os.Stdout).Encode(report))
	}
	if err != nil {
		panic(err)
	}
}

// TestOldDriver reads libraries without some of the functions, each in a separate process, because a call to a missing
// function ends the process.
func TestOldDriver(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	tests := []struct {
		name    string
		node    func() gputest.Node
		without []string
		want    func(*gputest.GPU)
	}{
		{"newer functions", pair, []string{
			"nvmlDeviceGetPlatformInfo", "nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetGpuFabricInfoV",
			"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlEventSetFree",
		}, func(g *gputest.GPU) {
			g.Device.Platform, g.Device.Fabric = gpu.Platform{}, nil
			g.Reading.Contexts = slices.DeleteFunc(g.Reading.Contexts, func(c gpu.Context) bool { return c.MPS })
		}},
		{"all optional calls", pair, append(gaugeCallsBut("nvmlDeviceGetTemperature"),
			"nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion",
			"nvmlDeviceGetName", "nvmlDeviceGetSerial", "nvmlDeviceGetBoardPartNumber", "nvmlDeviceGetVbiosVersion",
			"nvmlDeviceGetMinorNumber", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPlatformInfo", "nvmlDeviceGetGpuFabricInfo",
			"nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetPowerManagementLimitConstraints", "nvmlDeviceGetEnforcedPowerLimit",
			"nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetFieldValues", "nvmlDeviceGetRemappedRows",
			"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3",
			"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetProcessUtilization",
			"nvmlEventSetCreate", "nvmlEventSetFree", "nvmlEventSetWait_v2", "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents",
			"nvmlDeviceGetMigMode", "nvmlDeviceGetMemoryInfo_v2",
		), func(g *gputest.GPU) {
			temperature := g.Reading.Gauges[gpu.Temperature]
			*g = gputest.Bare(g.Device.Index)
			g.Reading.Gauges[gpu.Temperature] = temperature
		}},
		{"MIG", divided, []string{
			"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
			"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetAttributes_v2", "nvmlDeviceGetGpuInstanceProfileInfo",
			"nvmlDeviceGetGpuInstanceById", "nvmlGpuInstanceGetInfo",
		}, func(g *gputest.GPU) {
			if g.Device.Partitions != nil { // the library has only the lists of the whole GPU, which are empty
				g.Device.Partitions, g.Reading.Contexts = nil, nil
			}
		}},
		{"the number of MIG devices", divided, []string{"nvmlDeviceGetMaxMigDeviceCount"}, undivided},
		{"MIG devices", divided, []string{"nvmlDeviceGetMigDeviceHandleByIndex"}, undivided},
		{"the ids of instances", divided, []string{"nvmlDeviceGetGpuInstanceId"}, undivided},
		{"the slices of instances", divided, []string{"nvmlDeviceGetAttributes_v2"}, undivided},
		{"the GPU's slices", divided, []string{"nvmlDeviceGetGpuInstanceProfileInfo"}, func(g *gputest.GPU) {
			if g.Device.Partitions != nil {
				g.Device.Partitions.Slices = 0
			}
		}},
		{"instances", divided, []string{"nvmlDeviceGetGpuInstanceById"}, unplaced},
		{"the place of instances", divided, []string{"nvmlGpuInstanceGetInfo"}, unplaced},
		{"the reserve of the memory", pair, []string{"nvmlDeviceGetMemoryInfo_v2"}, func(g *gputest.GPU) {
			sum := *g.Reading.Gauges[gpu.MemoryUsed] + *g.Reading.Gauges[gpu.MemoryReserved]
			g.Reading.Gauges[gpu.MemoryUsed], g.Reading.Gauges[gpu.MemoryReserved] = &sum, nil
		}},
		{"the first version of the memory", pair, []string{"nvmlDeviceGetMemoryInfo"}, nil},
		{"nothing", working, nil, nil},
		{"GPM", working, []string{
			"nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleFree", "nvmlGpmMigSampleGet", "nvmlGpmMetricsGet",
		}, unmonitored},
		{"accounts", pair, []string{"nvmlDeviceGetAccountingStats_v2"}, nil},
		{"the list of accounts", pair, []string{"nvmlDeviceGetAccountingPids"}, nil},
		{"the mode of accounting", pair, []string{"nvmlDeviceGetAccountingMode"}, nil},
		{"GPM's word", working, []string{"nvmlGpmQueryDeviceSupport"}, unmonitored},
		{"buffers", working, []string{"nvmlGpmSampleAlloc"}, unmonitored},
		{"the sample buffers", working, []string{"nvmlGpmSampleFree"}, unmonitored},
		{"samples of instances", working, []string{"nvmlGpmMigSampleGet"}, unmonitored},
		{"metrics", working, []string{"nvmlGpmMetricsGet"}, unmonitored},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path, err := fakes.Without(libraryPath, t.TempDir(), tt.without...)
			if err != nil {
				t.Fatal(err)
			}
			n := tt.node()
			d := newDriver(t, n)
			for _, g := range n.GPUs {
				d.fields[g.Device.UUID] = "accounting=1"
			}
			d.write()
			program := exec.CommandContext(t.Context(), os.Args[0])
			program.Env = append(os.Environ(), oldLibrary+"="+path)
			program.Stderr = t.Output()
			out, err := program.Output()
			if err != nil {
				t.Fatal(err)
			}
			var report gpu.Report
			if err := json.Unmarshal(out, &report); err != nil {
				t.Fatal(err)
			}
			known := report.Readings[0].InstancesKnown
			for i := range n.GPUs {
				if tt.want != nil {
					tt.want(&n.GPUs[i])
				}
			}
			gputest.Check(t, report, n)
			if want := n.GPUs[0].Reading.InstancesKnown; known != want {
				t.Errorf("instances are known: %v, want %v", known, want)
			}
		})
	}
}

func undivided(g *gputest.GPU) {
	if g.Device.Partitions != nil {
		g.Device.Partitions, g.Reading.Contexts, g.Reading.ContextsKnown = nil, nil, false
	}
}

func unmonitored(g *gputest.GPU) { g.Reading.Instances, g.Reading.InstancesKnown = nil, false }

func unplaced(g *gputest.GPU) {
	if g.Device.Partitions == nil {
		return
	}
	for i := range g.Device.Partitions.Instances {
		g.Device.Partitions.Instances[i].ProfileID, g.Device.Partitions.Instances[i].Start = -1, -1
	}
}

func gaugeCallsBut(but string) (calls []string) {
	for _, info := range gpu.GaugeInfos {
		if info.Call != but {
			calls = append(calls, info.Call)
		}
	}
	return calls
}
