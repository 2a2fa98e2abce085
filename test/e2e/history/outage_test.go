//go:build e2e

package history_test

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

const (
	placement      = "gpuledger_placement_info"
	allocation     = "gpuledger_allocation_energy_joules_total"
	allocationIdle = "gpuledger_allocation_idle_energy_joules_total"
	gpuSeconds     = "gpuledger_allocation_gpu_seconds_total"
	activeSeconds  = "gpuledger_allocation_active_seconds_total"
	board          = "gpuledger_board_energy_joules_total"
)

// lag is the maximum increase of a counter after its last scrape, in joules: two intervals at the power limit of an
// H100.
const lag = float64(2*scrape/time.Second) * 700

// TestLife causes outages, moves and the death of a node, and checks that Thanos returns the correct results.
func TestLife(t *testing.T) {
	if testing.Short() {
		t.Skip("long: run it with make e2e")
	}
	l := begin(t)
	pass(t, 2*scrape)
	missed := l.prometheusDown()
	t.Run("Thanos was down", l.thanosDown)
	before := time.Now()
	l.move(nodeA, nodeB)
	pass(t, 5*scrape)
	l.move(nodeB, nodeC)
	pass(t, 5*scrape)
	for i := range l.nodes {
		l.remember(i)
	}
	l.booted[nodeA].Kill()
	pass(t, 2*scrape)
	now := time.Now()
	l.arrived(now)

	t.Run("the board was in three nodes", func(t *testing.T) { l.checkMoves(t, now) })
	t.Run("pods ended unseen", func(t *testing.T) { l.checkMissed(t, missed, before) })
	t.Run("the statement is complete", func(t *testing.T) { l.checkStatement(t, missed, now) })
	t.Run("a node died", func(t *testing.T) { l.checkDead(t, now) })
	t.Run("questions", func(t *testing.T) { l.askHistory(t) })
}

// askHistory runs the documented queries on a copy of this history in slow motion.
func (l *life) askHistory(t *testing.T) {
	for _, s := range l.servers {
		s.program.Stop()
	}
	old := tray(t, l.fleet)
	p := l.record(old)
	sc, err := old.node.Simulated()
	check(t, err)
	p.askAll(t, p.store(t, l.fleet), map[string]string{
		"serial": l.serial(nodeC, traveller), "chassis": sc.GPUs[0].Place.Chassis, "window": "1d", "cluster": ".*", "price": fmt.Sprint(price),
		"workload_uid": "uid-of-chat",
	})
}

// thanosDown checks that samples that are scraped while Thanos is down arrive after Thanos has restarted.
func (l *life) thanosDown(t *testing.T) {
	l.thanos.Stop()
	down := time.Now()
	pass(t, 8*scrape)
	up := time.Now()
	l.startReceive()
	window := fmt.Sprintf("[%dms]", up.Sub(down).Milliseconds())
	count := "count by (node) (count_over_time(" + placement + window + ") >= 6)"
	eventually(t, "Thanos has the samples that were scraped while it was down", func() error {
		found := l.ask(count, up)
		for _, s := range found {
			if s.Value != 4 {
				return fmt.Errorf("%v GPUs of %s", s.Value, s.Labels["node"])
			}
		}
		if len(found) != len(l.nodes) {
			return fmt.Errorf("%d nodes", len(found))
		}
		return nil
	})
}

// prometheusDown stops the Prometheus of the cluster east until a pod on each of its nodes has ended and the exporter
// no longer serves the pod's counters. It returns the series of these pods.
func (l *life) prometheusDown() map[series]bool {
	l.t.Helper()
	ending := make(map[series]bool)
	for _, node := range []int{nodeA, nodeB} {
		s := series{allocation, l.name(node), l.serial(node, 1), l.pod(node, "sweep")}
		if ending[s] = l.observer.shows(s); !ending[s] {
			l.t.Fatalf("%v has ended too early, because this machine is too slow", s)
		}
	}
	l.servers["east"].program.Stop()
	eventually(l.t, "the pods are no longer on the pages", func() error {
		for s := range ending {
			if l.observer.shows(s) {
				return fmt.Errorf("%v is", s)
			}
		}
		return nil
	})
	l.startPrometheus("east")
	pass(l.t, 5*scrape)
	return ending
}

func (l *life) arrived(at time.Time) {
	l.t.Helper()
	eventually(l.t, "Thanos has all samples", func() error {
		for cluster := range l.servers {
			query := fmt.Sprintf("max(max_over_time(timestamp(up{cluster=%q})[1m:1s])) >= %d", cluster, at.Unix()-2)
			if len(l.ask(query, at)) == 0 {
				return errors.New("not from " + cluster)
			}
		}
		return nil
	})
}

// checkMoves checks that only the moved board was in three nodes and two clusters.
func (l *life) checkMoves(t *testing.T, now time.Time) {
	moved := l.serial(nodeC, traveller)
	for by, want := range map[string]float64{"node": 3, "cluster": 2, "system_uuid": 3} {
		found := l.ask(fmt.Sprintf("count by (serial) (group by (serial, %s) (present_over_time(%s[1h]))) > 1", by, placement), now)
		if len(found) != 1 || found[0].Labels["serial"] != moved || found[0].Value != want {
			t.Errorf("by %s: %v, want %s in %v", by, found, moved, want)
		}
	}
}

// checkMissed checks pods that ended while Prometheus was down. Thanos must contain a pod's energy only up to the
// outage, but all energy of its board. The missing energy is therefore the difference.
func (l *life) checkMissed(t *testing.T, missed map[series]bool, at time.Time) {
	value := func(s series) float64 {
		found := l.ask(fmt.Sprintf("max_over_time(%s{node=%q,serial=%q,pod=%q}[1h])", s.Name, s.Node, s.Serial, s.Pod), at)
		if len(found) != 1 {
			t.Fatalf("%v: %v", s, found)
		}
		return found[0].Value
	}
	for s := range missed {
		used := l.observer.highestOf(allocation)[s]
		if got := value(s); got >= used || got < used/4 {
			t.Errorf("%v has %v J, but used %v J", s, got, used)
		}
		whole := series{board, s.Node, s.Serial, ""}
		if got, want := value(whole), l.observer.highestOf(board)[whole]; got < want-lag || got > want {
			t.Errorf("%v has %v J, want %v J", whole, got, want)
		}
	}
}

// checkStatement checks that all other counters arrived completely, except for the growth after their last scrapes.
func (l *life) checkStatement(t *testing.T, missed map[series]bool, now time.Time) {
	for _, name := range []string{allocation, board} {
		got := make(map[series]float64)
		for _, s := range l.ask("max by (__name__, node, serial, pod) (max_over_time("+name+"[1h]))", now) {
			got[series{name, s.Labels["node"], s.Labels["serial"], s.Labels["pod"]}] = s.Value
		}
		want := l.observer.highestOf(name)
		for s, used := range want {
			if !missed[s] && (got[s] < used-lag || got[s] > used+lag) {
				t.Errorf("%v has %v J, want %v J", s, got[s], used)
			}
		}
		for s := range got {
			if _, ok := want[s]; !ok {
				t.Errorf("Thanos has %v, which no node served", s)
			}
		}
	}
}

// checkDead checks that the boards of a dead node have placements in the past but none now.
func (l *life) checkDead(t *testing.T, now time.Time) {
	dead := l.name(nodeA)
	if found := l.ask(fmt.Sprintf("%s{node=%q}", placement, dead), now); len(found) != 0 {
		t.Errorf("now: %v", found)
	}
	if found := l.ask(fmt.Sprintf("count(present_over_time(%s{node=%q}[1h]))", placement, dead), now); len(found) != 1 || found[0].Value != 5 {
		t.Errorf("in the last hour: %v, want the 5 boards that were in it", found)
	}
}
