package sinktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
)

// Pruner is a sink that stores hours and events, and can prune them.
type Pruner interface {
	Sink
	Appender
	Prune(ctx context.Context, before time.Time, dry bool, done func(table.Deleted)) error
}

// Rows returns all rows of a table, in any order. The values have the format [table.Format].
type Rows func(t table.Table) [][]string

func (r Rows) all() map[string][][]string {
	all := make(map[string][][]string)
	for _, of := range table.All {
		all[of.Name] = sorted(r(of))
	}
	return all
}

// statement contains energy and times. A key consists of the strings of a monthly sum, such as cluster, month, model,
// namespace, workload, team, reason, unit and queue.
type statement map[string]amounts

// Sums of optional integers are strings.
type amounts struct {
	Sums     [8]int64
	Optional [3]string
}

// This list of columns is independent of package table.
func (s statement) add(cluster string, month time.Time, model string, c *table.Charge) {
	key := strings.Join([]string{cluster, month.Format("2006-01"), model, c.Namespace, c.WorkloadKind, c.WorkloadName, c.Team, c.Reason, c.Manager, c.Unit, c.Username, c.Queue, c.ClusterQueue, c.Labels}, "|")
	sum := s[key]
	for i, n := range []int64{c.Energy, c.Exclusive, c.Idle, c.Held, c.GPUTime, c.Active, c.Estimated, c.Busy} {
		sum.Sums[i] += n
	}
	for i, n := range []*int64{c.Profiled, c.TensorActive, c.DRAMActive} {
		if n != nil {
			sum.Optional[i] = plus(sum.Optional[i], strconv.FormatInt(*n, 10))
		}
	}
	if sum.Optional[0] == "0" {
		sum.Optional = [3]string{}
	}
	s[key] = sum
}

// These columns may be null.
var optionalAmounts = []string{"profiled_ms", "tensor_active_ms", "dram_active_ms"}

// plus adds two decimal strings. An empty string is an unknown integer, and adds nothing.
func plus(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	m, _ := strconv.ParseInt(a, 10, 64)
	n, _ := strconv.ParseInt(b, 10, 64)
	return strconv.FormatInt(m+n, 10)
}

func sums(t *testing.T, rows [][]string) statement {
	t.Helper()
	found := make(statement)
	for _, row := range rows {
		value := named(table.MonthlyCharges, row)
		if strings.Contains(strings.Join(row, " "), "secret-pod") {
			t.Errorf("a sum has the name of a pod: %q", row)
		}
		key := []string{value["cluster"], value["month"][:7]}
		for _, name := range []string{"model", "namespace", "workload_kind", "workload_name", "team", "reason", "manager", "unit", "username", "queue", "cluster_queue", "labels"} {
			key = append(key, value[name])
		}
		sum := found[strings.Join(key, "|")]
		for i, name := range []string{"energy_mj", "exclusive_mj", "idle_mj", "held_ms", "gpu_ms", "active_ms", "estimated_mj", "busy_ms"} {
			n, err := strconv.ParseInt(value[name], 10, 64)
			check(t, err)
			sum.Sums[i] += n
		}
		for i, name := range optionalAmounts {
			sum.Optional[i] = plus(sum.Optional[i], value[name])
		}
		found[strings.Join(key, "|")] = sum
	}
	return found
}

// history makes random hours of two clusters. want contains the monthly sums of their charges.
type history struct {
	random *rand.Rand
	want   statement
}

// renamedAt is the last hour before a driver upgrade renames models.
var renamedAt = time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)

// hour returns an hour with random charges to pods, units and reasons.
func (h *history) hour(cluster string, start time.Time) *table.Hour {
	f := &table.Hour{Cluster: cluster, Start: start}
	models := []string{"H100", "A100", ""}
	if start.After(renamedAt) {
		models = []string{"A100", "B200", ""}
	}
	for i, model := range models {
		f.GPUs = append(f.GPUs, table.GPU{Node: "a", UUID: "GPU-" + strconv.Itoa(i), Model: model, Scrapes: 60})
		for j := range 3 {
			f.Charges = append(f.Charges, h.charge(i, j))
			f.GPUs[i].Energy += f.Charges[len(f.Charges)-1].Energy
		}
	}
	for i := range f.Charges {
		c := &f.Charges[i]
		if c.Reason == "" {
			c.Began, c.Ended = start.Add(time.Duration(i)*time.Millisecond), start.Add(time.Hour)
		}
		h.want.add(cluster, start, models[slices.IndexFunc(f.GPUs, func(g table.GPU) bool { return g.UUID == c.UUID })], c)
	}
	f.Pods = []table.Pod{{Namespace: "ml", Pod: "secret-pod", PodUID: "u"}}
	f.Workloads = []table.Workload{{Kind: "Job", Namespace: "ml", Name: "j", UID: "w"}}
	return Complete(f)
}

func (h *history) charge(gpu, n int) table.Charge {
	number := func() int64 { return h.random.Int64N(1 << 40) }
	c := table.Charge{Node: "a", UUID: "GPU-" + strconv.Itoa(gpu), Energy: number(), Exclusive: number(), Idle: number(), Held: number(), GPUTime: number(), Active: number(), Estimated: number(), Busy: number()}
	if h.random.IntN(4) == 0 {
		c.Profiled, c.TensorActive, c.DRAMActive = new(number()+1), new(number()), new(int64(0))
	}
	switch n {
	case 0:
		c.Namespace, c.Pod, c.PodUID, c.WorkloadKind, c.WorkloadName = []string{"ml", "web"}[h.random.IntN(2)], "secret-pod-"+strconv.Itoa(h.random.IntN(9)), "u", "Job", "j, \"1\""
		c.Team = []string{"", "blue", "Blue", "équipe"}[h.random.IntN(4)]
		c.Queue, c.ClusterQueue = []string{"", "gpu"}[h.random.IntN(2)], []string{"", "fleet"}[h.random.IntN(2)]
		c.Labels = []string{"", "project=moon"}[h.random.IntN(2)]
	case 1:
		c.Manager, c.Unit, c.Username, c.Team = "slurm", strconv.Itoa(h.random.IntN(3)), "alice", "physics"
	default:
		c.Reason = []string{"idle", "host"}[h.random.IntN(2)]
	}
	return c
}

func (h *history) correct(t *testing.T, s Sink, of *table.Hour) {
	t.Helper()
	next := *of
	change := of.Charges[0]
	change.Energy, change.Held = -5, 7
	change.Exclusive, change.Idle, change.GPUTime, change.Active, change.Estimated = 0, 0, 0, 0, -3
	if change.Profiled != nil { // the time is unknown after the correction
		change.Profiled, change.TensorActive = new(-*change.Profiled), new(-*change.TensorActive)
	}
	next.Revision, next.State, next.Digest, next.Corrections = 2, table.Corrected, "other", []table.Charge{change}
	check(t, s.Correct(t.Context(), &next))
	h.want.add(of.Cluster, of.Start, of.GPUs[0].Model, &change)
}

// late returns an hour without samples that an operator accepted. It also returns a correction of this hour with random
// charges. Such a correction is needed if samples arrive after the month was closed.
func (h *history) late(cluster string, start time.Time) (accepted, corrected *table.Hour) {
	accepted = Complete(&table.Hour{Cluster: cluster, Start: start})
	accepted.State, accepted.Reason = table.Gaps, "outage"
	corrected = h.hour(cluster, start)
	corrected.Revision, corrected.State, corrected.Corrections = 2, table.Corrected, table.Difference(nil, corrected.Charges)
	return accepted, corrected
}

// TestPrune checks that pruning an hour leaves only its monthly sums and its row in the manifest. The sums must be
// exact.
func TestPrune(t *testing.T, open func(t *testing.T) (Pruner, Rows)) {
	s, rows := open(t)
	h := &history{rand.New(rand.NewPCG(1, 2)), make(statement)}
	january, before := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var last *table.Hour
	for _, cluster := range []string{Cluster, "west"} {
		for _, n := range []int{0, 1, 2, 23, 24, 30, 743, 744, 745, 1000, 1415} { // 1415 is the last hour of February
			last = h.hour(cluster, january.Add(time.Duration(n)*time.Hour))
			check(t, s.Replace(t.Context(), last))
			if n%2 == 0 {
				h.correct(t, s, last)
			}
		}
		accepted, corrected := h.late(cluster, january.Add(32*time.Hour))
		check(t, s.Replace(t.Context(), accepted))
		check(t, s.Correct(t.Context(), corrected))
		kept := (&history{h.random, make(statement)}).hour(cluster, before)
		check(t, s.Replace(t.Context(), kept))
		var events []event.Event
		for i, at := range []time.Time{january.Add(time.Hour), before.Add(-1), before} {
			events = append(events, event.Event{Kind: "phase", ID: fmt.Sprint(i), At: at}, event.Event{Kind: event.Snapshot, ID: fmt.Sprint(i), At: at, Pod: "secret-pod"})
		}
		for _, of := range table.Appended {
			check(t, s.Append(t.Context(), of, table.EventRows(of, cluster, table.Place(events, before))))
		}
	}
	all := rows.all()
	if found := prune(t, s, before, true); len(found) != 2*8 { // for each cluster: the manifest, and the tables with rows
		t.Errorf("a dry run found %+v", found)
	}
	if diff := cmp.Diff(all, rows.all()); diff != "" {
		t.Errorf("a dry run changed rows (-before +after):\n%s", diff)
	}
	prune(t, s, before, false)
	pruned(t, rows, all, before)
	compare(t, h.want, sums(t, rows(table.MonthlyCharges)))
	if found := prune(t, s, before, false); len(found) > 0 {
		t.Errorf("a second prune found %+v", found)
	}
	compare(t, h.want, sums(t, rows(table.MonthlyCharges)))

	if filed, err := s.Filed(t.Context(), last.Cluster, last.Start); err != nil || !filed.Pruned || filed.Revision != 1 {
		t.Errorf("a pruned hour is filed as %+v, error %v", filed, err)
	}
	if err := s.Replace(t.Context(), last); !errors.Is(err, table.ErrPruned) {
		t.Errorf("error for replacing a pruned hour is %v", err)
	}
	check(t, s.Replace(t.Context(), h.hour("west", january.Add(5*time.Hour)))) // this hour was missing
	prune(t, s, before, false)
	compare(t, h.want, sums(t, rows(table.MonthlyCharges)))
	pruned(t, rows, all, before)
}

func compare(t *testing.T, want, got statement) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sums (-charged +pruned):\n%s", diff)
	}
}

func prune(t *testing.T, s Pruner, before time.Time, dry bool) (found []table.Deleted) {
	t.Helper()
	names := make(map[string]bool)
	check(t, s.Prune(t.Context(), before, dry, func(of table.Deleted) {
		if of.Rows+of.Files == 0 || of.First.IsZero() || of.Last.Before(of.First) || !of.Last.Before(before) {
			t.Errorf("deleted %+v", of)
		}
		if !names[of.Cluster+" "+of.Table] {
			names[of.Cluster+" "+of.Table] = true
			found = append(found, of)
		}
	}))
	return found
}

// pruned checks that the rows of hours before a time are deleted. The manifest and later rows must remain.
func pruned(t *testing.T, rows Rows, all map[string][][]string, before time.Time) {
	t.Helper()
	for _, of := range table.All {
		switch of.Name {
		case table.MonthlyCharges.Name:
			continue
		case table.Hours.Name:
			for _, row := range rows(of) {
				if isPruned := row[2] == "pruned"; isPruned != (row[1] < table.Format(before)) {
					t.Errorf("the manifest has %q", row)
				}
			}
			if got := len(rows(of)); got < len(all[of.Name]) {
				t.Errorf("the manifest has %d rows, want %d", got, len(all[of.Name]))
			}
			continue
		}
		want := slices.DeleteFunc(slices.Clone(all[of.Name]), func(row []string) bool { return row[1] < table.Format(before) })
		if diff := Diff(sorted(want), sorted(rows(of))); diff != "" {
			t.Errorf("%s (-rows to keep +rows after prune):\n%s", of.Name, diff)
		}
	}
}

func sorted(rows [][]string) [][]string {
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, slices.Compare)
	return rows
}
