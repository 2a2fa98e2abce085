package ask

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/factors"
	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// groupings maps each value of --by to its columns.
var groupings = map[string][]string{
	"team": {"team"}, "namespace": {"namespace"}, "workload": {"namespace", "workload_kind", "workload_name"}, "node": {"node"},
	"serial": {"serial"}, "cluster": {"cluster"}, "pod": {"namespace", "pod"}, "model": {"model"}, "reason": {"reason"},
	"unit": {"manager", "unit"}, "user": {"username"}, "queue": {"queue"}, "cluster_queue": {"cluster_queue"},
}

const groups = "team, namespace, workload, pod, unit, user, queue, cluster_queue, label:NAME, node, serial, cluster, model, reason"

func grouping(text string) (columns []string, err error) {
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		label, isLabel := strings.CutPrefix(word, "label:")
		switch of, ok := groupings[word]; {
		case ok:
			columns = append(columns, of...)
		case isLabel && label != "":
			columns = append(columns, fold.LabelName(label))
		default:
			return nil, Invalid(fmt.Errorf("--by=%s: must be one or more of %s", text, groups))
		}
	}
	return compact(columns), nil
}

func compact(columns []string) []string {
	slices.Sort(columns)
	return slices.Compact(columns)
}

type line struct {
	kind string // group, unattributed, others or total
	table.Charge
	cost, grams float64
	idleCost    float64 // cost of idle energy and of idle GPU time
	idleTime    int64   // idle GPU time in ms; only for the command idle
	used        int64   // time in ms that pods and units held or used GPUs
	profiled    float64 // estimated energy during the profiled time, in mJ
}

type account struct {
	of          books.Query
	by          []string
	lines       []*line // group lines, sorted
	rest, total line
	others      line  // charges outside the scope of the reader
	boards      int64 // energy of all boards in mJ
	notices     []string
	known       map[string]*line // group lines, by the values of their columns
	last        *line            // line of the last added charge
	unpriced    table.Charge     // use without a price
	unknown     map[string]int64 // energy for which the intensity is unknown, by cluster
	unmeasured  bool             // whether the measured parts are unknown
	unestimated bool             // whether the estimated parts and the busy times are unknown
	incomplete  bool
}

// billed returns the period of a statement: a month, the given time, or the last full month.
func (q *question) billed() (of books.Query, notices []string) {
	of = q.period()
	switch {
	case !q.Month.IsZero():
		of.From, of.Until = q.Month.Time, q.Month.AddDate(0, 1, 0)
	case q.ofMonth():
		of.Until = time.Date(q.now.Year(), q.now.Month(), 1, 0, 0, 0, 0, time.UTC)
		of.From = of.Until.AddDate(0, -1, 0)
	}
	if end := q.now.Add(-settle).Truncate(time.Hour); of.Until.After(end) {
		if q.ofMonth() || !q.To.IsZero() {
			notices = append(notices, fmt.Sprintf("incomplete: the period until %s has not ended, so the statement ends at %s", stamp(of.Until), stamp(end)))
		}
		of.Until = end
	}
	return of, notices
}

func (q *question) ofMonth() bool {
	return !q.Month.IsZero() || q.From.IsZero() && q.To.IsZero() && !q.since
}

func (q *question) account(ctx context.Context, by string) (*account, error) {
	of, notices := q.billed()
	if !of.From.Before(of.Until) {
		return nil, Invalid(fmt.Errorf("the period from %s has not ended: select an earlier period with --month or --from and --to", stamp(of.From)))
	}
	a, err := q.accountOf(ctx, by, of)
	if err != nil {
		return nil, err
	}
	a.notices = append(notices, a.notices...)
	a.incomplete = len(a.notices) > 0
	return a, nil
}

func newAccount(by []string, of books.Query) *account {
	return &account{of: of, by: by, known: make(map[string]*line), unknown: make(map[string]int64), rest: line{kind: "unattributed"}, others: line{kind: others}, total: line{kind: "total"}}
}

func (q *question) accountOf(ctx context.Context, by string, of books.Query) (*account, error) {
	columns, err := grouping(by)
	if err != nil {
		return nil, err
	}
	a := newAccount(columns, of)
	a.of.Sums = true
	read := append(stored(columns), "reason")
	if q.factors.Money() || q.factors.Carbon != nil {
		read = append(read, "cluster")
	}
	if q.factors.Timed() {
		read = append(read, "hour")
		a.of.Parts = q.factors.Parts(a.of.From, a.of.Until)
	}
	if q.factors.Prices.ByModel() {
		read = append(read, "model")
	}
	a.of.By = compact(read)
	st, err := q.source.Statement(ctx, a.of)
	if err != nil {
		return nil, err
	}
	a.unmeasured, a.unestimated = st.Unmeasured, st.Unestimated
	for i := range st.Charges {
		a.add(&st.Charges[i], q.factors)
	}
	a.profile()
	slices.SortStableFunc(a.lines, func(x, y *line) int { return slices.Compare(x.values(columns), y.values(columns)) })
	if err := q.complete(a, st.Hours); err != nil {
		return nil, err
	}
	a.checkAmounts(q.factors)
	return a, nil
}

func (l *line) values(columns []string) (texts []string) {
	for _, name := range columns {
		texts = append(texts, valueOf(&l.Charge, name))
	}
	return texts
}

func (a *account) add(c *table.Charge, f factors.Factors) {
	to := &a.rest
	switch {
	case c.Reason == others:
		to = &a.others
	case c.Reason == "" || slices.Contains(a.by, "reason"):
		to = a.line(c)
	}
	cost, priced := f.Cost(factors.Use{Cluster: c.Cluster, Model: c.Model, Hour: c.Hour, Energy: c.Energy, GPUTime: c.GPUTime})
	idle, _ := f.Cost(factors.Use{Cluster: c.Cluster, Model: c.Model, Hour: c.Hour, Energy: c.Idle, GPUTime: max(c.GPUTime-c.Active, 0)})
	grams, known := f.Grams(factors.Use{Cluster: c.Cluster, Hour: c.Hour, Energy: c.Energy})
	if f.Money() && !priced {
		a.unpriced.Add(c)
	}
	if f.Carbon != nil && !known {
		a.unknown[c.Cluster] += c.Energy
	}
	for _, l := range []*line{to, &a.total} {
		l.Add(c)
		l.cost, l.grams, l.idleCost = l.cost+cost, l.grams+grams, l.idleCost+idle
	}
}

// profile sets the fields used and profiled of all lines. All charges must already be added to the lines, because a
// change of price or carbon intensity splits the time of a pod into several charges.
func (a *account) profile() {
	for _, l := range append(slices.Clone(a.lines), &a.rest, &a.others) {
		l.profile()
		a.total.used, a.total.profiled = a.total.used+l.used, a.total.profiled+l.profiled
	}
}

// profile sets the fields used and profiled of a line. The energy of the profiled time is an estimate. The held time
// can be 0, for example if a user runs programs on a machine without an allocation.
func (l *line) profile() {
	l.used = max(l.Held, l.Active)
	if positive(l.Profiled) {
		l.used = max(l.used, *l.Profiled)
		l.profiled = float64(l.Energy) * float64(*l.Profiled) / float64(l.used)
	}
}

// line tries the last line first, because consecutive charges often have the same line.
func (a *account) line(c *table.Charge) *line {
	if a.last != nil && !slices.ContainsFunc(a.by, func(name string) bool { return valueOf(&a.last.Charge, name) != valueOf(c, name) }) {
		return a.last
	}
	l := &line{kind: "group"}
	for _, name := range a.by {
		setValue(&l.Charge, name, valueOf(c, name))
	}
	key := strings.Join(l.values(a.by), "\x00")
	if a.known[key] == nil {
		a.lines, a.known[key] = append(a.lines, l), l
	}
	a.last = a.known[key]
	return a.last
}

func (q *question) statement(ctx context.Context) (print.Answer, error) {
	switch {
	case q.Compare:
		return q.compare(ctx)
	case q.Format != "":
		return q.export(ctx)
	}
	a, err := q.account(ctx, q.By)
	if err != nil {
		return print.Answer{}, err
	}
	answer := q.statementColumns(a).answer(append(slices.Clone(a.lines), a.ends(a.others.Energy != 0 || a.others.GPUTime != 0)...)...)
	answer.Notices = a.notices
	if a.unmeasured {
		answer.Notices = append(answer.Notices, "the recording rules did not record the measured energy of this time: set --store.read=samples, or read an archive with --books")
	}
	return answer, nil
}

// The line "others" exists only for readers with a limited scope.
func (a *account) ends(withOthers bool) (lines []*line) {
	if !slices.Contains(a.by, "reason") {
		lines = append(lines, &a.rest)
	}
	if withOthers {
		lines = append(lines, &a.others)
	}
	return append(lines, &a.total)
}

func (q *question) statementColumns(a *account) columns[*line] {
	all := append(lineColumns(a.by),
		column[*line]{"energy_mj", "KWH", print.Energy, func(l *line) any { return l.Energy }},
		column[*line]{"idle_mj", "", print.Energy, func(l *line) any { return l.Idle }},
		column[*line]{"exclusive_mj", "", print.Energy, func(l *line) any { return unless(a.unmeasured, l.Exclusive) }},
		column[*line]{"estimated_mj", "", print.Energy, func(l *line) any { return unless(a.unestimated, l.Estimated) }},
		column[*line]{"idle_share", "IDLE", print.Share, (*line).idleShare},
		column[*line]{"measured_share", "MEASURED", print.Share, func(l *line) any { return unless(a.unmeasured, share(l.Exclusive, l.Energy)) }},
		column[*line]{"estimated_share", "ESTIMATED", print.Share, func(l *line) any { return unless(a.unestimated, share(l.Estimated, l.Energy)) }},
		column[*line]{"gpu_ms", "GPU HOURS", print.Span, func(l *line) any { return l.GPUTime }},
		column[*line]{"active_ms", "ACTIVE HOURS", print.Span, func(l *line) any { return l.Active }},
		column[*line]{"busy_ms", "BUSY HOURS", print.Span, func(l *line) any { return unless(a.unestimated, l.Busy) }})
	if a.total.Profiled != nil {
		all = append(all, tensorColumns...)
	}
	if q.factors.Money() {
		all = append(all, q.costColumn("cost", func(l *line) float64 { return l.cost }))
	}
	if q.factors.Carbon != nil {
		all = append(all,
			column[*line]{"co2e_grams", "", print.Number, func(l *line) any { return rounded(l.grams) }},
			column[*line]{"co2e_kg", "KG CO2E", print.Number, func(l *line) any { return rounded(l.grams / 1000) }})
	}
	return append(all, completeColumn[*line](!a.incomplete))
}

func unless(unknown bool, value any) any {
	if unknown {
		return nil
	}
	return value
}

func (l *line) idleShare() any { return share(l.Idle, l.Energy) }

var tensorColumns = columns[*line]{
	{"profiled_share", "PROFILED", print.Share, func(l *line) any {
		if l.Profiled == nil {
			return nil
		}
		return share(*l.Profiled, l.used)
	}},
	{"tensor_active_ms", "TENSOR HOURS", print.Span, func(l *line) any { return number(l.TensorActive) }},
	{"dram_active_ms", "", print.Span, func(l *line) any { return number(l.DRAMActive) }},
	{"joules_per_tensor_second", "J PER TENSOR S", print.Number, func(l *line) any {
		if !positive(l.TensorActive) {
			return nil
		}
		return rounded(l.profiled / float64(*l.TensorActive))
	}},
}

func (q *question) costColumn(name string, cost func(*line) float64) column[*line] {
	title := strings.TrimSpace("COST " + q.factors.Prices.Currency())
	return column[*line]{name, title, print.Number, func(l *line) any { return rounded(cost(l)) }}
}

func completeColumn[R any](complete bool) column[R] {
	return column[R]{"complete", "", print.Flag, func(R) any { return complete }}
}

func lineColumns(by []string) columns[*line] {
	all := columns[*line]{{"line", "", print.Text, func(l *line) any { return l.kind }}}
	for i, name := range by {
		title := strings.ToUpper(strings.TrimPrefix(name, "workload_"))
		switch name {
		case "workload_name":
			title = "WORKLOAD"
		case "username":
			title = "USER"
		}
		all = append(all, column[*line]{name, title, print.Text, func(l *line) any { return l.cell(name, i == 0) }})
	}
	return all
}

func (l *line) cell(name string, first bool) any {
	text := valueOf(&l.Charge, name)
	switch {
	case l.kind == "group" && text == "" && isOfSome(name):
		return nil
	case l.kind == "group" && text == "" && name == "reason":
		return "(pods and units)"
	case !first || l.kind == "group":
		return text
	case l.kind == "unattributed" || l.kind == others:
		return "(" + l.kind + ")"
	}
	return "TOTAL"
}

// ofSome contains columns that are empty in some charges.
var ofSome = []string{"team", "namespace", "pod", "workload_name", "manager", "unit", "username", "queue", "cluster_queue"}

func isOfSome(name string) bool { return slices.Contains(ofSome, name) || isLabel(name) }

func share(part, whole int64) any {
	if whole == 0 {
		return nil
	}
	return float64(part) / float64(whole)
}

// rounded removes the rounding error, which depends on the order of the additions.
func rounded(n float64) float64 {
	const digits = 1e6
	if n = math.Round(n * digits); n == 0 {
		return 0 // avoids -0
	}
	return n / digits
}

func (q *question) idle(ctx context.Context) (print.Answer, error) {
	a, err := q.account(ctx, q.By)
	if err != nil {
		return print.Answer{}, err
	}
	a.total = line{kind: "total"} // omits unattributed energy
	for _, l := range a.lines {
		l.idleTime = max(l.GPUTime-l.Active, 0) // pods that share a GPU may be active for more than their GPU time
		a.total.Add(&l.Charge)
		a.total.idleCost, a.total.idleTime = a.total.idleCost+l.idleCost, a.total.idleTime+l.idleTime
	}
	slices.SortStableFunc(a.lines, func(x, y *line) int { return cmp.Compare(y.Idle, x.Idle) })
	answer := q.idleColumns(a).answer(append(a.lines, &a.total)...)
	answer.Notices = a.notices
	return answer, nil
}

func (q *question) idleColumns(a *account) columns[*line] {
	all := append(lineColumns(a.by),
		column[*line]{"idle_mj", "IDLE KWH", print.Energy, func(l *line) any { return l.Idle }},
		column[*line]{"idle_share", "OF ITS ENERGY", print.Share, (*line).idleShare},
		column[*line]{"idle_gpu_ms", "IDLE GPU HOURS", print.Span, func(l *line) any { return l.idleTime }},
		column[*line]{"gpu_ms", "GPU HOURS", print.Span, func(l *line) any { return l.GPUTime }})
	if q.factors.Money() {
		all = append(all, q.costColumn("idle_cost", func(l *line) float64 { return l.idleCost }))
	}
	return append(all, completeColumn[*line](!a.incomplete))
}
