package gpu_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// TestErrorsCountOnce simulates boots with random errors. Each error has a line in the kernel's log and, if the
// exporter runs, a driver event. Lines and events arrive late and in any order, and the exporter restarts and reads the
// log again. Each error must count once.
func TestErrorsCountOnce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	boot := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for run := range 2000 {
		var x gpu.DriverEvents
		x.Since = boot.Add(time.Hour)
		var log []gpu.KernelError
		var events []gpu.DriverEvent
		truth := make(map[uint64]uint64)
		read, before, logged := 0, r.IntN(5), r.IntN(30)
		deliver := func() {
			for len(events) > 0 && r.IntN(2) == 0 {
				x.Add(events[0])
				events = events[1:]
			}
			for read < len(log) && r.IntN(2) == 0 {
				x.AddKernel(log[read])
				read++
			}
		}
		for i := range 30 {
			code, at := []uint64{13, 31, 79}[r.IntN(3)], boot.Add(time.Duration(i)*time.Minute)
			truth[code]++
			log = append(log, gpu.KernelError{Code: code, Sequence: uint64(i), At: at})
			if i >= before {
				events = append(events, gpu.DriverEvent{Code: code, At: at})
			}
			if i >= before && i < logged { // the log has not been read yet
				for len(events) > 0 {
					x.Add(events[0])
					events = events[1:]
				}
			}
			if i >= logged {
				deliver()
			}
			if i > before && r.IntN(8) == 0 { // the exporter restarts
				data, err := json.Marshal(x)
				if err != nil {
					t.Fatal(err)
				}
				x, read = gpu.DriverEvents{}, 0
				if err := json.Unmarshal(data, &x); err != nil {
					t.Fatal(err)
				}
			}
		}
		for len(events) > 0 || read < len(log) {
			deliver()
		}
		sum := uint64(0)
		for code, n := range truth {
			sum += n
			if x.ByCode[code] != n {
				t.Fatalf("run %d, seed %d: %d errors of code %d, want %d", run, seed, x.ByCode[code], code, n)
			}
		}
		if first := log[0]; x.Count != sum || !x.First[first.Code].Equal(boot) || !x.Since.Equal(boot) || !x.Last[log[29].Code].Equal(log[29].At) {
			t.Fatalf("run %d, seed %d: %+v, want %d errors from %v on", run, seed, x, sum, boot)
		}
	}
}
