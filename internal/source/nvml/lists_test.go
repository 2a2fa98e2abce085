package nvml_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// Lists of thousands of processes must be read. If a GPU's list contains a million processes, the GPU's processes must
// be unknown. No memory may be allocated for this list. The other GPU must be read.
func TestLongLists(t *testing.T) {
	const processes, samples, accounts = "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetProcessUtilization", "nvmlDeviceGetAccountingPids"
	tests := []struct {
		name, call, do    string
		contexts, samples bool // whether contexts and samples are known
	}{
		{"thousands of processes", processes, "many:1000", true, true},
		{"a million processes", processes, "many:1000000", false, true},
		{"an endless list of processes", processes, "size:2147483647", false, true},
		{"a million graphics processes", "nvmlDeviceGetGraphicsRunningProcesses", "many:1000000", false, true},
		{"hundreds of samples", samples, "many:200", true, true},
		{"a million samples", samples, "many:1000000", true, false},
		{"an endless list of samples", samples, "many:-1", true, false},
		{"a million accounts", accounts, "many:1000000", true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDriver(t, pair())
			s := d.open(gputest.NewClock().Now)
			uuid := d.node.GPUs[0].Device.UUID
			d.fields[uuid] = "accounting=1"
			d.fault(uuid, tt.call, tt.do)
			for range 2 {
				report := gputest.Read(t, s)
				of := func(uuid string) gpu.Reading {
					return report.Readings[slices.IndexFunc(report.Readings, func(r gpu.Reading) bool { return r.UUID == uuid })]
				}
				if r := of(uuid); r.ContextsKnown != tt.contexts || r.SamplesKnown != tt.samples || !tt.contexts && len(r.Contexts) > 0 {
					t.Errorf("processes known %v (%d), samples known %v", r.ContextsKnown, len(r.Contexts), r.SamplesKnown)
				}
				if r := of(d.node.GPUs[1].Device.UUID); !r.ContextsKnown || !r.SamplesKnown {
					t.Error("the processes of the other GPU are unknown")
				}
			}
			stages := d.stages.Snapshot()
			i := slices.IndexFunc(stages, func(st gpu.Stage) bool { return st.Name == string(stage.GPUProcesses) })
			switch st := stages[i]; {
			case tt.contexts && (!st.Up || st.Oversized > 0):
				t.Errorf("stage %+v, want up", st)
			case !tt.contexts && (st.Up || st.Oversized != 2 || !strings.Contains(st.Err, "more than 4096 processes on GPU "+uuid)):
				t.Errorf("stage %+v, want down", st)
			}
		})
	}
}
