//go:build e2e

package dashboards_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/prometheus"
)

var seed = flag.Uint64("seed", 0, "`seed` of the random fleets; 0 means 1 in a short run, and the current time otherwise")

const length = 9 * time.Hour

// use is a span in which a pod or a unit holds a whole GPU or half of it.
type use struct {
	from, to time.Duration
	share    float64
	unit     bool
}

// drawnGPU has an empty chassis if its node has none.
type drawnGPU struct {
	cluster, node, chassis, slot, model, uuid string
	uses                                      []use
	lost                                      time.Duration // 0 if the GPU is not lost
	xids                                      []time.Duration
}

// failed contains the times of failed scrapes, by node.
type drawn struct {
	gpus   []drawnGPU
	failed map[string]map[time.Duration]bool
}

// draw draws a random fleet of three nodes. Pods and units start and end at least six minutes before or after a full
// hour. Scrapes near a full hour can fail. Therefore a counter of seconds may grow by more or less than an hour between
// the scrapes near two full hours.
func draw(random *rand.Rand) (d drawn) {
	d.failed = make(map[string]map[time.Duration]bool)
	for n := range 3 {
		node, chassis := fmt.Sprint("node-", n), []string{"", "C7"}[n%2]
		d.failed[node] = make(map[time.Duration]bool)
		for hour := range int(length / time.Hour) {
			for m := -random.IntN(3); m < random.IntN(3); m++ {
				d.failed[node][time.Duration(hour)*time.Hour+time.Duration(m)*time.Minute] = true
			}
		}
		for position := range 3 {
			g := drawnGPU{
				cluster: []string{"east", "west"}[n/2], node: node, chassis: chassis, model: []string{"H100", "A100"}[random.IntN(2)],
				uuid: fmt.Sprintf("GPU-%d-%d", n, position),
			}
			if chassis != "" {
				g.slot = fmt.Sprint(position)
			}
			g.draw(random)
			d.gpus = append(d.gpus, g)
		}
	}
	return d
}

// draw draws the uses and the faults of a GPU. At least ten minutes pass between two uses.
func (g *drawnGPU) draw(random *rand.Rand) {
	until := length
	if random.IntN(3) == 0 {
		g.lost = time.Duration(60+random.IntN(480)) * time.Minute
		until = g.lost
	}
	for range random.IntN(3) {
		g.xids = append(g.xids, time.Duration(30+random.IntN(500))*time.Minute)
	}
	moment := func(after time.Duration) time.Duration { // in minutes 8 to 51 of an hour
		at := after + time.Duration(random.IntN(100))*time.Minute
		switch minute := at % time.Hour / time.Minute; {
		case minute < 8:
			at += (8 - minute) * time.Minute
		case minute > 51:
			at += (68 - minute) * time.Minute
		}
		return at
	}
	for at := moment(0); at < until; at = moment(at + 10*time.Minute) {
		end := moment(at + time.Duration(20+random.IntN(200))*time.Minute)
		for half := range 2 {
			if whole := random.IntN(2) == 0; whole && half == 0 {
				g.uses = append(g.uses, use{at, min(end, until), 1, random.IntN(3) == 0})
				break
			} else if random.IntN(3) > 0 {
				g.uses = append(g.uses, use{at, min(end, until), 0.5, random.IntN(3) == 0})
			}
		}
		at = end
	}
}

const phase = 17 * time.Second

// samples adds a series with a value at each successful scrape between two times.
func (d drawn) samples(h *history, g drawnGPU, name, labels string, from, to time.Duration, value func(at time.Duration) float64) {
	for at := time.Duration(0); at < length; at += time.Minute {
		if t := at + phase; t >= from && t < to && !d.failed[g.node][at] {
			fmt.Fprintf(h, "%s{cluster=%q,node=%q,UUID=%q,serial=%q%s} %f %d\n", name, g.cluster, g.node, g.uuid, "S-"+g.uuid, labels, value(t), began.Add(t).Unix())
		}
	}
}

// history returns the scraped samples. The exporter serves an owner's counters until five minutes after its end.
func (d drawn) history() []byte {
	var h history
	for _, g := range d.gpus {
		until := length
		if g.lost != 0 {
			until = g.lost
		}
		constant := func(value float64) func(time.Duration) float64 { return func(time.Duration) float64 { return value } }
		place := fmt.Sprintf(`,model=%q,chassis_serial=%q,chassis_slot=%q`, g.model, g.chassis, g.slot)
		d.samples(&h, g, "gpuledger_placement_info", place, 0, until, constant(1))
		d.samples(&h, g, "gpuledger_gpu_info", place, 0, length, constant(1))
		d.samples(&h, g, "gpuledger_board_energy_joules_total", "", 0, until, func(at time.Duration) float64 { return 100 * at.Seconds() })
		d.samples(&h, g, "gpuledger_board_losses_total", "", 0, length, func(at time.Duration) float64 {
			if g.lost != 0 && at >= g.lost {
				return 1
			}
			return 0
		})
		for i, xid := range g.xids {
			d.samples(&h, g, "gpuledger_board_xid_errors_total", fmt.Sprintf(`,xid="%d"`, 31+i), xid, length, constant(1))
		}
		for i, u := range g.uses {
			prefix, labels := "gpuledger_allocation_", fmt.Sprintf(`,namespace="n",pod="p-%s-%d",pod_uid="p-%[1]s-%[2]d"`, g.uuid, i)
			if u.unit {
				prefix, labels = "gpuledger_unit_allocation_", fmt.Sprintf(`,manager="slurm",unit="%s-%d"`, g.uuid, i)
			}
			for metric, rate := range map[string]float64{"gpu_seconds": u.share, "active_seconds": u.share / 2, "energy_joules": 60 * u.share} {
				d.samples(&h, g, prefix+metric+"_total", labels, u.from, u.to+5*time.Minute, func(at time.Duration) float64 { return rate * (min(at, u.to) - u.from).Seconds() })
			}
			d.samples(&h, g, prefix+"created_timestamp_seconds", labels, u.from, u.to+5*time.Minute, constant(float64(began.Add(u.from).Unix())))
		}
	}
	return h.bytes()
}

// present reports whether a driver lists the GPU at the given time or later.
func (g drawnGPU) present(from time.Duration) bool { return g.lost == 0 || g.lost > from }

// held returns the longest time for which one owner held the GPU or a part of it, as a share of the range.
func (g drawnGPU) held(from, to time.Duration) (share float64) {
	for _, u := range g.uses {
		share = max(share, (min(to, u.to)-max(from, u.from)).Seconds()/(to-from).Seconds())
	}
	return share
}

// free returns the smallest number of GPUs without an owner during a full hour. It considers all hours for which the
// rules have results.
func (d drawn) free(model string, at time.Duration) int {
	fewest := len(d.gpus)
	for hour := time.Duration(0); hour+2*time.Hour <= at.Truncate(time.Hour); hour += time.Hour {
		n := 0
		for _, g := range d.gpus {
			seen := hour + time.Hour // end of the time in which a driver listed the GPU in this hour
			if g.lost != 0 {
				seen = min(seen, g.lost)
			}
			if (model == ".*" || g.model == model) && d.scraped(g, hour, seen) && g.held(hour, hour+time.Hour) == 0 {
				n++
			}
		}
		fewest = min(fewest, n)
	}
	return fewest
}

// failures counts the GPUs that had failed by a given time, by model or by slot.
func (d drawn) failures(model string, at time.Duration, by func(g drawnGPU) string) (xids, losses map[string]float64) {
	xids, losses = make(map[string]float64), make(map[string]float64)
	for _, g := range d.gpus {
		if model != ".*" && g.model != model {
			continue
		}
		if slices.ContainsFunc(g.xids, func(x time.Duration) bool { return d.scraped(g, x, at) }) {
			xids[by(g)]++
		}
		if g.lost != 0 && d.scraped(g, g.lost, at) {
			losses[by(g)]++
		}
	}
	return xids, losses
}

func (d drawn) scraped(g drawnGPU, from, to time.Duration) bool {
	for at := time.Duration(0); at+phase <= to; at += time.Minute {
		if at+phase >= from && !d.failed[g.node][at] {
			return true
		}
	}
	return false
}

// TestRandomFleets compares the panels of the dashboard "Fleet" with random fleets at random times. The range of the
// dashboard is 90 days.
func TestRandomFleets(t *testing.T) {
	var rules []string
	for _, name := range []string{"energy", "placement"} {
		file, err := filepath.Abs("../../../dashboards/rules/" + name + ".yaml")
		check(t, err)
		rules = append(rules, file)
	}
	from := *seed
	if from == 0 && testing.Short() {
		from = 1
	} else if from == 0 {
		from = uint64(time.Now().UnixNano())
	}
	moments := 12
	if testing.Short() {
		moments = 4
	}
	for n := range uint64(4) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Logf("-seed=%d", from)
			random := rand.New(rand.NewPCG(from, n))
			d := draw(random)
			address := backfilled(t, fmt.Sprint("fleet-", n), length, d.history(), rules...)
			for range moments {
				d.compare(t, address, []string{".*", "H100", "A100"}[random.IntN(3)], 2*time.Hour+time.Duration(random.Int64N(int64(length-2*time.Hour))).Truncate(time.Second))
			}
		})
	}
}

func (d drawn) compare(t *testing.T, address, model string, at time.Duration) {
	t.Helper()
	got := make(map[string][]map[string]float64)
	for _, p := range read(t, "../../../dashboards/fleet.json").Panels {
		for _, q := range p.Targets {
			// For a range of 90 days, Grafana gives these values to the variables.
			expr := filled(q.Expr, "fleet", map[string]string{"__range": "7776000s", "__interval": "7776s", "__rate_interval": "7836s", "model": model})
			samples, err := prometheus.Query(t.Context(), address, expr, began.Add(at))
			check(t, err)
			values := make(map[string]float64)
			for _, s := range samples {
				l := s.Labels
				if p.Title == "Failures by slot" && (l["chassis_serial"] == "" || l["chassis_slot"] == "" || l["node"] == "") {
					t.Errorf("%s: Grafana joins %v to all rows", p.Title, l)
				}
				values[strings.Join(strings.Fields(l["model"]+" "+l["node"]+" "+l["chassis_serial"]+" "+l["chassis_slot"]), " ")] = s.Value
			}
			got[p.Title] = append(got[p.Title], values)
		}
	}
	where := fmt.Sprintf("%s at %v", model, at)
	d.counts(t, where, model, at, func(panel string) float64 { return got[panel][0][""] })
	for panel, by := range map[string]func(g drawnGPU) string{
		"Failures by model": func(g drawnGPU) string { return g.model },
		"Failures by slot": func(g drawnGPU) string {
			if g.chassis == "" {
				return g.node + " - -"
			}
			return g.node + " " + g.chassis + " " + g.slot
		},
	} {
		xids, losses := d.failures(model, at, by)
		if diff := cmp.Diff([]map[string]float64{xids, losses}, got[panel]); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", where, panel, diff)
		}
	}
}

// counts accepts a range of numbers. A lost GPU stays visible in Prometheus for five minutes, and rates cover four to
// six minutes.
func (d drawn) counts(t *testing.T, where, model string, at time.Duration, got func(panel string) float64) {
	t.Helper()
	var least, most, leastHeld, mostHeld float64
	for _, g := range d.gpus {
		if model != ".*" && g.model != model {
			continue
		}
		before := at - 8*time.Minute
		if g.present(at) {
			least++
		}
		if g.present(before) {
			most++
		}
		if g.present(at) && g.held(before, at) == 1 {
			leastHeld++
		}
		if g.present(before) && g.held(before, at) > 0 {
			mostHeld++
		}
	}
	present, allocated, free, peak := got("GPUs present"), got("GPUs allocated"), got("GPUs free"), got("GPUs free at the peak")
	if present < least || present > most || allocated < leastHeld || allocated > mostHeld || present != allocated+free {
		t.Errorf("%s: %v GPUs present, want %v to %v, %v allocated, want %v to %v, %v free", where, present, least, most, allocated, leastHeld, mostHeld, free)
	}
	if want := float64(d.free(model, at)); peak != want {
		t.Errorf("%s: %v GPUs free at the peak, want %v", where, peak, want)
	}
	if share := got("Allocated share"); share < 0 || share > 1 {
		t.Errorf("%s: the allocated share is %v", where, share)
	}
	if active := got("Active share"); active < 0 || active > 0.5+1e-9 {
		t.Errorf("%s: the active share is %v", where, active)
	}
}
