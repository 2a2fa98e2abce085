package workloads_test

import (
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/reconciler/workloads"
)

func TestKeepsNothingOfPodsThatAreGone(t *testing.T) {
	w := workloads.New(options(t, nil), slog.New(slog.DiscardHandler))
	before := int64(heap())
	for i := range 64 {
		owner := object("v1", strconv.Itoa(i)+strings.Repeat("k", 1<<20), "team-a", "x", nil)
		w.Keep(gpuPod("p", "1", owner))
	}
	if grown := int64(heap()) - before; grown > 8<<20 {
		t.Errorf("%d bytes are still held after 64 pods were deleted", grown)
	}
	runtime.KeepAlive(w)
}
