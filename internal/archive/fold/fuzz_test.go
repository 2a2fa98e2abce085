package fold_test

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
)

// FuzzFold checks that any values lead to a possible energy. Charges must not be negative, and must add up to the
// energy of the board. This energy must not exceed the board's maximum power. Every nine bytes encode a counter and its
// value.
func FuzzFold(f *testing.F) {
	for _, values := range [][]float64{{1, 2, 3, 4, 5, 6}, {0, 1e308, 0}, {math.Inf(1), 9.3e18, 1}, {-1, 1e15, 40, 41}} {
		var data []byte
		for i, v := range values {
			data = binary.LittleEndian.AppendUint64(append(data, byte(i)), math.Float64bits(v))
		}
		f.Add(data)
	}
	metrics := []struct {
		name   string
		labels []string
	}{
		{boardEnergy, nil},
		{boardBegan, nil},
		{podEnergy, []string{"namespace", "ml", "pod", "p", "pod_uid", "u"}},
		{"gpuledger_board_unattributed_energy_joules_total", []string{"reason", "idle"}},
		{"gpuledger_allocation_created_timestamp_seconds", []string{"namespace", "ml", "pod", "p", "pod_uid", "u"}},
		{"gpuledger_allocation_gpu_seconds_total", []string{"namespace", "ml", "pod", "p", "pod_uid", "u"}},
		{"gpuledger_allocation_seconds_total", []string{"namespace", "ml", "pod", "p", "pod_uid", "u"}},
	}
	const length, most = 9, 4096
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), most)]
		s := foldtest.NewStore()
		scrape := -30 * time.Minute
		for ; len(data) >= length && scrape < 2*time.Hour; data = data[length:] {
			m := metrics[int(data[0])%len(metrics)]
			if data[0] >= 128 {
				scrape += 20 * time.Second // otherwise the value belongs to the previous scrape
			}
			scrape += time.Millisecond
			s.Add(start.Add(scrape), math.Float64frombits(binary.LittleEndian.Uint64(data[1:])), m.name, append([]string{"node", "a", "UUID", "GPU-1"}, m.labels...)...)
		}
		for n := range 2 {
			in := s.Input(start.Add(time.Duration(n) * time.Hour))
			in.Closings() // must not panic
			h, err := fold.Fold(in)
			charged := int64(0)
			for _, c := range h.Charges {
				charged += c.Energy
				if c.Energy < 0 || c.GPUTime < 0 || c.Held < 0 || err != nil && c.Energy+c.GPUTime+c.Held > 0 || c.GPUTime > 27*time.Hour.Milliseconds() {
					t.Errorf("error %v, charge %+v", err, c)
				}
			}
			for _, g := range h.GPUs {
				if g.Energy != charged || g.Energy < 0 || float64(g.Energy) > 27*3.6e6*2*fold.DefaultMaxPower {
					t.Errorf("energy %d mJ, charges %d mJ", g.Energy, charged)
				}
			}
		}
	})
}
