package source_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

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

// TestPageStays: the field page stays for half a minute after the engine last gave one,
// also where nothing else serves, and where the engine answers but not for the page.
func TestPageStays(t *testing.T) {
	page := &gpu.FieldPage{Labels: []string{"a"}}
	tests := map[string]struct {
		alone           bool
		engine, library error
	}{
		"the library serves":          {false, errDown, nil},
		"the library is down as well": {false, errDown, errDown},
		"the engine alone may serve":  {true, errDown, nil},
		"the engine answers, no page": {false, nil, nil},
		"alone, and answers, no page": {true, nil, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBoth(tt.alone)
			for i := range 40 {
				b.engine.of("dcgm", gputest.Plain(0), b.ago(0))
				b.library.of("nvml", gputest.Plain(0), b.ago(0))
				if b.engine.Fields = page; i > 0 {
					b.engine.Fields, b.engine.err, b.library.err = nil, tt.engine, tt.library
				}
				report, _ := b.Read(t.Context())
				if got := report.Fields; (got == page) != (i < 30) {
					t.Errorf("%d s after the engine's last page it is %v", i, got)
				}
				b.clock.Advance(time.Second)
			}
		})
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

// TestEveryField: whatever the library alone knows of a GPU is in the report, field by field,
// beside an engine that knows its name only.
func TestEveryField(t *testing.T) {
	for name, g := range map[string]gputest.GPU{"whole": gputest.Full(1), "divided": gputest.Busy(1)} {
		t.Run(name, func(t *testing.T) {
			b := newBoth(false)
			g.Reading.ModulePower, g.Reading.Sampled = gpu.ModulePower{GPU: 1, Module: 2}, gpu.Span{To: 1}
			g.Reading.Samples = []gpu.Sample{{PID: 7, SM: 1}}
			b.engine.of("dcgm", gputest.Bare(1), b.clock.Now())
			b.library.of("nvml", g, b.clock.Now())
			d, r := b.one(t)
			fields := 0
			for _, pair := range [][2]reflect.Value{{reflect.ValueOf(g.Device), reflect.ValueOf(d)}, {reflect.ValueOf(g.Reading), reflect.ValueOf(r)}} {
				for i := range pair[0].NumField() {
					field := pair[0].Type().Field(i).Name
					if want := pair[0].Field(i); !want.IsZero() && field != "UUID" && field != "At" {
						fields++
						if diff := cmp.Diff(want.Interface(), pair[1].Field(i).Interface()); diff != "" {
							t.Errorf("%s (-library +report):\n%s", field, diff)
						}
					}
				}
			}
			if fields < 20 {
				t.Errorf("only %d fields: this test does not see them", fields)
			}
		})
	}
}
