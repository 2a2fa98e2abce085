package footprint_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/gpuledger/gpuledger/internal/footprint"
)

func TestLimit(t *testing.T) {
	growth, processors := debug.SetGCPercent(100), runtime.GOMAXPROCS(64)
	t.Cleanup(func() { debug.SetGCPercent(growth); runtime.GOMAXPROCS(processors) })
	for _, tt := range []struct {
		gogc, gomaxprocs   string
		growth, processors int
	}{
		{"100", "64", 100, 64},
		{"", "", footprint.Exporter, 2},
	} {
		t.Setenv("GOGC", tt.gogc)
		t.Setenv("GOMAXPROCS", tt.gomaxprocs)
		footprint.Limit(footprint.Exporter)
		got := debug.SetGCPercent(100)
		if n := runtime.GOMAXPROCS(0); got != tt.growth || n != tt.processors {
			t.Errorf("GOGC=%s GOMAXPROCS=%s: the heap grows by %d %% on %d processors, want %d on %d", tt.gogc, tt.gomaxprocs, got, n, tt.growth, tt.processors)
		}
	}
	runtime.GOMAXPROCS(1)
	if footprint.Limit(footprint.Exporter); runtime.GOMAXPROCS(0) != 1 {
		t.Error("a machine of one processor got two")
	}
}
