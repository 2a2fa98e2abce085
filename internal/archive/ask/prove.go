package ask

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

type clusterProof struct {
	*proof
	cluster string
	sums    map[string]amounts
	digest  string
}

var proofColumns = columns[clusterProof]{
	{"cluster", "CLUSTER", print.Text, func(p clusterProof) any { return p.cluster }},
	{"source", "SOURCE", print.Text, func(p clusterProof) any { return p.name }},
	{"hours", "HOURS", print.Count, func(p clusterProof) any { return int64(len(p.hours[p.cluster])) }},
	{"boards_mj", "BOARDS KWH", print.Energy, func(p clusterProof) any { return p.sums[ofBoards][0] }},
	{"pods_mj", "PODS KWH", print.Energy, func(p clusterProof) any { return p.sums[ofPods][0] }},
	{"units_mj", "UNITS KWH", print.Energy, func(p clusterProof) any { return p.sums[ofUnits][0] }},
	{"unattributed_mj", "REST KWH", print.Energy, func(p clusterProof) any { return p.sums[ofNone][0] }},
	{"gpu_ms", "GPU HOURS", print.Span, func(p clusterProof) any { return p.sums[ofPods][2] + p.sums[ofUnits][2] }},
	{"digest", "DIGEST", print.Text, func(p clusterProof) any { return p.digest }},
	{"ok", "OK", print.Flag, func(p clusterProof) any { return !p.wrong[p.cluster] }},
}

// ruleTolerance is the largest difference that rounding can cause between rules and samples, in mJ or ms. It applies to
// one namespace or manager and one day.
const ruleTolerance = 1000

const (
	ofBoards = "boards"
	ofPods   = "namespace"
	ofUnits  = "manager"
	ofNone   = books.Unattributed
)

// accountDay identifies a sum for one day and one cluster. The kind is a namespace, a manager, all boards, or
// unattributed energy.
type accountDay struct {
	cluster    string
	day        time.Time
	kind, name string
}

func (a accountDay) compare(b accountDay) int {
	return cmp.Or(cmp.Compare(a.cluster, b.cluster), a.day.Compare(b.day), cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
}

// amounts contains the energy in mJ, the idle energy in mJ, and the GPU time in ms.
type amounts [3]int64

func (a amounts) plus(b amounts) amounts { return amounts{a[0] + b[0], a[1] + b[1], a[2] + b[2]} }

func (a amounts) minus(b amounts) amounts { return amounts{a[0] - b[0], a[1] - b[1], a[2] - b[2]} }

func (a amounts) exceeds(tolerance int64) bool {
	return slices.ContainsFunc(a[:], func(n int64) bool { return max(n, -n) > tolerance })
}

type proof struct {
	name      string
	tolerance int64
	hours     map[string]map[time.Time]bool // by cluster
	sums      map[accountDay]amounts
	wrong     map[string]bool // clusters that differ from another source
	notices   []string
}

func newProof(name string) *proof {
	return &proof{name: name, hours: make(map[string]map[time.Time]bool), sums: make(map[accountDay]amounts), wrong: make(map[string]bool)}
}

func (p *proof) add(key accountDay, n amounts) { p.sums[key] = p.sums[key].plus(n) }

var proofBy = []string{"cluster", "hour", "namespace", "manager", "reason"}

func (p *proof) read(ctx context.Context, source books.Source, of books.Query) error {
	of.By = proofBy
	st, err := source.Statement(ctx, of)
	if err != nil {
		return err
	}
	p.take(st)
	p.notices = append(p.notices, refusals(st.Refusals)...)
	return nil
}

// readRules does not check that the recorded sums balance.
func (p *proof) readRules(ctx context.Context, source books.Source, of books.Query) error {
	ruled, ok := source.(books.Ruled)
	if !ok {
		return errors.New("this source has no recording rules: set --store.url")
	}
	of.By = proofBy
	st, err := ruled.RuleSums(ctx, of)
	if err != nil {
		return err
	}
	boards, err := ruled.Overcharged(ctx, of)
	if err != nil {
		return err
	}
	for _, b := range boards {
		p.wrong[b.Cluster] = true
		p.notices = append(p.notices, fmt.Sprintf("%s, hour %s: the rules charge board %s %.3f kWh more than it used", name(b.Cluster), stamp(b.Hour), cmp.Or(b.Serial, b.UUID), float64(b.Excess)/3.6e9))
	}
	p.take(st)
	return nil
}

func (p *proof) take(st *books.Statement) {
	p.charge(st.Charges)
	pruned := 0
	for _, h := range st.Hours {
		if h.State == table.Pruned {
			pruned++
			continue
		}
		if p.hours[h.Cluster] == nil {
			p.hours[h.Cluster] = make(map[time.Time]bool)
		}
		p.hours[h.Cluster][h.Hour] = true
		p.add(accountDay{h.Cluster, h.Hour.Truncate(day), ofBoards, ""}, amounts{h.Energy})
	}
	if pruned > 0 {
		p.notices = append(p.notices, fmt.Sprintf("%d hours of %s are pruned and left out", pruned, p.name))
	}
}

func (p *proof) charge(charges []table.Charge) {
	for _, c := range charges {
		key := accountDay{c.Cluster, c.Hour.Truncate(day), ofPods, c.Namespace}
		switch {
		case c.Reason != "":
			key.kind, key.name = ofNone, ""
		case c.Manager != "":
			key.kind, key.name = ofUnits, c.Manager
		}
		p.add(key, amounts{c.Energy, c.Idle, c.GPUTime})
	}
}

func (p *proof) balance() {
	days := make(map[accountDay]int64)
	for key, sum := range p.sums {
		of := accountDay{cluster: key.cluster, day: key.day}
		if key.kind == ofBoards {
			days[of] -= sum[0]
		} else {
			days[of] += sum[0]
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(days), accountDay.compare) {
		if n := days[key]; max(n, -n) > p.tolerance {
			p.wrong[key.cluster] = true
			p.notices = append(p.notices, fmt.Sprintf("%s, %s: according to %s, the charges differ from the energy of the boards by %+.3f kWh", name(key.cluster), key.day.Format(time.DateOnly), p.name, float64(n)/3.6e9))
		}
	}
}

func (p *proof) compare(first *proof, of books.Query) {
	for _, cluster := range slices.Sorted(maps.Keys(first.hours)) {
		missing := ranges(of.From, of.Until, func(hour time.Time) bool { return first.hours[cluster][hour] && !p.hours[cluster][hour] })
		if missing != "" {
			p.wrong[cluster] = true
			p.notices = append(p.notices, fmt.Sprintf("%s: %s has no hours from %s, but %s has these hours", name(cluster), p.name, missing, first.name))
		}
	}
	all := maps.Clone(first.sums)
	maps.Copy(all, p.sums)
	for _, key := range slices.SortedFunc(maps.Keys(all), accountDay.compare) {
		a, b := first.sums[key], p.sums[key]
		if !b.minus(a).exceeds(p.tolerance) {
			continue
		}
		p.wrong[key.cluster] = true
		p.notices = append(p.notices, fmt.Sprintf("%s, %s, %s: %s has %.3f kWh and %.2f GPU hours, %s has %.3f kWh and %.2f GPU hours", name(key.cluster), key.day.Format(time.DateOnly),
			strings.TrimSpace(key.kind+" "+key.name), p.name, float64(b[0])/3.6e9, float64(b[2])/3.6e6, first.name, float64(a[0])/3.6e9, float64(a[2])/3.6e6))
	}
}

func (p *proof) of(cluster string) clusterProof {
	sums, sum := make(map[string]amounts), sha256.New()
	for _, key := range slices.SortedFunc(maps.Keys(p.sums), accountDay.compare) {
		n := p.sums[key]
		if key.cluster != cluster || n == (amounts{}) {
			continue
		}
		fmt.Fprintf(sum, "%s %s %q %v\n", key.day.Format(time.DateOnly), key.kind, key.name, n)
		sums[key.kind] = sums[key.kind].plus(n)
	}
	return clusterProof{p, cluster, sums, hex.EncodeToString(sum.Sum(nil))[:16]}
}

func name(cluster string) string { return cmp.Or(cluster, "the cluster") }

// proofs reads all sources: the samples in the store, the rules in the store, and the archives.
func (q *question) proofs(ctx context.Context, of books.Query) (all []*proof, err error) {
	read := func(p *proof, o options, rules bool) error {
		source, err := o.open(ctx, q.progress)
		if err != nil {
			return err
		}
		p.name = cmp.Or(p.name, source.Name())
		if rules {
			p.tolerance = ruleTolerance
			err = p.readRules(ctx, source, of)
		} else {
			err = p.read(ctx, source, of)
		}
		all = append(all, p)
		return errors.Join(err, source.Close())
	}
	if len(q.archives) < 2 || q.storeGiven {
		for _, data := range []string{"samples", "rules"} {
			o := q.options
			o.Books, o.StoreRead = "", data
			if err := read(newProof(data), o, data == "rules"); err != nil {
				return nil, err
			}
		}
	}
	for _, place := range q.archives {
		o := q.options
		o.Books = place
		if err := read(newProof(""), o, false); err != nil {
			return nil, err
		}
	}
	return all, nil
}

const maxDifferences = 20

func (q *question) prove(ctx context.Context) (print.Answer, error) {
	of, notices := q.billed()
	a := proofColumns.answer()
	a.Notices = notices
	all, err := q.proofs(ctx, of)
	if err != nil {
		return a, err
	}
	some := slices.DeleteFunc(slices.Clone(all), func(p *proof) bool {
		if len(p.sums) == 0 {
			a.Notices = append(a.Notices, fmt.Sprintf("%s has no hours in this time and is not compared", p.name))
		}
		return len(p.sums) == 0
	})
	if len(some) < 2 {
		return a, fmt.Errorf("--prove compares at least two sources with hours from %s to %s, but only %d of %d have hours: set --store.url to a store with rules, and --books for each archive", stamp(of.From), stamp(of.Until), len(some), len(all))
	}
	clusters := make(map[string]bool)
	var differences []string
	for i, p := range some {
		p.balance()
		if i > 0 {
			p.compare(some[0], of)
		}
		differences = append(differences, p.notices...)
		for key := range p.sums {
			clusters[key.cluster] = true
		}
		q.failed = q.failed || len(p.wrong) > 0
	}
	for _, cluster := range slices.Sorted(maps.Keys(clusters)) {
		for _, p := range some {
			a.Rows = append(a.Rows, proofColumns.row(p.of(cluster)))
		}
	}
	a.Notices = append(a.Notices, atMost(maxDifferences, differences, "differences", func(text string) string { return text })...)
	return a, nil
}
