package fold_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

const (
	boardEnergy = "gpuledger_board_energy_joules_total"
	podEnergy   = "gpuledger_allocation_energy_joules_total"
	unattr      = "gpuledger_board_unattributed_energy_joules_total"
	boardBegan  = "gpuledger_board_created_timestamp_seconds"
	podBegan    = "gpuledger_allocation_created_timestamp_seconds"
	xids        = "gpuledger_board_xid_errors_total"
)

// store has the samples of series by their labels.
type store struct {
	labels  map[string]map[string]string
	samples map[string][]fold.Sample
}

func newStore() *store {
	return &store{make(map[string]map[string]string), make(map[string][]fold.Sample)}
}

// add stores a sample. Labels are pairs of names and values.
func (s *store) add(at time.Time, value float64, metric string, pairs ...string) {
	labels := map[string]string{"__name__": metric}
	for i := 0; i < len(pairs); i += 2 {
		labels[pairs[i]] = pairs[i+1]
	}
	key := fmt.Sprint(labels)
	s.labels[key] = labels
	s.samples[key] = append(s.samples[key], fold.Sample{Time: at.UnixMilli(), Value: value})
}

// hour folds the n-th hour.
func (s *store) hour(n int) (*fold.Hour, error) {
	in := fold.Input{Cluster: "east", Start: start.Add(time.Duration(n) * time.Hour)}
	from, to := in.Start.UnixMilli(), in.Start.Add(time.Hour).UnixMilli()
	for _, key := range slices.Sorted(maps.Keys(s.samples)) {
		var before, within []fold.Sample
		for _, sample := range s.samples[key] {
			switch {
			case sample.Time <= from && sample.Time > from-fold.Lookback.Milliseconds():
				before = []fold.Sample{sample}
			case sample.Time > from && sample.Time <= to:
				within = append(within, sample)
			}
		}
		if before != nil {
			in.Openings = append(in.Openings, fold.Series{Labels: s.labels[key], Samples: before})
		}
		if within != nil {
			in.Series = append(in.Series, fold.Series{Labels: s.labels[key], Samples: within})
		}
	}
	return fold.Fold(in)
}

func at(minutes float64) time.Time { return start.Add(time.Duration(minutes * float64(time.Minute))) }

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// board adds a sample of a board and when its counter began.
func (s *store) board(minutes, joules, began float64, node string, more ...string) {
	labels := append([]string{"node", node, "UUID", "GPU-1"}, more...)
	s.add(at(minutes), joules, boardEnergy, labels...)
	s.add(at(minutes), seconds(at(began)), boardBegan, labels...)
}

// TestBoards checks which part of a counter is of the hour.
func TestBoards(t *testing.T) {
	tests := []struct {
		name string
		add  func(s *store)
		want int64 // mJ in the second hour
	}{
		{"continues", func(s *store) {
			s.board(59, 100, -600, "a")
			s.board(61, 110.001, -600, "a")
			s.board(120, 130.5, -600, "a")
		}, 30_500},
		{"a sample at the start is of the hour before", func(s *store) { s.board(60, 100, -600, "a"); s.board(120, 130, -600, "a") }, 30_000},
		{"not scraped for hours", func(s *store) { s.board(-600, 100, -700, "a"); s.board(100, 130, -700, "a") }, 30_000},
		{"first scrape of an old counter", func(s *store) { s.board(61, 100, -6000, "a"); s.board(62, 130, -6000, "a") }, 30_000},
		{"first scrape of a new counter", func(s *store) { s.board(61, 100, 60.5, "a"); s.board(62, 130, 60.5, "a") }, 130_000},
		{"reboot", func(s *store) {
			s.board(59, 100, -600, "a")
			s.board(70, 110, -600, "a")
			s.board(80, 4, 79, "a")
			s.board(81, 5, 79, "a")
		}, 15_000},
		{"reboot, and more than before", func(s *store) { s.board(59, 100, -600, "a"); s.board(100, 110, 62, "a") }, 110_000},
		{"reboot of a node whose clock is ahead", func(s *store) { s.board(59, 100, -600, "a"); s.board(80, 4, 81, "a"); s.board(81, 5, 81, "a") }, 5_000},
		{"serial number learnt late", func(s *store) {
			s.board(59, 100, -600, "a", "serial", "")
			s.board(61, 110, -600, "a", "serial", "S1")
			s.board(62, 120, -600, "a", "serial", "S1")
		}, 20_000},
		{"moves to a scraped node", func(s *store) {
			s.add(at(59), 1, boardEnergy, "node", "b", "UUID", "GPU-2")
			s.board(59, 100, -600, "a")
			s.board(61, 110, -600, "a")
			s.board(70, 7, 69, "b")
			s.board(120, 9, 69, "b")
		}, 19_000},
		{"returns after days", func(s *store) {
			s.add(at(59), 1, boardEnergy, "node", "a", "UUID", "GPU-2")
			s.board(70, 1000, -6000, "a")
			s.board(71, 1001, -6000, "a")
		}, 1_000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore()
			tt.add(s)
			h, err := s.hour(1)
			if err != nil {
				t.Fatal(err)
			}
			got := int64(0)
			for _, g := range h.GPUs {
				if g.UUID == "GPU-1" {
					got += g.Energy
				}
			}
			if got != tt.want {
				t.Errorf("%d mJ, want %d", got, tt.want)
			}
		})
	}
}

// TestXIDs checks that the first error of a code counts although its series appears with it.
func TestXIDs(t *testing.T) {
	s := newStore()
	for minute := 50.0; minute <= 120; minute += 10 {
		s.board(minute, minute, -600, "a")
		if minute > 80 {
			s.add(at(minute), 2, xids, "node", "a", "UUID", "GPU-1", "xid", "79")
		}
	}
	h, err := s.hour(1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"79": 2}, h.GPUs[0].XIDs); diff != "" {
		t.Errorf("XIDs (-want +got):\n%s", diff)
	}
}

// TestReplicas checks that samples of two replicas are rejected.
func TestReplicas(t *testing.T) {
	s := newStore()
	for minute := 61.0; minute < 65; minute++ {
		s.board(minute, 100, -600, "a", "prometheus_replica", "0")
		s.board(minute+0.5, 100, -600, "a", "prometheus_replica", "1")
	}
	if _, err := s.hour(1); !errors.Is(err, fold.ErrReplicas) {
		t.Errorf("error is %v", err)
	}
}

// TestOvercharged checks that pods cannot be charged more than the board used.
func TestOvercharged(t *testing.T) {
	s := newStore()
	s.board(59, 100, -600, "a")
	s.board(61, 110, -600, "a")
	s.add(at(61), 11, podEnergy, "node", "a", "UUID", "GPU-1", "namespace", "ml", "pod", "p", "pod_uid", "u")
	if _, err := s.hour(1); !errors.Is(err, fold.ErrOvercharged) {
		t.Errorf("error is %v", err)
	}
}

// node is a simulated exporter: a GPU, its pods and their counters in millijoules.
type node struct {
	name     string
	rand     *rand.Rand
	began    time.Time
	board    int64
	idle     int64
	pods     map[string]*pod
	retired  int64
	serial   string
	down     int // minutes without counting
	unseen   int // minutes without scrapes
	next     int
	scraped  bool
	counted  int64 // what was scraped: the increase of all books since the first scrape
	last     int64 // the last scraped value of this book
	podTotal map[string]int64
}

type pod struct {
	energy, last int64
	began        time.Time
	ended        int // minutes since its end, 0 while it runs
}

// minute advances the node by a minute and stores the scrape at its end.
func (n *node) minute(s *store, at time.Time) {
	r := n.rand
	switch {
	case n.down > 0:
		n.down--
		if n.down == 0 { // a reboot
			n.began, n.board, n.idle, n.retired, n.last, n.pods = at.Add(-20*time.Second), 0, 0, 0, 0, make(map[string]*pod)
		}
		return
	case r.IntN(700) == 0:
		n.down = 1 + r.IntN(90)
		return
	}
	if r.IntN(10) == 0 && len(n.pods) < 4 {
		n.next++
		n.pods[n.name+"-"+strconv.Itoa(n.next)] = &pod{began: at.Add(-time.Duration(r.IntN(50)) * time.Second)}
	}
	power := 100_000 + r.Int64N(400_000)
	n.board += power * 60
	rest := power * 60
	for uid, p := range n.pods {
		if p.ended > 0 {
			if p.ended++; p.ended > 6 { // retention
				n.retired += p.energy
				delete(n.pods, uid)
			}
			continue
		}
		part := r.Int64N(rest + 1)
		p.energy, rest = p.energy+part, rest-part
		if r.IntN(30) == 0 {
			p.ended = 1
		}
	}
	n.idle += rest
	n.scrape(s, at)
}

func (n *node) scrape(s *store, at time.Time) {
	switch {
	case n.unseen > 0:
		n.unseen--
		return
	case n.rand.IntN(50) == 0:
		return
	case n.rand.IntN(400) == 0:
		n.unseen = n.rand.IntN(100)
		return
	case n.serial == "" && n.rand.IntN(100) == 0:
		n.serial = "S-" + n.name
	}
	labels := []string{"node", n.name, "UUID", "GPU-" + n.name, "serial", n.serial}
	s.add(at, float64(n.board)/1000, boardEnergy, labels...)
	s.add(at, seconds(n.began), boardBegan, labels...)
	s.add(at, float64(n.idle)/1000, unattr, append(labels, "reason", "idle")...)
	if n.scraped || n.began.After(start) {
		n.counted += n.board - n.last
	}
	n.scraped, n.last = true, n.board
	for uid, p := range n.pods {
		pod := append(slices.Clone(labels), "namespace", "ml", "pod", uid, "pod_uid", uid)
		s.add(at, float64(p.energy)/1000, podEnergy, pod...)
		s.add(at, seconds(p.began), podBegan, pod...)
		n.podTotal[uid] += p.energy - p.last
		p.last = p.energy
	}
}

// TestRandomHistories checks on random fleets with reboots, outages, short pods and late serial
// numbers that the charges of each GPU and hour add up to its board, and the hours to the scraped
// counters.
func TestRandomHistories(t *testing.T) {
	const hours = 30
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := newStore()
		var nodes []*node
		for i := range 3 {
			nodes = append(nodes, &node{
				name: "n" + strconv.Itoa(i), rand: r, began: start.Add(time.Second),
				pods: make(map[string]*pod), podTotal: make(map[string]int64), down: i * r.IntN(200),
			})
		}
		for minute := range hours * 60 {
			for i, n := range nodes {
				n.minute(s, at(float64(minute)).Add(time.Duration(i+1)*7*time.Second))
			}
		}
		boards, pods := make(map[string]int64), make(map[string]int64)
		for hour := range hours {
			h, err := s.hour(hour)
			if err != nil {
				t.Fatalf("seed %d, hour %d: %v", seed, hour, err)
			}
			charged := make(map[string]int64)
			for _, c := range h.Charges {
				charged[c.UUID] += c.Energy
				if c.PodUID != "" {
					pods[c.PodUID] += c.Energy
				}
				if c.Energy < 0 {
					t.Errorf("seed %d, hour %d: negative charge %+v", seed, hour, c)
				}
			}
			for _, g := range h.GPUs {
				boards[g.Node] += g.Energy
				if charged[g.UUID] != g.Energy {
					t.Errorf("seed %d, hour %d: GPU %s used %d mJ, %d are charged", seed, hour, g.UUID, g.Energy, charged[g.UUID])
				}
			}
		}
		for _, n := range nodes {
			if boards[n.name] != n.counted {
				t.Errorf("seed %d: board of %s: %d mJ in hours, %d mJ scraped", seed, n.name, boards[n.name], n.counted)
			}
			for uid, want := range n.podTotal {
				if pods[uid] != want {
					t.Errorf("seed %d: pod %s: %d mJ in hours, %d mJ scraped", seed, uid, pods[uid], want)
				}
			}
		}
	}
}
