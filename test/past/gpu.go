package past

import (
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/test/exposition"
)

// gpu describes a GPU at a position of a node during an era.
type gpu struct {
	*Node
	*builder
	target       map[string]string
	position     int
	now          string // UUID of the GPU that is now at this position
	uuid, serial string
}

func (g *gpu) labels(of map[string]string) map[string]string {
	all := maps.Clone(of)
	maps.Copy(all, g.target)
	all["UUID"], all["serial"] = g.uuid, g.serial
	return all
}

func (g *gpu) era(s span, held []hold) {
	there, losses := s, [][2]int64{{s.from, 0}}
	for _, f := range g.Faults {
		at := ticks(g.end - int64(f.At/time.Minute))
		if f.GPU != g.position || at <= s.from || at >= s.to {
			continue
		}
		g.constant("gpuledger_board_xid_errors_total", g.labels(map[string]string{"xid": f.XID}), span{at, s.to}, 1000)
		if f.Lost {
			there.to = at - tick
			losses = append(losses, [2]int64{at - tick, 0}, [2]int64{at, 1000})
		}
	}
	losses = append(losses, [2]int64{s.to, losses[len(losses)-1][1]})
	energy, idle := g.accounts(there, held)
	for metric, family := range g.Record {
		for _, m := range family.Metric {
			labels := exposition.Labels(m)
			if labels["UUID"] != g.now || !strings.HasPrefix(metric, "gpuledger_board_") && metric != "gpuledger_placement_info" {
				continue
			}
			switch of := g.labels(labels); {
			case metric == "gpuledger_board_energy_joules_total":
				g.add(metric, of, energy...)
			case metric == "gpuledger_board_unattributed_energy_joules_total" && labels["reason"] == "idle":
				g.add(metric, of, idle...)
			case metric == "gpuledger_board_losses_total":
				g.add(metric, of, losses...)
			case metric == "gpuledger_board_xid_errors_total":
			case strings.HasSuffix(metric, "_created_timestamp_seconds"):
				g.constant(metric, of, there, s.from*60_000)
			case metric == "gpuledger_placement_info", strings.HasSuffix(metric, "_info"):
				g.constant(metric, of, there, 1000)
			default:
				g.constant(metric, of, there, 0)
			}
		}
	}
}

// accounts adds the series of the GPU's owners. It returns two lists of knots (see [Series]): for the GPU's energy, and
// for the energy without an owner.
func (g *gpu) accounts(there span, held []hold) (energy, idle [][2]int64) {
	random := rand.New(rand.NewPCG(uint64(there.from), uint64(g.position)))
	floor, limit := int64(70+g.position%5), int64(620)
	if strings.HasPrefix(g.Scenario, "gb200") {
		floor, limit = 150+int64(g.position), 1060
	}
	board, rest := int64(0), int64(0)
	energy, idle = append(energy, [2]int64{there.from, 0}), append(idle, [2]int64{there.from, 0})
	free := func(from, to int64) {
		board, rest = board+(to-from)*60*1000*floor, rest+(to-from)*60*1000*floor
		energy, idle = append(energy, [2]int64{to, board}), append(idle, [2]int64{to, rest})
	}
	at := there.from
	for _, h := range held {
		h.to = min(h.to, there.to)
		if h.from >= h.to {
			continue
		}
		if h.from > at {
			free(at, h.from)
		}
		idle = append(idle, [2]int64{h.to, rest})
		a := newAccounts(h)
		for from := h.from; from < h.to; {
			to := min((from/60+1)*60, h.to)
			active := h.load(from, random)
			watts := floor + (limit-floor)*active/100
			board += (to - from) * 60 * 1000 * watts
			energy = append(energy, [2]int64{to, board})
			// All factors are even, so half of the energy, for each of two owners, is a whole number.
			a.charge(to, (to-from)*60*1000*watts, (to-from)*60*10*floor*(100-active), (to-from)*60*10*active)
			from = to
		}
		a.add(g, h)
		at = h.to
	}
	if at < there.to {
		free(at, there.to)
	}
	return energy, idle
}

// accounts collects the series of one owner of a GPU. All owners share the GPU equally, so their series are equal.
type accounts struct {
	owners                        int64
	energy, idle, active          int64
	energies, idles, actives, gpu [][2]int64
}

func newAccounts(h hold) *accounts {
	zero := [][2]int64{{h.from, 0}}
	return &accounts{
		owners: int64(len(h.owners)), energies: zero, idles: zero, actives: zero,
		gpu: [][2]int64{{h.from, 0}, {h.to, (h.to - h.from) * 60_000 / int64(len(h.owners))}},
	}
}

// charge adds energies in millijoules and an active time in milliseconds, for the time until a minute.
func (a *accounts) charge(to, energy, idle, active int64) {
	a.energy, a.idle, a.active = a.energy+energy/a.owners, a.idle+idle/a.owners, a.active+active/a.owners
	a.energies = append(a.energies, [2]int64{to, a.energy})
	a.idles = append(a.idles, [2]int64{to, a.idle})
	a.actives = append(a.actives, [2]int64{to, a.active})
}

func (a *accounts) add(g *gpu, h hold) {
	exclusive, always := a.energies, [][2]int64{{h.from, 0}, {h.to, (h.to - h.from) * 60_000}}
	if a.owners > 1 {
		exclusive = [][2]int64{{h.from, 0}, {h.to, 0}}
	}
	for _, o := range h.owners {
		labels := g.labels(o.labels)
		for name, knots := range map[string][][2]int64{
			"energy_joules_total": a.energies, "exclusive_energy_joules_total": exclusive, "idle_energy_joules_total": a.idles,
			"gpu_seconds_total": a.gpu, "active_seconds_total": a.actives, "seconds_total": always,
			"created_timestamp_seconds": {{h.from, h.from * 60_000}, {h.to, h.from * 60_000}},
		} {
			g.add(o.prefix()+name, labels, knots...)
		}
	}
}
