//go:build e2e

package archive_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/fleet"
	"github.com/gpuledger/gpuledger/test/program"
)

const (
	// The exporters read the driver and are scraped every tick of real time. In the archive, the timestamps of these
	// scrapes are one interval apart.
	tick, interval = 250 * time.Millisecond, 30 * time.Second
	// By their timestamps, the scrapes cover more than an hour. They begin half an hour after a full hour.
	ticks = 150
)

// books contains a real exporter on a simulated node, and its scrapes with accelerated timestamps.
type books struct {
	*testing.T
	fleet   *fleet.Fleet
	node    fleet.Node
	program *program.Program
	name    string
	began   time.Time     // time at which the scrapes began, on the real clock
	moved   time.Duration // difference between the timestamps and the real clock; 0 for accelerated timestamps
	record  *foldtest.Store
	// latest contains the counters at the last scrape since boot. filed contains the sums of the counters of earlier
	// boots. The key is metric and account.
	latest, filed map[string]int64
}

func (b *books) at(moment time.Time) time.Time {
	if b.moved != 0 {
		return moment.Add(b.moved).Truncate(time.Millisecond)
	}
	return began.Add(30*time.Minute + time.Duration(float64(moment.Sub(b.began))*float64(interval)/float64(tick))).Truncate(time.Millisecond)
}

func (b *books) boot() {
	b.Helper()
	var err error
	b.program, err = b.fleet.Boot(b.Context(), b.node)
	check(b.T, err)
}

// reboot cuts the node's power, so its counters start again from zero.
func (b *books) reboot() {
	b.program.Kill()
	for account, n := range b.latest {
		b.filed[account] += n
	}
	clear(b.latest)
	b.node.Machine.Boot++
	b.boot()
}

func (b *books) scrape() {
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Second)
	defer cancel()
	now := time.Now()
	page, err := exposition.Scrape(ctx, "http://"+b.node.Address+"/metrics/record")
	b.record.Add(b.at(now), map[bool]float64{true: 1}[err == nil], "up", "cluster", "east", "job", "gpuledger-record", "node", b.name)
	if err != nil {
		return
	}
	for metric, family := range page {
		for _, m := range family.Metric {
			labels, value := exposition.Labels(m), exposition.Value(m)
			if strings.HasSuffix(metric, "_created_timestamp_seconds") {
				value = float64(b.at(time.UnixMicro(int64(value*1e6))).UnixMilli()) / 1000
			}
			var pairs []string
			labels["cluster"], labels["node"] = "east", b.name
			for name, text := range labels {
				pairs = append(pairs, name, text)
			}
			b.record.Add(b.at(now), value, metric, pairs...)
			if account := strings.Join([]string{metric, labels["UUID"], labels["pod_uid"] + labels["unit"], labels["reason"]}, " "); strings.HasSuffix(metric, "_total") {
				n := int64(math.Round(value * 1000))
				if n < b.latest[account] { // the unit has returned after the exporter removed its counters
					b.filed[account] += b.latest[account]
				}
				b.latest[account] = n
			}
		}
	}
}

// sums omits zeros.
func sums(all []*books) map[string]int64 {
	found := make(map[string]int64)
	for _, b := range all {
		for _, counters := range []map[string]int64{b.filed, b.latest} {
			for account, n := range counters {
				if n != 0 {
					found[account] += n
				}
			}
		}
	}
	return found
}

// TestBooks checks that a database contains all energy and times that the exporters counted and Prometheus scraped, to
// the millijoule and millisecond. Real exporters run on simulated nodes. A real Prometheus scrapes them, and a real
// Thanos stores the samples. One node loses its power twice, another node is not scraped for a while, and a third node
// runs Slurm jobs.
func TestBooks(t *testing.T) {
	t.Parallel()
	f := fleet.OpenFor(t)
	record := foldtest.NewStore()
	var all []*books
	for i, scenario := range []string{"churn", "churn", "slurm"} {
		n := fleet.Node{
			Scenario: scenario, Machine: simnode.Machine{Number: i}, Address: program.AddressFor(t),
			Flags: []string{"--tick=" + tick.String(), "--retention=2s"},
		}
		sc, err := n.Simulated()
		check(t, err)
		b := &books{T: t, fleet: f, node: n, name: sc.Node, record: record, latest: make(map[string]int64), filed: make(map[string]int64)}
		b.boot()
		all = append(all, b)
	}
	start, late := time.Now(), time.Duration(0)
	for i := range ticks {
		for j, b := range all {
			b.began = start
			switch {
			case j == 0 && (i == 40 || i == 90):
				b.reboot()
			case j == 1 && i > 50 && i < 70:
				continue // no scrapes
			}
			b.scrape()
		}
		late = max(late, time.Since(start)-time.Duration(i)*tick)
		<-time.After(time.Until(start.Add(time.Duration(i+1) * tick)))
	}

	server := serve(t, f.Group, "store", record, "global: {external_labels: {replica: a}}")
	n := thanos{t, f.Group}
	_, sidecar := n.sidecar(server)
	url, db := startPostgres(t).create(t, "gpuledger")
	folder := t.TempDir()
	fileHours(t, folder, "--store.type=thanos", "--store.url="+n.query([]string{sidecar}, "--query.replica-label=replica"), "--postgres.url="+url)
	got := make(map[string]int64)
	add := func(metric, sql string) {
		for _, line := range db.rows(t, sql) {
			fields := strings.Split(line, " | ")
			sum, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
			check(t, err)
			got[strings.Join(append([]string{metric}, fields[:len(fields)-1]...), " ")] += sum
		}
	}
	add("gpuledger_board_energy_joules_total", "select uuid, '', '', sum(energy_mj) from gpu_hours group by uuid")
	add("gpuledger_board_uncounted_energy_bound_joules_total", "select uuid, '', '', sum(uncounted_mj) from gpu_hours group by uuid having sum(uncounted_mj) > 0")
	add("gpuledger_board_estimated_energy_joules_total", "select uuid, '', '', sum(estimated_mj) from gpu_hours group by uuid having sum(estimated_mj) > 0")
	add("gpuledger_board_unattributed_energy_joules_total", "select uuid, '', reason, sum(energy_mj) from charges where reason <> '' and reason <> 'unrecorded' group by uuid, reason")
	for metric, column := range map[string]string{
		"energy_joules_total": "energy_mj", "exclusive_energy_joules_total": "exclusive_mj", "idle_energy_joules_total": "idle_mj",
		"seconds_total": "held_ms", "gpu_seconds_total": "gpu_ms", "active_seconds_total": "active_ms",
		"estimated_energy_joules_total": "estimated_mj", "busy_seconds_total": "busy_ms",
	} {
		for family, owner := range map[string]string{"gpuledger_allocation_": "pod_uid", "gpuledger_unit_allocation_": "unit"} {
			add(family+metric, "select uuid, "+owner+", '', sum("+column+") from charges where "+owner+" <> '' group by uuid, "+owner+" having sum("+column+") > 0")
		}
	}
	want := sums(all)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sums (-exporters' books +database):\n%s", diff)
	}
	checkUses(t, db, late)
	pods := slices.DeleteFunc(db.rows(t, "select distinct pod_uid from charges"), func(uid string) bool { return uid == "" })
	units := db.rows(t, "select distinct manager, unit from charges where unit <> ''")
	if len(pods) < 10 || len(units) < 3 || len(want) < 100 {
		t.Errorf("%d pods, %d units, %d accounts: too few for this test", len(pods), len(units), len(want))
	}
	t.Logf("%d pods, %d units, %d accounts", len(pods), len(units), len(want))
}

// checkUses checks that each period of use is at least as long as the GPU time that the exporter counted. For most
// owners, a period must not be longer than the time for which the owner held the GPU. There are two exceptions: one
// node is not scraped for ten minutes, and a job is suspended. late is the largest delay of a scrape.
func checkUses(t *testing.T, db query, late time.Duration) {
	t.Helper()
	const scale = int64(interval / tick)
	slack := scale * (2*tick + late).Milliseconds()
	near, all := 0, 0
	for _, line := range db.rows(t, "select gpu_ms, held_ms, cast(1000 * extract(epoch from ended - began) as bigint) from allocations where held_ms > 0") {
		var weighted, held, used int64
		if _, err := fmt.Sscanf(line, "%d | %d | %d", &weighted, &held, &used); err != nil || used < scale*weighted-slack {
			t.Errorf("use of a GPU is shorter than its GPU time: %s (GPU and held time in ms, use in accelerated ms): %v", line, err)
		}
		if all++; used <= scale*held+slack {
			near++
		}
	}
	t.Logf("%d of %d uses match their held time; the scrapes were late by at most %v", near, all, late)
	if 10*near < 8*all || all < 50 {
		t.Errorf("only %d of %d uses match their held time", near, all)
	}
}
