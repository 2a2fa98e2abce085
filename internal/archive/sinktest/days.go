package sinktest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/draws"
)

// TestDays makes random changes: it writes and corrects hours, prunes months, and renames clusters. After each change,
// the daily sums must equal the sums of the hours. If compare is not nil, TestDays then calls it.
func TestDays(t *testing.T, open func(t *testing.T) (Renamer, Rows), compare func(t *testing.T)) {
	seeds, changes := draws.Of(1, 3), 60
	if testing.Short() {
		seeds, changes = 1, 20
	}
	for seed := range uint64(seeds) {
		s, rows := open(t)
		r := &randomDays{random: rand.New(rand.NewPCG(seed, 7)), clusters: []string{Cluster, "west"}, filed: make(map[string]*table.Hour)}
		for n := range changes {
			change := r.change(t, s, n)
			compareDays(t, rows)
			if compare != nil {
				compare(t)
			}
			if t.Failed() {
				t.Fatalf("seed %d, change %d: %s", seed, n, change)
			}
		}
		if len(rows(table.Days)) == 0 || len(rows(table.GPUDays)) == 0 {
			t.Errorf("seed %d: there are no days", seed)
		}
	}
}

// randomDays changes hours in the last days of January and the first days of February.
type randomDays struct {
	random   *rand.Rand
	clusters []string
	filed    map[string]*table.Hour // unpruned hours by cluster and time
}

var february = time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)

// change makes the n-th change, and describes it.
func (r *randomDays) change(t *testing.T, s Renamer, n int) string {
	t.Helper()
	i := r.random.IntN(len(r.clusters))
	cluster := r.clusters[i]
	start := february.Add(time.Duration([]int{-24, -23, -22, -3, -2, -1, 0, 1, 2, 22, 23, 24}[r.random.IntN(12)]) * time.Hour)
	key := cluster + start.String()
	switch kind := r.random.IntN(20); {
	case kind == 0 && n > 10:
		check(t, s.Prune(t.Context(), february, false, func(table.Deleted) {}))
		for key, h := range r.filed {
			if h.Start.Before(february) {
				delete(r.filed, key)
			}
		}
		return "prune"
	case kind == 1:
		r.clusters[i] = cluster + strconv.Itoa(n)
		_, err := s.RenameCluster(t.Context(), cluster, r.clusters[i])
		check(t, err)
		clear(r.filed) // the test writes these hours again
		return "rename " + cluster + " to " + r.clusters[i]
	case kind < 7 && r.filed[key] != nil:
		h := *r.filed[key]
		h.Revision = int64(n) + 2 // if a cluster is renamed, its corrections keep their revisions
		h.State, h.Digest, h.Corrections = table.Corrected, "other", []table.Charge{r.charge("GPU-0", r.random.IntN(3))}
		if r.random.IntN(2) == 0 {
			h.Corrections = table.Difference(h.Charges, unprofiled(h.Charges))
			h.Charges = unprofiled(h.Charges)
		}
		check(t, s.Correct(t.Context(), &h))
		r.filed[key] = &h
		return "correct " + key
	}
	h := r.hour(cluster, start, i)
	if err := s.Replace(t.Context(), h); !errors.Is(err, table.ErrPruned) {
		check(t, err)
		r.filed[key] = h
	}
	return "file " + key
}

// hour returns an hour with boards in random places. Different clusters have different boards.
func (r *randomDays) hour(cluster string, start time.Time, index int) *table.Hour {
	h := &table.Hour{Cluster: cluster, Start: start}
	for i := range 3 {
		for _, node := range []string{"a", "b"} {
			if r.random.IntN(4) == 0 == (node == "a") { // most boards are on node a
				continue
			}
			g := table.GPU{Node: node, UUID: fmt.Sprintf("GPU-%d-%d", index, i), Serial: "s", PCIBusID: "1", Model: "H100", Energy: r.random.Int64N(1 << 40)}
			if r.random.IntN(8) > 0 {
				g.Scrapes = 60
				g.First, g.Last = start.Add(time.Duration(len(h.GPUs)+1)*time.Minute), start.Add(59*time.Minute)
			}
			if r.random.IntN(10) == 0 {
				g.Serial = "" // the serial number is not yet known
			}
			h.GPUs = append(h.GPUs, g)
			for j := range 3 {
				c := r.charge(g.UUID, j)
				c.Node = node
				if c.Reason == "" && r.random.IntN(3) > 0 {
					c.Began, c.Ended = start.Add(time.Duration(j)*time.Millisecond), start.Add(30*time.Minute)
				}
				h.Charges = append(h.Charges, c)
			}
		}
	}
	return Complete(h)
}

// unprofiled returns copies of charges with unknown profiled times and with another label.
func unprofiled(charges []table.Charge) (all []table.Charge) {
	for _, c := range charges {
		c.Labels, c.Profiled, c.TensorActive, c.DRAMActive = "project=sun", nil, nil, nil
		all = append(all, c)
	}
	return all
}

func (r *randomDays) charge(uuid string, n int) table.Charge {
	c := (&history{random: r.random}).charge(0, n)
	c.UUID = uuid
	return c
}

func named(of table.Table, row []string) map[string]string {
	values := make(map[string]string)
	for i, name := range of.Names() {
		values[name] = row[i]
	}
	return values
}

// compareDays adds up the rows of the daily sums and the rows of the hours. Both sums must be equal. If the last hour
// of a day was written, the database must already have added up this day.
func compareDays(t *testing.T, rows Rows) {
	t.Helper()
	ended := make(map[string]bool)
	for _, row := range rows(table.Hours) {
		if day, ok := strings.CutSuffix(row[1], "T23:00:00.000Z"); ok {
			ended[row[0]+day] = true
		}
	}
	var charges, gpus []map[string]string
	for _, of := range []table.Table{table.Charges, table.Corrections} {
		for _, row := range rows(of) {
			charges = append(charges, dayOf(t, named(of, row)))
			if of.Name == table.Corrections.Name {
				charges[len(charges)-1]["hours"] = "0"
			}
		}
	}
	for _, row := range rows(table.GPUHours) {
		gpus = append(gpus, dayOf(t, named(table.GPUHours, row)))
	}
	for _, tt := range []struct {
		of    table.Table
		hours []map[string]string
		join  func([]map[string]string) []map[string]string
	}{{table.Days, charges, joinCharges}, {table.GPUDays, gpus, joinPlaces}} {
		var filed []map[string]string
		count := make(map[string]int) // rows minus joined rows
		for _, row := range rows(tt.of) {
			filed = append(filed, named(tt.of, row))
			if filed[len(filed)-1]["profiled_ms"] == "0" {
				t.Errorf("the profiled time of a row in %s is 0, must be unknown: %v", tt.of.Name, row)
			}
			count[row[0]+row[1]]++
		}
		joined := tt.join(filed)
		for _, row := range joined {
			count[row["cluster"]+row["day"]]--
		}
		for day, n := range count {
			if n != 0 && ended[day] {
				t.Errorf("%s has %d rows too many on %s", tt.of.Name, n, day)
			}
		}
		if diff := Diff(texts(tt.of, tt.join(tt.hours)), texts(tt.of, joined)); diff != "" {
			t.Errorf("%s (-hours +filed):\n%s", tt.of.Name, diff)
		}
	}
}

func texts(of table.Table, rows []map[string]string) (all [][]string) {
	for _, values := range rows {
		var row []string
		for _, name := range of.Names() {
			row = append(row, values[name])
		}
		all = append(all, row)
	}
	return sorted(all)
}

// dayOf converts a row of an hour to a daily sum of only this row.
func dayOf(t *testing.T, row map[string]string) map[string]string {
	t.Helper()
	row["day"], row["first_hour"], row["last_hour"], row["hours"] = row["hour"][:10], row["hour"], row["hour"], "1"
	if row["began"] == "" {
		row["began"] = row["hour"]
	}
	if row["ended"] == "" {
		hour, err := time.Parse(time.RFC3339, row["hour"])
		check(t, err)
		row["ended"] = table.Format(hour.Add(time.Hour))
	}
	return row
}

// joinCharges adds up rows with the same account on the same day.
func joinCharges(rows []map[string]string) (joined []map[string]string) {
	all := make(map[string]map[string]string)
	for _, c := range rows {
		var key []string
		for text := range strings.FieldsSeq("cluster day node uuid serial namespace pod pod_uid workload_kind workload_name workload_uid team reason manager unit username queue cluster_queue labels") {
			key = append(key, c[text])
		}
		sum := all[strings.Join(key, "|")]
		if sum == nil {
			all[strings.Join(key, "|")] = c
			joined = append(joined, c)
			continue
		}
		for number := range strings.FieldsSeq("hours energy_mj exclusive_mj idle_mj held_ms gpu_ms active_ms estimated_mj busy_ms") {
			add(sum, c, number)
		}
		for _, number := range optionalAmounts {
			sum[number] = plus(sum[number], c[number])
		}
		sum["first_hour"], sum["began"] = min(sum["first_hour"], c["first_hour"]), min(sum["began"], c["began"])
		sum["last_hour"], sum["ended"] = max(sum["last_hour"], c["last_hour"]), max(sum["ended"], c["ended"])
	}
	for _, sum := range joined {
		if sum["profiled_ms"] == "0" { // a correction made the time unknown
			sum["profiled_ms"], sum["tensor_active_ms"], sum["dram_active_ms"] = "", "", ""
		}
	}
	return joined
}

// joinPlaces joins consecutive rows of a GPU in the same place on the same day.
func joinPlaces(rows []map[string]string) (joined []map[string]string) {
	slices.SortFunc(rows, func(a, b map[string]string) int {
		return slices.Compare([]string{a["first_hour"], a["first_seen"], a["node"]}, []string{b["first_hour"], b["first_seen"], b["node"]})
	})
	last := make(map[string]map[string]string)
	for _, g := range rows {
		gpu := strings.Join([]string{g["cluster"], g["day"], g["uuid"], fmt.Sprint(g["scrapes"] == "0")}, "|")
		run := last[gpu]
		if run == nil || !follows(run, g) || run["node"] != g["node"] || run["serial"] != g["serial"] {
			last[gpu] = g
			joined = append(joined, g)
			continue
		}
		for _, number := range []string{"hours", "scrapes", "energy_mj"} {
			add(run, g, number)
		}
		run["last_hour"], run["last_seen"] = g["last_hour"], max(run["last_seen"], g["last_seen"])
	}
	return joined
}

// follows reports whether row begins in the hour after the last hour of before.
func follows(before, row map[string]string) bool {
	last, _ := time.Parse(time.RFC3339, before["last_hour"])
	return table.Format(last.Add(time.Hour)) == row["first_hour"]
}

func add(sum, row map[string]string, name string) {
	a, _ := strconv.ParseInt(sum[name], 10, 64)
	b, _ := strconv.ParseInt(row[name], 10, 64)
	sum[name] = strconv.FormatInt(a+b, 10)
}
