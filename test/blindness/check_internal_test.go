package blindness

import (
	"slices"
	"testing"
	"time"
)

const testGPU = "GPU-test"

// testPlay contains pages without errors. Pod a holds a replica from 10 to 60 s. Pod b holds another replica from 30 to
// 60 s without working. The exporter's first reading is at 1 s.
func testPlay() *Play {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := &Play{Began: began, Schedule: Schedule{
		Length: 100 * time.Second, GPUs: []Board{{UUID: testGPU, Floor: 100, Replicas: 2}},
		Owners: []Owner{
			{Name: "a", Holds: true, Context: true, Percent: 50, Watts: 400, From: 10 * time.Second, Until: 60 * time.Second},
			{Name: "b", Holds: true, Context: true, From: 30 * time.Second, Until: 60 * time.Second},
		},
	}}
	for _, at := range []time.Duration{20 * time.Second, 40 * time.Second, 100 * time.Second} {
		p.Shots = append(p.Shots, p.honest(at))
	}
	return p
}

// honest returns a page without errors and without delay.
func (p *Play) honest(at time.Duration) Shot {
	s := Shot{At: at, Series: make(map[Series]Sample), Read: map[string]time.Time{testGPU: p.Began.Add(at)}}
	t := truth{Play: p}
	set := func(name, owner, split string, value int64) {
		s.Series[Series{Name: name, UUID: testGPU, Owner: owner, Split: split}] = Sample{value, p.Began.Add(time.Second)}
	}
	energy := func(from, to time.Duration) int64 { return t.energy(0, union(span{from, min(to, at)})) }
	a, b := p.Owners[0].life(), p.Owners[1].life()
	whole, alone, both := energy(time.Second, at), energy(a.from, b.from), energy(b.from, b.to)
	set(gpuEnergy, "", "", whole)
	set(containerEnergy, "a", "exclusive", alone)
	set(containerEnergy, "a", "shared", both-both/6)
	set(containerEnergy, "b", "allocated", both/6)
	for _, reason := range []string{"gap", "host", "unknown", "unmapped"} {
		set(unattributedEnergy, "", reason, 0)
	}
	set(unattributedEnergy, "", "idle", whole-alone-both)
	set(retiredEnergy, "", "", 0)
	seen := span{0, at}
	set(containerHeld, "a", "", a.within(seen).length().Milliseconds())
	set(containerHeld, "b", "", b.within(seen).length().Milliseconds())
	set(containerActive, "a", "", a.within(seen).length().Milliseconds())
	set(containerActive, "b", "", 0)
	return s
}

func (s *Shot) add(name, owner, split string, by int64) {
	k := Series{Name: name, UUID: testGPU, Owner: owner, Split: split}
	v := s.Series[k]
	v.Value += by
	s.Series[k] = v
}

func (s *Shot) move(from, to string, mj int64) {
	s.add(unattributedEnergy, "", from, -mj)
	s.add(unattributedEnergy, "", to, mj)
}

func (s *Shot) unmap() {
	s.move("idle", "unmapped", 3_900_000)
	s.add(containerEnergy, "a", "shared", -2_000_000)
	s.add(unattributedEnergy, "", "unmapped", 2_000_000)
}

// TestChecks adds one error at a time to pages without errors. The corresponding rule must detect it.
func TestChecks(t *testing.T) {
	if found := Check(testPlay()); len(found) > 0 {
		t.Fatalf("honest pages: %v", found)
	}
	type damage struct {
		name, rule string
		damage     func(p *Play, last *Shot)
	}
	tests := []damage{
		{"a millijoule too many", ruleBalance, func(_ *Play, s *Shot) { s.add(unattributedEnergy, "", "idle", 1) }},
		{"a counter falls", ruleCounters, func(p *Play, _ *Shot) { p.Shots[0].add(retiredEnergy, "", "", 5) }},
		{"a counter begins again", ruleCounters, func(_ *Play, s *Shot) {
			k := Series{Name: retiredEnergy, UUID: testGPU}
			s.Series[k] = Sample{0, s.Series[k].Created.Add(time.Second)}
		}},
		{"a counter is missing", ruleCounters, func(_ *Play, s *Shot) { delete(s.Series, Series{Name: containerHeld, UUID: testGPU, Owner: "b"}) }},
		{"held before it existed", ruleHeldMore, func(_ *Play, s *Shot) { s.add(containerHeld, "b", "", 12_000) }},
		{"held by a user without allocation", ruleHeldMore, func(p *Play, s *Shot) { p.Owners[1].Holds = false }},
		{"held time is lost", ruleHeldLess, func(_ *Play, s *Shot) { s.add(containerHeld, "b", "", -12_000) }},
		{"active without holding", ruleActive, func(_ *Play, s *Shot) { s.add(containerActive, "a", "", 1_500) }},
		{"exclusive beside another holder", ruleExclusive, func(p *Play, s *Shot) {
			s.add(containerEnergy, "a", "exclusive", 7_000_000)
			s.add(containerEnergy, "a", "shared", -7_000_000)
		}},
		{"pays after its end", rulePresent, func(_ *Play, s *Shot) {
			s.add(containerEnergy, "a", "allocated", 4_500_000)
			s.add(unattributedEnergy, "", "idle", -4_500_000)
		}},
		{"energy from nowhere", ruleEnergyMore, func(_ *Play, s *Shot) {
			s.add(gpuEnergy, "", "", 1_000_000)
			s.add(unattributedEnergy, "", "idle", 1_000_000)
		}},
		{"energy is lost", ruleEnergyLess, func(_ *Play, s *Shot) {
			s.add(gpuEnergy, "", "", -1_500_000)
			s.add(unattributedEnergy, "", "idle", -1_500_000)
		}},
		{"the GPU has no book", ruleEnergyLess, func(_ *Play, s *Shot) { delete(s.Series, Series{Name: gpuEnergy, UUID: testGPU}) }},
		{"it is not read", ruleRead, func(p *Play, s *Shot) { s.Read[testGPU] = p.Began.Add(80 * time.Second) }},
		{"the bound is too low", ruleBound, func(p *Play, s *Shot) {
			p.blind = append(p.blind, blindness{dropsEnergy, 0, span{70 * time.Second, 90 * time.Second}, "counter high"})
			s.add(gpuEnergy, "", "", -1_800_000)
			s.add(unattributedEnergy, "", "idle", -1_800_000)
			s.add(uncountedBound, "", "", 1_000_000)
		}},
		{"a gap without a reason", ruleReason, func(_ *Play, s *Shot) { s.move("idle", "gap", 300_000) }},
		{"unknown without a reason", ruleReason, func(_ *Play, s *Shot) { s.move("idle", "unknown", 3_600_000) }},
		{"unmapped without a reason", ruleReason, func(_ *Play, s *Shot) { s.unmap() }},
		{"a process of the host", ruleReason, func(_ *Play, s *Shot) { s.move("idle", "host", 300_000) }},
		{"idle while it was held", ruleReason, func(_ *Play, s *Shot) {
			s.add(containerEnergy, "a", "exclusive", -3_000_000)
			s.add(unattributedEnergy, "", "idle", 3_000_000)
		}},
	}
	for _, rule := range Rules {
		if !slices.ContainsFunc(tests, func(tt damage) bool { return tt.rule == rule }) {
			t.Errorf("no case breaks rule %q", rule)
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := testPlay()
			tt.damage(p, &p.Shots[2])
			found := Check(p)
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == tt.rule }) {
				t.Errorf("rule %q did not detect the error; detected: %v", tt.rule, found)
			}
		})
	}
}

// TestExplained checks errors that are allowed while the exporter cannot read a source. The checker must reject them at
// other times.
func TestExplained(t *testing.T) {
	for _, tt := range []struct {
		name   string
		what   hides
		damage func(s *Shot)
	}{
		{"gap", hidesAll, func(s *Shot) { s.move("idle", "gap", 500_000) }},
		{"unknown", hidesPods, func(s *Shot) { s.move("idle", "unknown", 3_600_000) }},
		{"unmapped", hidesOwners, (*Shot).unmap},
		{"dropped", dropsEnergy, func(s *Shot) {
			s.add(gpuEnergy, "", "", -1_500_000)
			s.add(unattributedEnergy, "", "idle", -1_500_000)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := testPlay()
			tt.damage(&p.Shots[2])
			p.blind = []blindness{{tt.what, 0, span{65 * time.Second, 90 * time.Second}, ""}}
			if found := Check(p); len(found) > 0 {
				t.Errorf("found %v", found)
			}
		})
	}
}

// TestReadAgain checks that an owner may end unnoticed only in the pause before the exporter reads a lost GPU again.
func TestReadAgain(t *testing.T) {
	for until, want := range map[time.Duration]bool{53 * time.Second: true, 47 * time.Second: false} {
		p := testPlay()
		p.blind = []blindness{{hidesGPU, 0, span{45 * time.Second, until}, gpuLost}}
		p.Shots[2].add(containerHeld, "b", "", -20_000)
		if found := Check(p); (len(found) == 0) != want {
			t.Errorf("lost until %v: found %v", until, found)
		}
	}
}

// TestRestarts checks that the checker accepts two effects of a restart: a gap until the boot id is readable, and an
// allocation of an unknown pod until /proc shows the pod. It must not accept counters that start again from zero.
func TestRestarts(t *testing.T) {
	down := blindness{hidesAll, everyGPU, span{71 * time.Second, 75 * time.Second}, ""}
	noBoot := blindness{hidesOwners | hidesBoot, everyGPU, span{72 * time.Second, 95 * time.Second}, "proc missing"}
	protected := blindness{hidesBooks, everyGPU, span{71 * time.Second, 80 * time.Second}, "state read-only"}
	lost := blindness{hidesGPU, 0, span{68 * time.Second, 95 * time.Second}, gpuLost}
	gap := func(s *Shot) { s.move("idle", "gap", 3_300_000) }
	active := func(s *Shot) { s.add(containerActive, "a", "", 10_000) }
	again := func(s *Shot) {
		k := Series{Name: unattributedEnergy, UUID: testGPU, Split: "gap"}
		s.Series[k] = Sample{0, s.Series[k].Created.Add(90 * time.Second)}
	}
	tests := []struct {
		name   string
		blind  []blindness
		damage func(s *Shot)
		want   string
	}{
		{"active after a restart", []blindness{{hidesAll, everyGPU, span{22 * time.Second, 26 * time.Second}, ""}}, active, ruleActive},
		{"with hidden owners", []blindness{
			{hidesAll, everyGPU, span{22 * time.Second, 26 * time.Second}, ""},
			{hidesOwners, everyGPU, span{15 * time.Second, 70 * time.Second}, "proc hidden"},
		}, active, ""},
		{"a gap of a restart", []blindness{down}, gap, ruleReason},
		{"until the boot is known", []blindness{down, noBoot}, gap, ""},
		{"a lost GPU begins again", []blindness{down, lost}, again, ruleCounters},
		{"with a protected state", []blindness{down, lost, protected}, again, ruleCounters},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := testPlay()
			tt.damage(&p.Shots[2])
			p.blind = tt.blind
			found := Check(p)
			if tt.want == "" && len(found) > 0 || tt.want != "" && !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == tt.want }) {
				t.Errorf("found %v, want %q", found, tt.want)
			}
		})
	}
}
