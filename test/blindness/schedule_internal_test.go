package blindness

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

// TestDraw checks that a seed always gives the same schedule, and that 500 schedules contain every kind of outage. No
// GPU may be busy for more than 100 % of the time, and no device may have two holders at one time.
func TestDraw(t *testing.T) {
	times := make([]int, len(Kinds))
	for seed := range uint64(500) {
		s := Draw(seed, 4*time.Minute)
		if diff := cmp.Diff(s, Draw(seed, 4*time.Minute)); diff != "" {
			t.Fatalf("seed %d has two different schedules (-first +second):\n%s", seed, diff)
		}
		for _, spell := range s.Spells {
			times[spell.Kind]++
			if spell.From >= spell.Until || spell.Until > s.Length-calm {
				t.Errorf("seed %d: spell from %v to %v", seed, spell.From, spell.Until)
			}
		}
		s.checkUse(t)
	}
	for kind, n := range times {
		if n < 5 {
			t.Errorf("%s occurs %d times in 500 schedules", Kinds[kind].Name, n)
		}
	}
}

func (s *Schedule) checkUse(t *testing.T) {
	t.Helper()
	for i, o := range s.Owners {
		busy := 0
		for j, x := range s.Owners {
			if x.GPU != o.GPU || !x.life().covers(o.From) {
				continue
			}
			busy += x.Percent
			if i != j && o.Holds && x.Holds && o.Replica == x.Replica {
				t.Errorf("seed %d: %s and %s hold one device", s.Seed, o.Name, x.Name)
			}
		}
		if busy > 100 {
			t.Errorf("seed %d: GPU %d is %d %% busy", s.Seed, o.GPU, busy)
		}
	}
}

// TestTruth compares the energy in the model with the energy of the simulated boards. The boards use another model.
func TestTruth(t *testing.T) {
	for seed := range uint64(8) {
		s := Draw(seed, 2*time.Minute)
		sc, err := s.scenario()
		if err != nil {
			t.Fatal(err)
		}
		sc.NoTruth = false
		start := gpu.Instant{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Boot: 240 * time.Hour}
		dir := t.TempDir()
		n, err := simnode.Open(dir, sc, start)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		if err := n.Step(gpu.Instant{Wall: start.Wall.Add(s.Length), Boot: start.Boot + s.Length}); err != nil {
			t.Fatal(err)
		}
		rows, err := simnode.ReadTruth(filepath.Join(dir, "truth.json"))
		if err != nil {
			t.Fatal(err)
		}
		model := truth{Play: &Play{Schedule: s}}
		for g := range s.GPUs {
			if got, want := model.energy(g, until(s.Length)), int64(rows[0].GPUs[g].Energy); max(got-want, want-got) > 1 {
				t.Errorf("seed %d: GPU %d used %d mJ in the model, %d mJ on the node", seed, g, got, want)
			}
		}
	}
}

func TestCounter(t *testing.T) {
	c := new(counter)
	follow := func(seconds int, want int64) {
		t.Helper()
		at := time.Duration(seconds) * time.Second
		c.follow(at, 1000+100*int64(seconds))
		if got := c.shown(); got != want {
			t.Errorf("shows %d at %v, want %d", got, at, want)
		}
	}
	follow(0, 1000)
	follow(1, 1100)
	c.frozen, c.value = true, c.shown()
	follow(2, 1100)
	c.frozen = false
	follow(3, 1300)
	c.value, c.late = c.shown(), 2*time.Second
	follow(4, 1300)
	follow(5, 1300)
	follow(6, 1400)
	c.late, c.base = 0, c.truth[len(c.truth)-1].value
	follow(7, 100)
	c.follow(8*time.Second, 40) // the driver was reloaded
	if got := c.shown(); got != 40 {
		t.Errorf("shows %d after a reload, want 40", got)
	}
}

func TestSpans(t *testing.T) {
	at := func(from, to int) span { return span{time.Duration(from), time.Duration(to)} }
	a := union(at(8, 9), at(1, 3), at(2, 5), at(7, 7))
	tests := []struct {
		name      string
		got, want spans
	}{
		{"union", a, spans{at(1, 5), at(8, 9)}},
		{"minus", a.minus(spans{at(2, 4), at(5, 8)}), spans{at(1, 2), at(4, 5), at(8, 9)}},
		{"within", a.within(at(4, 20)), spans{at(4, 5), at(8, 9)}},
		{"wider", a.wider(1, 2), spans{at(0, 11)}},
		{"meeting", a.meeting(spans{at(4, 6)}), spans{at(1, 5)}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, tt.got, cmp.AllowUnexported(span{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
