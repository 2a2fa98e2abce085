//go:build e2e

package rules_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/test/promdoc"
)

// TestRandomHistories compares the statements of 70 random fleets with a walk through their samples: reboots, moves, scrape
// gaps, exporters that are away, fail-over of the scraper, pods and units of all ages, with and without an allocation. Every second
// history has two clusters with the same nodes, boards and namespaces in one store.
func TestRandomHistories(t *testing.T) {
	doc, err := promdoc.Read("../../../docs/queries.md")
	check(t, err)
	const histories, batch = 70, 10
	for first := 0; first < histories; first += batch {
		t.Run(fmt.Sprintf("%d-%d", first, first+batch-1), func(t *testing.T) {
			t.Parallel()
			var groups []testGroup
			for seed := first; seed < first+batch; seed++ {
				h, questions := randomHistory(uint64(seed))
				var tests []expressionTest
				for _, q := range questions {
					text, err := doc.Query(q.title, q.variables)
					check(t, err)
					tests = append(tests, expect("round("+text+", 0.001)", q.at, rounded(q.want)))
				}
				groups = append(groups, h.group(0, tests))
			}
			promtoolTest(t, map[string]any{"evaluation_interval": "15m"}, groups)
		})
	}
}

// rounded rounds values as PromQL does.
func rounded(values map[string]float64) map[string]float64 {
	for of, v := range values {
		values[of] = math.Floor(v*1000+0.5) / 1000
	}
	return values
}

const randomHours = 6

func randomHistory(seed uint64) (*history, []question) {
	random := rand.New(rand.NewPCG(seed, 7))
	all := newHistory(15 * time.Second)
	clusters := []string{""}
	if seed%2 == 1 {
		clusters = []string{"east", "west"}
	}
	var fleets []*fleet
	for _, cluster := range clusters {
		f := randomFleet(random, cluster)
		fleets = append(fleets, f)
		maps.Copy(all.series, f.series)
	}
	counted := span{time.Hour, randomHours * time.Hour}
	ask := func(title string, of span, metric string, scale float64, names ...string) question {
		want := make(map[string]float64)
		for _, f := range fleets {
			for labels, sum := range f.sum(metric, of, by(names...)) {
				want[labels] = sum / scale
			}
		}
		return question{title, of.to, map[string]string{"window": (of.to - of.from).String(), "cluster": ".*"}, want}
	}
	hour := span{counted.to - time.Hour, counted.to}
	unattributed := ask("Energy of each board that no pod or unit was charged for", counted, boardEnergy, 1, "cluster", "UUID", "serial")
	for _, f := range fleets {
		for _, metric := range []string{allocationEnergy, unitEnergy} {
			for labels, joules := range f.sum(metric, counted, by("cluster", "UUID", "serial")) {
				unattributed.want[labels] -= joules
			}
		}
	}
	return all, []question{
		ask("Energy of each namespace", counted, allocationEnergy, 1, "cluster", "namespace"),
		ask("Energy of each namespace", hour, allocationEnergy, 1, "cluster", "namespace"),
		ask("Idle energy of each namespace", counted, allocationIdle, 1, "cluster", "namespace"),
		ask("GPU hours of each namespace", counted, allocationGPU, 3600, "cluster", "namespace"),
		ask("Active GPU hours of each namespace", counted, allocationActive, 3600, "cluster", "namespace"),
		ask("Energy of each unit", counted, unitEnergy, 1, "cluster", "manager", "unit"),
		ask("Energy of each unit", hour, unitEnergy, 1, "cluster", "manager", "unit"),
		ask("Energy of each manager", counted, unitEnergy, 1, "cluster", "manager"),
		ask("Idle energy of each unit", counted, unitIdle, 1, "cluster", "manager", "unit"),
		ask("GPU hours of each unit", counted, unitGPU, 3600, "cluster", "manager", "unit"),
		ask("Active GPU hours of each unit", counted, unitActive, 3600, "cluster", "manager", "unit"),
		ask("Energy of each board", counted, boardEnergy, 1, "cluster", "UUID", "serial"),
		unattributed,
	}
}

func randomFleet(random *rand.Rand, cluster string) *fleet {
	const end = (randomHours + 2) * time.Hour
	f := &fleet{history: newHistory(15 * time.Second), cluster: cluster, off: make(map[string][]span), silent: make(map[string][]span)}
	moment := func() time.Duration {
		return time.Duration(random.IntN(int(randomHours*time.Hour/time.Second))) * time.Second
	}
	spell := func(most time.Duration) span {
		from := moment()
		return span{from, from + time.Duration(1+random.IntN(int(most/time.Second)))*time.Second}
	}
	nodes := []string{"a", "b", "c"}
	for i := range 4 {
		b := board{uuid: fmt.Sprint("GPU-", i), serial: fmt.Sprint("S", i), watts: 100 + random.IntN(600)}
		from, to := nodes[random.IntN(3)], nodes[random.IntN(3)]
		if moved := moment(); from != to {
			b.stays = map[string]span{from: {0, moved}, to: {moved + 10*time.Minute, end}}
		} else {
			b.stays = map[string]span{from: {0, end}}
		}
		f.boards = append(f.boards, b)
	}
	for i := range 16 {
		p := pod{
			namespace: fmt.Sprint("team-", random.IntN(3)), name: fmt.Sprint("pod-", i), uid: fmt.Sprint("u", i),
			board: f.boards[random.IntN(4)].uuid, span: spell(4 * time.Hour), share: 0.25, bare: random.IntN(4) == 0,
		}
		if i >= 12 {
			p.manager, p.namespace = []string{"slurm", "docker"}[i%2], ""
		}
		if i%4 == 0 {
			p.from, p.age = 0, time.Duration(random.IntN(20*24))*time.Hour
		}
		f.pods = append(f.pods, p)
	}
	for _, node := range nodes {
		for range random.IntN(3) {
			f.off[node] = append(f.off[node], spell(15*time.Minute))
		}
		for range random.IntN(3) {
			f.silent[node] = append(f.silent[node], spell(50*time.Minute))
		}
	}
	f.blind = append(f.blind, spell(40*time.Minute))
	f.second = append(f.second, spell(time.Hour))
	f.simulate(end, span{}, random)
	return f
}
