package fold_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/draws"
)

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

const (
	boardEnergy = "gpuledger_board_energy_joules_total"
	podEnergy   = "gpuledger_allocation_energy_joules_total"
	boardBegan  = "gpuledger_board_created_timestamp_seconds"
	xids        = "gpuledger_board_xid_errors_total"
)

func at(minutes float64) time.Time { return start.Add(time.Duration(minutes * float64(time.Minute))) }

func hour(s *foldtest.Store, n int) (*table.Hour, error) {
	return fold.Fold(s.Input(start.Add(time.Duration(n) * time.Hour)))
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// history is a store with the samples of one board.
type history struct{ *foldtest.Store }

func (s history) board(minutes, joules, began float64, node string, more ...string) {
	labels := append([]string{"node", node, "UUID", "GPU-1"}, more...)
	s.Add(at(minutes), joules, boardEnergy, labels...)
	s.Add(at(minutes), seconds(at(began)), boardBegan, labels...)
}

// owners adds samples of a pod's and a unit's counters. began is the created timestamp of these counters. A key of
// counters is a metric name without its prefix. In a key for throttling, a space and the cause follow.
func (s history) owners(minutes, began float64, counters map[string]float64) {
	for prefix, labels := range map[string][]string{
		"gpuledger_allocation_":      {"node", "a", "UUID", "GPU-1", "namespace", "ml", "pod", "p", "pod_uid", "u"},
		"gpuledger_unit_allocation_": {"node", "a", "UUID", "GPU-1", "manager", "slurm", "unit", "4711"},
	} {
		s.Add(at(minutes), seconds(at(began)), prefix+"created_timestamp_seconds", labels...)
		for name, value := range counters {
			name, cause, throttled := strings.Cut(name, " ")
			if throttled {
				s.Add(at(minutes), value, prefix+name, append(labels, "throttle", cause)...)
			} else {
				s.Add(at(minutes), value, prefix+name, labels...)
			}
		}
	}
}

// TestBoards checks the part of a counter's increase that belongs to an hour.
func TestBoards(t *testing.T) {
	tests := []struct {
		name string
		add  func(s history)
		want int64 // energy in the second hour in mJ
	}{
		{"continues", func(s history) {
			s.board(59, 100, -600, "a")
			s.board(61, 110.001, -600, "a")
			s.board(120, 130.5, -600, "a")
		}, 30_500},
		{"a sample at the start belongs to the hour before", func(s history) { s.board(60, 100, -600, "a"); s.board(120, 130, -600, "a") }, 30_000},
		{"not scraped for hours", func(s history) { s.board(-600, 100, -700, "a"); s.board(100, 130, -700, "a") }, 30_000},
		{"first scrape of an old counter", func(s history) { s.board(61, 100, -6000, "a"); s.board(62, 130, -6000, "a") }, 30_000},
		{"first scrape of a new counter", func(s history) { s.board(61, 100, 60.5, "a"); s.board(62, 130, 60.5, "a") }, 130_000},
		{"reboot", func(s history) {
			s.board(59, 100, -600, "a")
			s.board(70, 110, -600, "a")
			s.board(80, 4, 79, "a")
			s.board(81, 5, 79, "a")
		}, 15_000},
		{"reboot, and more than before", func(s history) { s.board(59, 100, -600, "a"); s.board(100, 110, 62, "a") }, 110_000},
		{"reboot of a node whose clock is ahead", func(s history) { s.board(59, 100, -600, "a"); s.board(80, 4, 81, "a"); s.board(81, 5, 81, "a") }, 5_000},
		{"serial number becomes known late", func(s history) {
			s.board(59, 100, -600, "a", "serial", "")
			s.board(61, 110, -600, "a", "serial", "S1")
			s.board(62, 120, -600, "a", "serial", "S1")
		}, 20_000},
		{"moves to a scraped node", func(s history) {
			s.Add(at(59), 1, boardEnergy, "node", "b", "UUID", "GPU-2")
			s.board(59, 100, -600, "a")
			s.board(61, 110, -600, "a")
			s.board(70, 7, 69, "b")
			s.board(120, 9, 69, "b")
		}, 19_000},
		{"returns after days", func(s history) {
			s.Add(at(59), 1, boardEnergy, "node", "a", "UUID", "GPU-2")
			s.board(70, 1000, -6000, "a")
			s.board(71, 1001, -6000, "a")
		}, 1_000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := history{foldtest.NewStore()}
			tt.add(s)
			h, err := hour(s.Store, 1)
			check(t, err)
			got := int64(0)
			for _, g := range h.GPUs {
				if g.UUID == "GPU-1" {
					got += g.Energy
				}
			}
			if got != tt.want {
				t.Errorf("energy of the hour: %d mJ, want %d", got, tt.want)
			}
		})
	}
}

// TestXIDs checks that the first error with a code is counted, although the series of this code begins with this error.
func TestXIDs(t *testing.T) {
	s := history{foldtest.NewStore()}
	for minute := 50.0; minute <= 120; minute += 10 {
		s.board(minute, minute, -600, "a")
		if minute > 80 {
			s.Add(at(minute), 2, xids, "node", "a", "UUID", "GPU-1", "xid", "79")
		}
	}
	h, err := hour(s.Store, 1)
	check(t, err)
	if diff := cmp.Diff(table.Counts{"79": 2}, h.GPUs[0].XIDs); diff != "" {
		t.Errorf("XIDs (-want +got):\n%s", diff)
	}
}

func TestReplicas(t *testing.T) {
	s := history{foldtest.NewStore()}
	for minute := 61.0; minute < 65; minute++ {
		s.board(minute, 100, -600, "a", "prometheus_replica", "0")
		s.board(minute+0.5, 100, -600, "a", "prometheus_replica", "1")
	}
	if _, err := hour(s.Store, 1); !errors.Is(err, fold.ErrReplicas) {
		t.Errorf("error is %v, want ErrReplicas", err)
	}
}

func TestOvercharged(t *testing.T) {
	s := history{foldtest.NewStore()}
	s.board(59, 100, -600, "a")
	s.board(61, 110, -600, "a")
	s.Add(at(61), 11, podEnergy, "node", "a", "UUID", "GPU-1", "namespace", "ml", "pod", "p", "pod_uid", "u")
	if _, err := hour(s.Store, 1); !errors.Is(err, fold.ErrOvercharged) {
		t.Errorf("error is %v, want ErrOvercharged", err)
	}
}

// TestRandomHistories checks that the charges for each GPU and hour add up to the energy of its board. It also checks
// that the hours add up to the increase of the scraped counters. The random fleets have reboots, outages, short pods
// and late serial numbers. Some fleets also have wrong values.
func TestRandomHistories(t *testing.T) {
	const hours = 30
	units, dropped := 0, 0
	for seed := range uint64(draws.Of(8, 20)) {
		s := foldtest.NewStore()
		fleet := foldtest.NewFleet(s, start, seed, 3)
		fleet.Wrong = int(seed%2) * 20
		fleet.Run(hours * 60)
		all := make(map[string]foldtest.Use) // by node, or by pod or unit
		for n := range hours {
			h, err := hour(s, n)
			if err != nil {
				t.Fatalf("seed %d, hour %d: %v", seed, n, err)
			}
			dropped += h.Dropped
			charged := make(map[string]int64)
			for _, c := range h.Charges {
				charged[c.UUID] += c.Energy
				use := all[c.PodUID+c.Unit]
				use.Add(foldtest.Amounts{Energy: c.Energy, Estimated: c.Estimated, Busy: c.Busy}, 1)
				use.Span = joined(t, use.Span, &c, h.Start)
				all[c.PodUID+c.Unit] = use
				if c.Unit != "" {
					units++
				}
				if c.Energy < 0 {
					t.Errorf("seed %d, hour %d: negative charge %+v", seed, n, c)
				}
			}
			for _, g := range h.GPUs {
				use := all[g.Node]
				use.Add(foldtest.Amounts{Energy: g.Energy, Uncounted: g.Uncounted, Estimated: g.Estimated}, 1)
				all[g.Node] = use
				if charged[g.UUID] != g.Energy {
					t.Errorf("seed %d, hour %d: energy of GPU %s is %d mJ, sum of its charges %d mJ", seed, n, g.UUID, g.Energy, charged[g.UUID])
				}
			}
		}
		for _, n := range fleet.Nodes {
			if all[n.Name].Amounts != n.Board {
				t.Errorf("seed %d: board of %s: the hours have %+v, want %+v as scraped", seed, n.Name, all[n.Name].Amounts, n.Board)
			}
			for uid, want := range n.Pods {
				if all[uid] != want {
					t.Errorf("seed %d: pod or unit %s: the hours have %+v, want %+v as scraped", seed, uid, all[uid], want)
				}
			}
		}
	}
	if units == 0 || dropped == 0 {
		t.Errorf("the histories contain %d charges for units and %d wrong scrapes, want more than 0 of both", units, dropped)
	}
}
