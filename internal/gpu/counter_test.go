package gpu_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// The sums over links were computed by hand for four cases: a link restarts, a link is not reported, the driver is
// reloaded, and an exporter reads its saved counts late.
func TestCounts(t *testing.T) {
	links := func(values ...int) (read []gpu.Counter) {
		for link, n := range values {
			if n >= 0 {
				c := gpu.NewCounter(gpu.NVLinkErrors, []string{"receive"}, strconv.Itoa(link))
				c.Count = uint64(n)
				read = append(read, c)
			}
		}
		return read
	}
	var counts gpu.Counts
	for i, tt := range []struct {
		read []gpu.Counter
		want float64
	}{
		{links(100, 1000, 0), 1100}, // first values of the counters
		{links(105, 1000, 0), 1105},
		{links(2, 1000, 1), 1108}, // link 0 restarted and has two errors
		{links(2, -1, 1), 1108},
		{links(2, 1001, 1), 1109},
		{links(0, 0, 3), 1111}, // the driver was loaded again; link 2 has three errors, so either two or three of them are new
		{links(4, 0, 3), 1115},
	} {
		counts = counts.Plus(tt.read)
		want := []gpu.HealthValue{{Metric: gpu.NVLinkErrors, Labels: []string{"receive"}, Value: tt.want}}
		if diff := cmp.Diff(want, counts.Totals(tt.read)); diff != "" {
			t.Errorf("reading %d (-want +got):\n%s", i, diff)
		}
	}
	var later gpu.Counts
	later = later.Plus(links(5, 0, 0)).Plus(links(6, 7, 0)) // these errors were counted before the saved state was read; then link 2 restarted
	joined := counts.Continue(later)
	if got := joined.Totals(links(6, 7, 0))[0].Value; got != 1115+2+7 {
		t.Errorf("after the state was read: %v, want 1124", got)
	}
	if got := counts.Totals(links(6))[0].Value; got != 1115 {
		t.Errorf("the earlier counts changed to %v", got)
	}
	if counts.Totals(nil) != nil {
		t.Error("totals without counters")
	}
}
