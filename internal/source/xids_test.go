package source_test

import (
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// TestErrorsOnce: an error that both are told of is one error, whoever tells it first and
// however late the other is. Nothing that only one is told of is lost.
func TestErrorsOnce(t *testing.T) {
	type tick struct {
		engine, library []uint64 // codes; they happened in the tick, nil if it does not answer
		want            int
	}
	none, one := []uint64{}, []uint64{79}
	tests := map[string][]tick{
		"the engine's word alone":         {{one, none, 1}, {one, none, 1}},
		"the library's word alone":        {{none, one, 1}, {none, one, 1}},
		"both at once":                    {{one, one, 1}, {one, one, 1}, {one, one, 1}},
		"the engine first":                {{one, none, 1}, {none, one, 0}},
		"the library first":               {{none, one, 1}, {one, none, 0}},
		"one after the other, and again":  {{one, none, 1}, {none, one, 0}, {one, none, 1}, {none, one, 0}},
		"a series":                        {{[]uint64{13, 13, 13}, []uint64{13, 13}, 3}, {none, []uint64{13}, 0}},
		"others":                          {{[]uint64{48}, []uint64{63}, 2}},
		"the library is gone":             {{none, none, 0}, {none, nil, 0}, {none, nil, 0}, {one, nil, 1}},
		"the engine is gone":              {{none, none, 0}, {nil, none, 0}, {nil, one, 1}},
		"nobody answers, then the engine": {{none, none, 0}, {nil, nil, 0}, {one, nil, 1}},
	}
	for name, ticks := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBoth(false)
			for i, tt := range ticks {
				b.clock.Advance(time.Second)
				b.says(&b.engine, "dcgm", tt.engine)
				b.says(&b.library, "nvml", tt.library)
				r, err := b.Read(t.Context())
				if n := len(r.XIDs); n != tt.want || (err != nil) != (tt.engine == nil && tt.library == nil) {
					t.Errorf("tick %d: %d errors, want %d; %v", i, n, tt.want, err)
				}
			}
		})
	}
}

// TestWaiting: an engine waits for errors of every GPU, and knows of none that the driver
// tells no events. Without the library's word it is taken at its own.
func TestWaiting(t *testing.T) {
	for _, told := range []bool{false, true} {
		b := newBoth(false)
		b.says(&b.engine, "dcgm", []uint64{})
		b.library.err = errDown
		if d, _ := b.one(t); !d.XIDEvents {
			t.Error("the engine waits for errors alone, and nobody does")
		}
		b.says(&b.library, "nvml", []uint64{})
		b.library.Devices[0].XIDEvents = told
		if d, _ := b.one(t); d.XIDEvents != told {
			t.Errorf("events are told: %v, and the report says %v", told, d.XIDEvents)
		}
		b.engine.Devices[0].XIDEvents = false
		if d, _ := b.one(t); d.XIDEvents != told {
			t.Errorf("events are told: %v, the engine waits for none, and the report says %v", told, d.XIDEvents)
		}
	}
}

// says lets a driver say of a GPU that it had errors just now.
func (b *both) says(s *said, name string, codes []uint64) {
	g := gputest.Plain(0)
	g.Device.XIDEvents = true
	s.of(name, g, b.ago(0))
	for _, code := range codes {
		s.XIDs = append(s.XIDs, gpu.XID{UUID: g.Device.UUID, Code: code, At: b.ago(0).Wall})
	}
	if codes == nil {
		s.err = errDown
	}
}

// TestErrorsOfDays: while no report can be made, errors cost no more than some memory, and
// every one of them is counted.
func TestErrorsOfDays(t *testing.T) {
	b := newBoth(true)
	const days, rare = 5000, 48
	b.says(&b.engine, "dcgm", nil)
	for i := range days {
		b.clock.Advance(time.Second)
		codes := []uint64{79}
		if i == 7 {
			codes = append(codes, rare)
		}
		b.says(&b.library, "nvml", codes)
		if _, err := b.Read(t.Context()); err == nil {
			t.Fatal("a report without the engine")
		}
	}
	b.clock.Advance(time.Second)
	newest := b.ago(time.Second)
	b.says(&b.engine, "dcgm", []uint64{})
	b.says(&b.library, "nvml", []uint64{})
	list := gputest.Read(t, b).XIDs
	var counted gpu.XIDs
	for _, x := range list {
		counted.Add(x)
	}
	if len(list) > 2000 || counted.Count != days+1 || !counted.Last[79].Equal(newest.Wall) || counted.Last[rare].IsZero() {
		t.Errorf("%d errors in %d, last at %v; want %d at %v", counted.Count, len(list), counted.Last, days+1, newest.Wall)
	}
}

// TestLateErrors: an engine that answers again tells what the library told long ago.
func TestLateErrors(t *testing.T) {
	b := newBoth(false)
	b.says(&b.library, "nvml", []uint64{79})
	b.engine.err = errDown
	if n := len(gputest.Read(t, b).XIDs); n != 1 {
		t.Fatalf("%d errors", n)
	}
	b.says(&b.engine, "dcgm", []uint64{79})
	b.library.err = errDown
	b.clock.Advance(10 * time.Minute)
	if n := len(gputest.Read(t, b).XIDs); n != 0 {
		t.Errorf("%d more, after the engine hung", n)
	}
}
