package cli_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/gpuledger/gpuledger/internal/cli"
)

func TestLimit(t *testing.T) {
	growth, processors := debug.SetGCPercent(100), runtime.GOMAXPROCS(64)
	t.Cleanup(func() { debug.SetGCPercent(growth); runtime.GOMAXPROCS(processors) })
	for _, tt := range []struct {
		gogc, gomaxprocs   string
		growth, processors int
	}{
		{"100", "64", 100, 64},
		{"", "", cli.ExporterGrowth, 2},
	} {
		t.Setenv("GOGC", tt.gogc)
		t.Setenv("GOMAXPROCS", tt.gomaxprocs)
		cli.LimitFootprint(cli.ExporterGrowth)
		got := debug.SetGCPercent(100)
		if n := runtime.GOMAXPROCS(0); got != tt.growth || n != tt.processors {
			t.Errorf("GOGC=%s GOMAXPROCS=%s: heap growth %d %% on %d processors, want %d on %d", tt.gogc, tt.gomaxprocs, got, n, tt.growth, tt.processors)
		}
	}
	runtime.GOMAXPROCS(1)
	if cli.LimitFootprint(cli.ExporterGrowth); runtime.GOMAXPROCS(0) != 1 {
		t.Error("GOMAXPROCS rose from 1 to 2")
	}
}
