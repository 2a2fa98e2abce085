package app_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/app"
)

func TestBadFlags(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--no-such-flag"}, "-no-such-flag"},
		{[]string{"--tick=soon"}, `"soon" for flag -tick`},
		{[]string{"--tick=1ms"}, "--tick=1ms: must be at least 200ms"},
		{[]string{"--tick=1m"}, "--tick=1m0s: must be at most 30s"},
		{[]string{"--retention=-1s"}, "--retention=-1s"},
		{[]string{"--kubelet.pod-resources-socket=kubelet.sock"}, "--kubelet.pod-resources-socket=kubelet.sock: must be an absolute path"},
		{[]string{"--kubelet.resource-pattern=("}, `"(" for flag -kubelet.resource-pattern`},
		{[]string{"--kubelet.resource-pattern="}, "-kubelet.resource-pattern: must not be empty"},
		{[]string{"--state.path=state"}, "--state.path=state"},
		{[]string{"--nvml.library=libnvidia-ml.so.1"}, "--nvml.library=libnvidia-ml.so.1"},
		{[]string{"--web.listen-address=9840"}, `"9840" for flag -web.listen-address`},
		{[]string{"--web.listen-address=:99999"}, `":99999" for flag -web.listen-address`},
		{[]string{"--web.config.file=/does/not/exist"}, "--web.config.file=/does/not/exist"},
		{[]string{"--log.level=loud"}, `"loud" for flag -log.level`},
		{[]string{"--log.format=xml"}, "--log.format=xml"},
		{[]string{"--collector.process=sometimes"}, `"sometimes" for flag -collector.process`},
		{[]string{"--collector.process.max=0"}, "--collector.process.max=0"},
		{[]string{"--source=rocm"}, "--source=rocm: must be auto, nvml or amd"},
		{[]string{"--amd.fdinfo"}, "--amd.fdinfo: must be used with --sandbox=false"},
		{[]string{"--source=dcgm"}, "--source=dcgm: readings come from NVML, and a host engine only adds values"},
		{[]string{"--dcgm.address=run/dcgm.sock"}, "--dcgm.address=run/dcgm.sock: must be a socket path"},
		{[]string{"--xid.kernel-log=kmsg"}, "--xid.kernel-log=kmsg: must be an absolute path"},
		{[]string{"--dcgm.library=libdcgm.so.4"}, "--dcgm.library=libdcgm.so.4: must be an absolute path"},
		{[]string{"--units.rootless-dir=names"}, "--units.rootless-dir=names: must be an absolute path"},
		{[]string{"--dcgm.fields=default"}, "--dcgm.fields=default: --dcgm.address must be set"},
		{[]string{"--gpu-metrics.source=amd"}, "--gpu-metrics.source=amd: must be auto, nvml or dcgm"},
		{[]string{"--gpu-metrics.source=dcgm"}, "--gpu-metrics.source=dcgm: --dcgm.address and --dcgm.fields must be set"},
		{[]string{"--gpu-metrics.source=nvml", "--dcgm.fields=/dev/null"}, "--dcgm.fields=/dev/null: no valid field"},
		{[]string{"--dcgm.profiling"}, "--dcgm.profiling: --dcgm.address must be set"},
		{[]string{"--dcgm.address=localhost", "--dcgm.fields=/does/not/exist"}, "--dcgm.fields: open /does/not/exist"},
		{[]string{"--dcgm.address=localhost", "--dcgm.fields=/dev/null"}, "--dcgm.fields=/dev/null: no valid field"},
		{[]string{"--web.max-requests=0"}, "--web.max-requests=0: must be at least 1"},
		{[]string{"serve"}, `unexpected argument "serve"`},
		{[]string{"status", "--tick=1s"}, "-tick"},
		{[]string{"status", "now"}, `unexpected argument "now"`},
		{[]string{"release", "--for=-1s"}, "--for=-1s: must be 0 to 24h0m0s"},
		{[]string{"release", "--for=25h"}, "--for=25h0m0s: must be 0 to 24h0m0s"},
		{[]string{"release", "--state.path=state"}, "--state.path=state: must be an absolute path"},
		{[]string{"release", "now"}, `unexpected argument "now"`},
		{[]string{"--nvml.restart-after=-1s"}, "--nvml.restart-after=-1s"},
		{[]string{"--tick=1ms", "--state.path=state"}, "--state.path=state"},
		{[]string{"--idle-power=70"}, `"70" for flag -idle-power: must be model=watts`},
		{[]string{"--idle-power==70"}, "-idle-power: the model must not be empty"},
		{[]string{"--idle-power=NVIDIA L4=warm"}, "-idle-power: the power must be a number of watts"},
		{[]string{"--idle-power=NVIDIA L4=-1"}, "-idle-power: the power must be a number of watts"},
		{[]string{"--idle-power=NVIDIA L4=NaN"}, "-idle-power: the power must be a number of watts"},
		{[]string{"--idle-power=NVIDIA L4=12", "--idle-power=NVIDIA L4=13"}, "-idle-power: the model must not be given twice"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			if _, err := app.Parse(tt.args, os.Getenv); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// TestIdlePowerFlag checks that --idle-power may be repeated, and that the name of a model may
// contain an equals sign.
func TestIdlePowerFlag(t *testing.T) {
	cfg, err := app.Parse([]string{"--idle-power=NVIDIA L4=13.5", "--idle-power", "A=B = 70"}, os.Getenv)
	want := app.IdlePowers{"NVIDIA L4": 13.5, "A=B": 70}
	if diff := cmp.Diff(want, cfg.IdlePower); diff != "" || err != nil {
		t.Errorf("idle powers (-want +got), %v:\n%s", err, diff)
	}
}
