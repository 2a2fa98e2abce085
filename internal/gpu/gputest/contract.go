package gputest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// The first GPU reports all values, the second GPU reports few values, and the third GPU reports no values.
func testExact(t *testing.T, c contract) {
	n := Node{GPUs: []GPU{Full(0), Plain(1), Bare(2)}}
	s, _ := c.open(t, n, NewClock().Now)
	c.check(t, Read(t, s), n)
	c.check(t, Read(t, s), n)
}

// testAbsent removes one value of a GPU at a time.
func testAbsent(t *testing.T, c contract) {
	tests := map[string]func(*GPU){
		"serial":         func(g *GPU) { g.Device.Serial = "" },
		"part number":    func(g *GPU) { g.Device.BoardPartNumber = "" },
		"VBIOS":          func(g *GPU) { g.Device.VBIOSVersion = "" },
		"device node":    func(g *GPU) { g.Device.DeviceNode = "" },
		"platform":       func(g *GPU) { g.Device.Platform = gpu.Platform{} },
		"slot and tray":  func(g *GPU) { g.Device.Platform.Slot, g.Device.Platform.Tray = nil, nil },
		"XID events":     func(g *GPU) { g.Device.ReportsEvents = false },
		"fabric":         func(g *GPU) { g.Device.Fabric = nil },
		"power limit":    func(g *GPU) { g.Reading.PowerLimit = nil },
		"row remapping":  func(g *GPU) { g.Reading.RowRemap = nil },
		"recovery":       func(g *GPU) { g.Reading.Recovery = "" },
		"process lists":  func(g *GPU) { g.Reading.Contexts, g.Reading.ContextsKnown = nil, false },
		"process memory": func(g *GPU) { g.Reading.Contexts = []gpu.Context{{PID: 7}} },
		"no process":     func(g *GPU) { g.Reading.Contexts = nil },
		"samples":        func(g *GPU) { g.Reading.Samples, g.Reading.SamplesKnown = nil, false },
		"energy, power": func(g *GPU) {
			g.Device.EnergySource, g.Device.EnergyScope = gpu.EnergyNone, ""
			g.Reading.Energy, g.Reading.Gauges[gpu.Power] = nil, nil
		},
	}
	for _, info := range gpu.GaugeInfos { // gauges that one call reads are removed together
		tests[info.Call] = func(g *GPU) { DropGauges(g, info.Call) }
	}
	for name, takeAway := range tests {
		t.Run(name, func(t *testing.T) {
			g := Full(0)
			takeAway(&g)
			n := Node{GPUs: []GPU{g, Full(1)}}
			s, _ := c.open(t, n, NewClock().Now)
			c.check(t, Read(t, s), n)
		})
	}
}

// DropGauges removes the gauges that an NVML call reads.
func DropGauges(g *GPU, call string) {
	for i, info := range gpu.GaugeInfos {
		if info.Call == call {
			g.Reading.Gauges[i] = nil
		}
	}
}

// The energy must be in millijoules and must not be rounded.
func testEnergy(t *testing.T, c contract) {
	clock := NewClock()
	n := Node{GPUs: []GPU{Full(0), Plain(1)}}
	s, change := c.open(t, n, clock.Now)
	for _, step := range []gpu.Millijoules{0, 1, 999, 1000, 250_001, 1 << 40} {
		clock.Advance(time.Second)
		for i := range n.GPUs {
			n.GPUs[i].Reading.Energy = new(*n.GPUs[i].Reading.Energy + step)
		}
		change(n)
		report := Read(t, s)
		c.check(t, report, n)
		if at := report.Readings[0].At; at != clock.Now() {
			t.Errorf("the reading is from %v, but the time is %v", at, clock.Now())
		}
	}
}

// A reading must contain the duration of the call that read its counter.
func testTook(t *testing.T, c contract) {
	clock := NewClock()
	s, _ := c.open(t, Node{GPUs: []GPU{Full(0)}}, func() gpu.Instant {
		clock.Advance(time.Millisecond)
		return clock.Now()
	})
	if took := Read(t, s).Readings[0].Took; took < time.Millisecond || took > 100*time.Millisecond {
		t.Errorf("the call took %v, want some milliseconds", took)
	}
}

// Each sample must be reported once. A reading without new samples must differ from a reading with unknown samples. The
// samples of each reading must begin at the end of the previous samples.
func testSamples(t *testing.T, c contract) {
	clock := NewClock()
	n := Node{GPUs: []GPU{Full(0)}}
	g := &n.GPUs[0]
	s, change := c.open(t, n, clock.Now)
	report := Read(t, s)
	c.check(t, report, n)
	until := report.Readings[0].Sampled.To
	read := func() {
		report := Read(t, s)
		c.check(t, report, n)
		if r := report.Readings[0]; r.Sampled.From != until || r.At.Boot-r.Sampled.To > time.Second {
			t.Errorf("samples cover %v at %v, but the previous samples end at %v", r.Sampled, r.At.Boot, until)
		}
		until = report.Readings[0].Sampled.To
	}
	for range 3 {
		clock.Advance(time.Second)
		g.SampledAt = clock.Now().Wall.Add(-time.Millisecond)
		g.Reading.Samples = []gpu.Sample{{PID: 7, SM: 0.5, Memory: 0.25}, {PID: 8, SM: 1, Memory: 0}}
		change(n)
		read()
		g.Reading.Samples = nil
		read() // the driver returns these samples again, but they are not new
	}
}

// testMIG partitions a GPU, changes the partitions but reuses their ids, and disables MIG mode. Values that do not
// depend on the partitions must not change.
func testMIG(t *testing.T, c contract) {
	n := Node{GPUs: []GPU{Divided(0), Full(1), Divided(2)}}
	s, change := c.open(t, n, NewClock().Now)
	c.check(t, Read(t, s), n)

	was := n.GPUs[0].Device.Partitions.Instances
	again := was[0] // the id and the UUIDs stay the same, because drivers derive them from the position
	again.Profile, again.ProfileID, again.Slices = "1g.20gb", 15, 1
	none, first, reused := Divided(0), Divided(0), Divided(0)
	none.Device.Partitions.Instances, none.Reading.Contexts = nil, nil
	first.Device.Partitions.Instances, first.Reading.Contexts = was[:1], []gpu.Context{{PID: 7, GPUInstance: "2"}}
	reused.Device.Partitions.Instances = []gpu.Partition{again, was[1]}
	for _, g := range []GPU{reused, first, none, Full(0), Divided(0), Divided(1)} {
		n.GPUs[g.Device.Index] = g
		change(n)
		c.check(t, Read(t, s), n)
		c.check(t, Read(t, s), n)
	}
}

// The activity of instances must be unknown in the first reading, in a reading immediately after another reading, and
// for a new instance. Each reading must cover the time from the end of the previous reading.
func testInstances(t *testing.T, c contract) {
	clock := NewClock()
	n := Node{GPUs: []GPU{Busy(0), Full(1), Divided(2)}}
	s, change := c.open(t, n, clock.Now)
	began := clock.Now().Boot
	read := func(when string, after time.Duration, known bool) {
		t.Helper()
		clock.Advance(after)
		report := Read(t, s)
		c.check(t, report, n)
		r := report.Readings[0]
		if r.InstancesKnown != known {
			t.Errorf("%s: activity of instances is known: %v, want %v", when, r.InstancesKnown, known)
		}
		for _, i := range r.Instances {
			if want := (gpu.Span{From: began, To: clock.Now().Boot}); i.Span != want {
				t.Errorf("%s: the activity of instance %s covers %v, want %v", when, i.Instance, i.Span, want)
			}
		}
		if after > 100*time.Millisecond {
			began = clock.Now().Boot
		}
	}
	read("the first reading", 0, false)
	read("the second", time.Second, true)
	n.GPUs[0].Reading.Instances = []gpu.InstanceSample{{Instance: "2", SM: 0.01}, {Instance: "9"}}
	change(n)
	read("the third", time.Second, true)
	read("too soon", 100*time.Millisecond, false)
	read("after it", time.Second, true)

	again := &n.GPUs[0].Device.Partitions.Instances[0]
	again.Profile, again.ProfileID, again.Slices = "1g.20gb", 15, 1
	change(n)
	read("another instance with the same id", time.Second, false)
	read("for the second time", time.Second, true)
	n.GPUs[0].Device.Partitions.Instances = n.GPUs[0].Device.Partitions.Instances[:1]
	n.GPUs[0].Reading.Instances = n.GPUs[0].Reading.Instances[:1]
	n.GPUs[0].Reading.Contexts = n.GPUs[0].Reading.Contexts[1:] // the removed context was on the instance
	change(n)
	read("one instance fewer", time.Second, true)
	read("after a long time", time.Hour, false)
	read("after that", time.Second, true)
}

func testLost(t *testing.T, c contract) {
	clock := NewClock()
	n := Node{GPUs: []GPU{Full(0), Full(1), Plain(2)}}
	n.GPUs[1].Lost = true
	s, change := c.open(t, n, clock.Now)
	c.check(t, Read(t, s), n)
	n.GPUs[1].Lost = false
	change(n)
	clock.Advance(time.Minute)
	c.check(t, Read(t, s), n)
	n.GPUs[1].Lost = true
	change(n)
	for range 3 {
		clock.Advance(time.Second)
		report := Read(t, s)
		c.check(t, report, n)
		if want := []string{c.limits.node(n).GPUs[1].Device.UUID}; !slices.Equal(report.Lost, want) {
			t.Errorf("lost GPUs: %v, want %v", report.Lost, want)
		}
	}
	n.GPUs[1].Lost = false
	change(n)
	clock.Advance(time.Minute)
	c.check(t, Read(t, s), n)
}

// A hung GPU must keep its identity and must not delay a read.
func testStuck(t *testing.T, c contract) {
	clock := NewClock()
	n := Node{GPUs: []GPU{Full(0), Full(1), Plain(2)}}
	s, change := c.open(t, n, clock.Now)
	c.check(t, Read(t, s), n)
	n.GPUs[1].Stuck = true
	change(n)
	hasty := Hasty(s)
	for range 3 {
		c.check(t, Eventually(t, hasty, "the other GPUs are read", func(r gpu.Report, err error) bool { return err == nil && len(r.Readings) == 2 }), n)
	}
	n.GPUs[1].Stuck = false
	change(n)
	Eventually(t, s, "the GPU responds again", func(r gpu.Report, err error) bool { return err == nil && len(r.Readings) == 3 })
	c.check(t, Read(t, s), n)
}

// After the reload, the driver lists the GPUs in reverse order.
func testReload(t *testing.T, c contract) {
	clock := NewClock()
	n := Node{GPUs: []GPU{Full(0), Full(1), Plain(2)}}
	s, change := c.open(t, n, clock.Now)
	c.check(t, Read(t, s), n)
	n.Loads++
	n.GPUs = []GPU{Plain(2), Full(1), Full(0)}
	for i := range n.GPUs {
		n.GPUs[i].Device.Index = i
		n.GPUs[i].Reading.Energy = new(gpu.Millijoules(i))
	}
	change(n)
	clock.Advance(time.Minute)
	c.check(t, Eventually(t, s, "the driver responds again", answers), n)
}

func testDown(t *testing.T, c contract) {
	clock := NewClock()
	n := Node{GPUs: []GPU{Full(0)}, Down: true}
	s, change := c.open(t, n, clock.Now)
	for range 2 {
		if report, err := s.Read(t.Context()); err == nil {
			t.Fatalf("the driver is down, but the report is %+v", report)
		}
		n.Down, n.Loads = false, n.Loads+1
		change(n)
		clock.Advance(time.Minute)
		c.check(t, Eventually(t, s, "the driver responds", answers), n)
		n.Down = true
		change(n)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if report, err := s.Read(ended); err == nil {
		t.Errorf("the context has ended, but the report is %s", cmp.Diff(gpu.Report{}, report))
	}
}

func answers(_ gpu.Report, err error) bool { return err == nil }
