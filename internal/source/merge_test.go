package source_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/source"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// said is a driver that says what it is told to.
type said struct {
	gpu.Report
	err error
}

func (s *said) Read(context.Context) (gpu.Report, error) {
	if s.err != nil {
		return gpu.Report{}, s.err
	}
	r := s.Report
	s.XIDs = nil // each is told once
	return r, nil
}

func (s *said) Close(time.Duration) error { return nil }

// of makes the driver's report one of one GPU.
func (s *said) of(name string, g gputest.GPU, at gpu.Instant) {
	g.Reading.UUID, g.Reading.At = g.Device.UUID, at
	s.err, s.Report = nil, gpu.Report{Driver: gpu.Driver{Source: name}, Devices: []gpu.Device{g.Device}, Readings: []gpu.Reading{g.Reading}}
}

// both is a source of two drivers that say what they are told to.
type both struct {
	*source.Source
	engine, library said
	clock           *gputest.Clock
}

func newBoth(alone bool) *both {
	b := &both{clock: gputest.NewClock()}
	log := slog.New(slog.DiscardHandler)
	b.Source = source.New(source.Config{
		NVML: &b.library, DCGM: &b.engine, Alone: alone, Now: b.clock.Now, Log: log, Stages: stage.New(log, b.clock.Now),
	})
	return b
}

// ago is a moment before now.
func (b *both) ago(d time.Duration) gpu.Instant {
	now := b.clock.Now()
	return gpu.Instant{Wall: now.Wall.Add(-d), Boot: now.Boot - d}
}

// one reads the source, which must report one GPU.
func (b *both) one(t *testing.T) (gpu.Device, gpu.Reading) {
	t.Helper()
	r := gputest.Read(t, b)
	if len(r.Devices) != 1 || len(r.Readings) != 1 {
		t.Fatalf("%d devices, %d readings", len(r.Devices), len(r.Readings))
	}
	return r.Devices[0], r.Readings[0]
}

var errDown = errors.New("down")

// metered returns a GPU with a counter of a scope.
func metered(scope gpu.EnergyScope, mJ gpu.Millijoules) gputest.GPU {
	g := gputest.Plain(0)
	g.Device.EnergyScope, g.Reading.Energy = scope, &mJ
	return g
}

// TestMeter: a GPU's energy is of one counter, whoever answers when.
func TestMeter(t *testing.T) {
	const theirs, ours = 7_000_000, 1_000_000
	none := gputest.Plain(0)
	none.Device.EnergySource, none.Device.EnergyScope, none.Reading.Energy = gpu.EnergyNone, "", nil
	summed := metered(gpu.ScopeUnknown, ours)
	summed.Device.EnergySource = gpu.EnergyPower
	tests := map[string]struct {
		engine, library gputest.GPU
		want            gpu.Millijoules // 0 for none
		scope           gpu.EnergyScope
		source          gpu.EnergySource
		// alone is what is left if the library then fails.
		alone gpu.Millijoules
	}{
		"the board's":             {metered(gpu.ScopeUnknown, theirs), metered(gpu.ScopeUnknown, ours), theirs, gpu.ScopeUnknown, gpu.EnergyCounter, theirs},
		"the board's, of modules": {metered(gpu.ScopeUnknown, theirs), metered(gpu.ScopeModule, ours), theirs, gpu.ScopeModule, gpu.EnergyCounter, theirs},
		"the GPU's own":           {metered(gpu.ScopeUnknown, theirs), metered(gpu.ScopeGPU, ours), ours, gpu.ScopeGPU, gpu.EnergyCounter, 0},
		"power alone":             {none, summed, ours, gpu.ScopeUnknown, gpu.EnergyPower, 0},
		"the engine's alone":      {metered(gpu.ScopeUnknown, theirs), none, theirs, gpu.ScopeUnknown, gpu.EnergyCounter, theirs},
		"nobody's":                {none, none, 0, "", gpu.EnergyNone, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBoth(true)
			check := func(when string, want gpu.Millijoules) {
				t.Helper()
				d, r := b.one(t)
				if got := r.Energy; want == 0 && got != nil || want != 0 && (got == nil || *got != want) {
					t.Errorf("%s: energy is %v, want %d", when, got, want)
				}
				if d.EnergyScope != tt.scope || d.EnergySource != tt.source {
					t.Errorf("%s: %q of %q, want %q of %q", when, d.EnergySource, d.EnergyScope, tt.source, tt.scope)
				}
			}
			for range 3 {
				b.engine.of("dcgm", tt.engine, b.ago(300*time.Millisecond))
				b.library.of("nvml", tt.library, b.ago(0))
				check("both answer", tt.want)
				b.clock.Advance(time.Second)
			}
			b.library.err = errDown
			for range 20 {
				b.engine.of("dcgm", tt.engine, b.ago(300*time.Millisecond))
				check("the library is gone", tt.alone)
				b.clock.Advance(time.Second)
			}
			b.library.of("nvml", tt.library, b.ago(0))
			check("it is back", tt.want)
		})
	}
}

// TestLateLibrary: while the library may still say that it knows a better counter, there
// is no energy; then the engine's counts, and goes on counting.
func TestLateLibrary(t *testing.T) {
	b := newBoth(false)
	b.library.err = errDown
	for i := range 15 {
		b.engine.of("dcgm", metered(gpu.ScopeUnknown, 1000), b.ago(0))
		if _, r := b.one(t); (r.Energy != nil) != (i >= 10) {
			t.Errorf("after %d seconds energy is %v", i, r.Energy)
		}
		b.clock.Advance(time.Second)
	}
	b.engine.of("dcgm", metered(gpu.ScopeUnknown, 2000), b.ago(0))
	b.library.of("nvml", metered(gpu.ScopeGPU, 5), b.ago(0))
	if _, r := b.one(t); r.Energy == nil || *r.Energy != 2000 {
		t.Errorf("energy is %v", r.Energy)
	}
	for _, lost := range []func(){
		func() { b.engine.err = errDown },
		func() { b.engine.of("dcgm", metered(gpu.ScopeUnknown, 3000), b.ago(0)); b.engine.Readings = nil },
		func() { b.engine.Devices, b.engine.Readings = nil, nil },
	} {
		b.clock.Advance(time.Second)
		lost()
		b.library.of("nvml", metered(gpu.ScopeGPU, 6), b.ago(0))
		if d, r := b.one(t); r.Energy != nil || d.EnergyScope != gpu.ScopeUnknown {
			t.Errorf("energy is %v of %q, of another counter", *r.Energy, d.EnergyScope)
		}
	}
}

// TestLateReading: a library that does not read a GPU in time has no say in its counter.
func TestLateReading(t *testing.T) {
	b := newBoth(false)
	summed := metered(gpu.ScopeUnknown, 1000)
	summed.Device.EnergySource = gpu.EnergyPower
	for i := range 2 {
		b.engine.of("dcgm", metered(gpu.ScopeUnknown, 9000), b.ago(0))
		b.library.of("nvml", summed, b.ago(0))
		if i == 0 {
			b.library.Readings = nil
		}
		if _, r := b.one(t); (r.Energy != nil) != (i > 0) || i > 0 && *r.Energy != 9000 {
			t.Errorf("tick %d: %+v", i, r)
		}
		b.clock.Advance(time.Second)
	}
}

// TestLateEngine: the counter that the library served before the engine answered is served
// afterwards too.
func TestLateEngine(t *testing.T) {
	summed := metered(gpu.ScopeUnknown, 1000)
	summed.Device.EnergySource = gpu.EnergyPower
	for _, library := range []gputest.GPU{metered(gpu.ScopeGPU, 1000), summed} {
		b := newBoth(false)
		b.engine.err = errDown
		for i := range 4 {
			if i > 1 {
				b.engine.of("dcgm", metered(gpu.ScopeUnknown, 9000), b.ago(0))
			}
			b.library.of("nvml", library, b.ago(0))
			if _, r := b.one(t); *r.Energy != 1000 {
				t.Errorf("tick %d: energy is %d", i, *r.Energy)
			}
			b.clock.Advance(time.Second)
		}
	}
}

// TestHeld: the engine read the counter before the reading that came last, so nobody will
// look at its reading. What was sampled for it comes with the next one.
func TestHeld(t *testing.T) {
	b := newBoth(false)
	sampled := func(pid uint32) gputest.GPU {
		g := gputest.Plain(0)
		now := b.clock.Now().Boot
		g.Reading.SamplesKnown, g.Reading.Sampled = true, gpu.Span{From: now - time.Second, To: now}
		g.Reading.Samples = []gpu.Sample{{PID: pid, Span: g.Reading.Sampled, SM: 0.5}}
		g.Reading.InstancesKnown, g.Reading.Instances = true, []gpu.InstanceSample{{Instance: "1", Span: g.Reading.Sampled}}
		return g
	}
	b.engine.err = errDown
	b.library.of("nvml", sampled(1), b.ago(0))
	b.one(t)
	began := b.clock.Now().Boot
	for i, tt := range []struct {
		age  time.Duration // of the engine's reading
		want []uint32      // whose samples there are
		from time.Duration // from when on they are, since the first reading
	}{
		{age: 3 * time.Second, want: []uint32{2}, from: 0},
		{age: 2 * time.Second, want: []uint32{3}, from: time.Second},
		{age: time.Second, want: []uint32{2, 3, 4}, from: 0}, // the first that is newer
		{age: 100 * time.Millisecond, want: []uint32{5}, from: 3 * time.Second},
	} {
		b.clock.Advance(time.Second)
		b.engine.of("dcgm", gputest.Plain(0), b.ago(tt.age))
		b.library.of("nvml", sampled(uint32(2+i)), b.ago(0))
		_, r := b.one(t)
		var pids []uint32
		for _, s := range r.Samples {
			pids = append(pids, s.PID)
		}
		if diff := cmp.Diff(tt.want, pids); diff != "" || r.Sampled.From != began+tt.from || len(r.Instances) != len(tt.want) {
			t.Errorf("reading %d: samples from %v, %d instances (-want +got):\n%s", i, r.Sampled.From-began, len(r.Instances), diff)
		}
	}
}

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

// TestEngineAlone: while the engine that must serve does not, what the library tells once
// is kept for the next report, and what it sampled for a minute.
func TestEngineAlone(t *testing.T) {
	b := newBoth(true)
	for i := range 100 {
		b.clock.Advance(time.Second)
		b.says(&b.engine, "dcgm", []uint64{})
		b.says(&b.library, "nvml", []uint64{})
		if i == 1 {
			b.says(&b.library, "nvml", []uint64{79})
		}
		if 0 < i && i < 3 || 10 <= i && i < 99 {
			b.engine.err = errDown
		}
		r := &b.library.Readings[0]
		r.SamplesKnown, r.Sampled = true, gpu.Span{From: r.At.Boot - time.Second, To: r.At.Boot}
		r.Samples = []gpu.Sample{{PID: uint32(i), Span: r.Sampled}}
		report, err := b.Read(t.Context())
		if (err != nil) != (b.engine.err != nil) {
			t.Fatal(err)
		}
		want, ok := map[int]struct{ samples, xids int }{0: {1, 0}, 3: {3, 1}, 4: {1, 0}, 9: {1, 0}, 99: {61, 0}}[i]
		if !ok {
			continue
		}
		got := report.Readings[0]
		if n := len(got.Samples); n != want.samples || got.Sampled.Len() != time.Duration(n)*time.Second || len(report.XIDs) != want.xids {
			t.Errorf("tick %d: %d samples of %v and %d errors, want %+v", i, n, got.Sampled.Len(), len(report.XIDs), want)
		}
	}
}

// TestStale: a GPU that the engine has stopped reading is read by the library.
func TestStale(t *testing.T) {
	for _, scope := range []gpu.EnergyScope{gpu.ScopeUnknown, gpu.ScopeModule, gpu.ScopeGPU} {
		b := newBoth(false)
		for i := range 5 {
			b.clock.Advance(time.Second)
			mJ := gpu.Millijoules(1000 * i)
			b.engine.of("dcgm", metered(gpu.ScopeUnknown, mJ), b.ago(0))
			if i >= 2 {
				b.engine.Readings = nil
			}
			b.library.of("nvml", metered(scope, mJ), b.ago(0))
			if _, r := b.one(t); r.Energy == nil || *r.Energy != mJ || r.At != b.ago(0) {
				t.Errorf("%s, tick %d: reading %+v", scope, i, r)
			}
		}
	}
}

// TestServing: who serves, and what is said if nobody does.
func TestServing(t *testing.T) {
	for _, alone := range []bool{false, true} {
		b := newBoth(alone)
		b.engine.err, b.library.err = errDown, errors.New("no driver")
		if _, err := b.Read(t.Context()); !errors.Is(err, errDown) || !alone && !strings.Contains(err.Error(), "no driver") {
			t.Errorf("alone: %v: error is %v", alone, err)
		}
		b.library.of("nvml", gputest.Plain(0), b.ago(0))
		if r, err := b.Read(t.Context()); alone != (err != nil) || !alone && r.Driver.Source != "nvml" {
			t.Errorf("alone: %v: %q serves, error %v", alone, r.Driver.Source, err)
		}
		b.engine.of("dcgm", gputest.Plain(0), b.ago(0))
		if r := gputest.Read(t, b); r.Driver.Source != "dcgm" {
			t.Errorf("alone: %v: %q serves", alone, r.Driver.Source)
		}
	}
}

// TestPageStays: the field page outlives the engine by half a minute.
func TestPageStays(t *testing.T) {
	b := newBoth(false)
	page := &gpu.FieldPage{Labels: []string{"a"}}
	for i := range 40 {
		b.engine.of("dcgm", gputest.Plain(0), b.ago(0))
		b.engine.Fields = page
		if i > 0 {
			b.engine.err = errDown
		}
		b.library.of("nvml", gputest.Plain(0), b.ago(0))
		if got := gputest.Read(t, b).Fields; (got == page) != (i < 30) {
			t.Errorf("%d s after the engine's last answer the page is %v", i, got)
		}
		b.clock.Advance(time.Second)
	}
}

// TestUnlisted: a GPU that DCGM does not support is the library's alone.
func TestUnlisted(t *testing.T) {
	b := newBoth(false)
	b.engine.of("dcgm", gputest.Plain(0), b.ago(0))
	b.library.of("nvml", gputest.Full(1), b.ago(0))
	r := gputest.Read(t, b)
	if len(r.Devices) != 2 || len(r.Readings) != 2 || r.Devices[1].Serial == "" || r.Readings[1].Energy == nil {
		t.Errorf("devices %+v", r.Devices)
	}
}

// TestIdentityStays: what only the library knew of a GPU is not forgotten with it.
func TestIdentityStays(t *testing.T) {
	b := newBoth(true)
	g := gputest.Divided(0)
	b.engine.of("dcgm", g, b.ago(0))
	bare := without(g)
	b.engine.of("dcgm", bare, b.ago(0))
	b.library.of("nvml", g, b.ago(0))
	want, _ := b.one(t)
	b.library.err = errDown
	b.clock.Advance(time.Minute)
	b.engine.of("dcgm", bare, b.ago(0))
	got, _ := b.one(t)
	if diff := cmp.Diff(want, got); diff != "" || want.BoardPartNumber == "" {
		t.Errorf("identity (-before +after):\n%s", diff)
	}
	bare.Device.MIG.Instances = bare.Device.MIG.Instances[:1]
	b.engine.of("dcgm", bare, b.ago(0))
	if got, _ = b.one(t); len(got.MIG.Instances) != 1 {
		t.Errorf("the GPU was divided otherwise since: %+v", got.MIG)
	}
}

// without is a GPU as the engine knows it.
func without(g gputest.GPU) gputest.GPU {
	g.Device.BoardPartNumber = ""
	m := &gpu.MIG{Slices: g.Device.MIG.Slices}
	for _, i := range g.Device.MIG.Instances {
		i.Devices, i.Start = nil, -1
		m.Instances = append(m.Instances, i)
	}
	g.Device.MIG = m
	return g
}
