package collector_test

import (
	"flag"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

func TestProcessModeFlag(t *testing.T) {
	tests := []struct {
		arg     string
		want    collector.ProcessMode
		wantErr bool
	}{
		{arg: "always", want: collector.ProcessAlways},
		{arg: "shared", want: collector.ProcessShared},
		{arg: "never", want: collector.ProcessNever},
		{arg: "sometimes", want: collector.ProcessShared, wantErr: true},
		{arg: "", want: collector.ProcessShared, wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.arg, func(t *testing.T) {
			var got collector.ProcessMode
			fs := flag.NewFlagSet("test", flag.ContinueOnError)
			fs.SetOutput(io.Discard)
			fs.TextVar(&got, "collector.process", collector.ProcessShared, "")
			if err := fs.Parse([]string{"-collector.process=" + tt.arg}); (err != nil) != tt.wantErr {
				t.Errorf("error %v, want an error: %t", err, tt.wantErr)
			}
			if got != tt.want {
				t.Errorf("mode %v, want %v", got, tt.want)
			}
		})
	}
}

func TestProcessShared(t *testing.T) {
	a, b := newAccount("ns", "a", "main"), newAccount("ns", "b", "main")
	second := a
	second.GPUInstance = "2"
	tests := []struct {
		name    string
		holders []gpu.Account
		want    int
	}{
		{"nobody", nil, 0},
		{"one", []gpu.Account{a}, 0},
		{"one pod on two instances", []gpu.Account{a, second}, 0},
		{"two", []gpu.Account{a, b}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			held := newAccount("ns", "held", "main")
			held.Processes = []gpu.ProcessAccount{newProcess(1, "p", 0, 0)}
			g := newGPU(0, held)
			for _, h := range tt.holders {
				g.Holders = append(g.Holders, gpu.Holder{AccountKey: h.AccountKey})
			}
			s := &gpu.Snapshot{GPUs: []gpu.GPU{g}}
			got := byName(gather(t, s, collector.Options{Process: collector.ProcessShared}))["gpuledger_process_info"].GetMetric()
			if diff := cmp.Diff(tt.want, len(got)); diff != "" {
				t.Errorf("number of processes (-want +got):\n%s", diff)
			}
		})
	}
}
