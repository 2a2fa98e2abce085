package ask

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

func verified(fs *flag.FlagSet, o *options) {
	ofMonth(fs, o)
	fs.BoolVar(&o.Prove, "prove", false, "compare the sums from the store's samples, from its rules, and from each archive in --books, which may be repeated")
	chained(fs, o)
	truthFlags(fs, o)
}

var verifyColumns = columns[*check]{
	{"cluster", "CLUSTER", print.Text, func(c *check) any { return c.cluster }},
	{"hours", "HOURS", print.Count, func(c *check) any { return int64(len(c.hours)) }},
	{"expected_hours", "OF", print.Count, func(c *check) any { return int64(c.of.Until.Sub(c.of.From) / time.Hour) }},
	{"missing", "MISSING", print.Text, func(c *check) any { return c.missing() }},
	{"gap_hours", "WITH GAPS", print.Count, func(c *check) any { return c.gaps }},
	{"corrected_hours", "CORRECTED", print.Count, func(c *check) any { return c.corrected }},
	{"refused_hours", "REFUSED", print.Count, func(c *check) any { return c.refused }},
	{"unknown_pods", "UNKNOWN PODS", print.Count, func(c *check) any { return c.pods }},
	{"pruned_hours", "PRUNED", print.Count, func(c *check) any { return c.pruned }},
	{"lost_hours", "LOST", print.Count, func(c *check) any { return c.lost }},
	{"boards_mj", "BOARDS KWH", print.Energy, func(c *check) any { return c.boards }},
	{"charged_mj", "CHARGED KWH", print.Energy, func(c *check) any { return c.charged }},
	{"uncounted_mj", "UNCOUNTED KWH", print.Energy, func(c *check) any { return number(c.uncounted) }},
	{"wrong_hours", "WRONG HOURS", print.Count, func(c *check) any { return c.wrong() }},
	{"ok", "OK", print.Flag, func(c *check) any { return c.ok() }},
}

type check struct {
	cluster         string
	of              books.Query
	hours           map[time.Time]int64 // energy of the boards minus the charges, by hour
	rows            map[time.Time]int64 // number of GPU rows in the manifest, without pruned hours
	sums            map[time.Time]int64 // energy of the boards minus the monthly sums of charges, for pruned hours, by month
	rests           map[time.Time]int64 // unattributed energy, by hour
	gaps, corrected int64
	refused, pods   int64 // pods is the number of unknown pods
	pruned, lost    int64
	boards, charged int64
	uncounted       *int64 // nil if unknown
	twice           bool   // some boards are also in another cluster
}

// If the whole month of a pruned hour is selected, the hour is checked together with its month.
func (c *check) add(h books.Hour) {
	switch h.State {
	case table.Corrected:
		c.corrected++
	case books.Refused:
		c.refused++
	}
	if h.State != table.Pruned {
		c.hours[h.Hour] += h.Energy
		c.boards += h.Energy
		if h.GPUs > 0 {
			c.rows[h.Hour] = h.GPUs
		}
		return
	}
	c.hours[h.Hour] += 0
	c.pruned++
	switch {
	case h.Lost:
		c.lost++
	case c.of.Whole(h.Hour):
		c.sums[table.Month(h.Hour)] += h.Energy
		c.boards += h.Energy
	}
}

// A charge at the start of a month may be a monthly sum.
func (c *check) charge(hour time.Time, energy int64, reason string) {
	c.charged += energy
	if reason != "" {
		c.rests[hour] += energy
	}
	if rest, ok := c.sums[hour]; ok {
		// The charge belongs to the first hour of the month or to its pruned hours. The row does not show which, so
		// they are checked together.
		c.sums[hour] = rest + c.hours[hour] - energy
		if _, filed := c.hours[hour]; filed {
			c.hours[hour] = 0
		}
		return
	}
	c.hours[hour] -= energy
}

// verify reports missing hours, and whether the charges add up to the energy of the boards.
func (q *question) verify(ctx context.Context) (print.Answer, error) {
	switch {
	case q.Prove:
		return q.prove(ctx)
	case q.Chain:
		return q.verifyChain(ctx)
	case len(q.Truth) > 0:
		return q.compareTruth(ctx)
	}
	of, notices := q.billed()
	st, err := q.audit(ctx, of)
	if err != nil {
		return print.Answer{}, err
	}
	checks, accepted := checksOf(of, st.Statement)
	if len(checks) == 0 {
		return print.Answer{}, &noHoursError{q.source.Name(), of}
	}
	notices = append(notices, unknownPods(st.UnknownPods, checks)...)
	dropped := dropped(st, checks)
	if st.Bounded {
		notices = append(notices, uncounted(st.Uncounted, checks)...)
	}
	notices = append(notices, dropped...)
	var all []*check
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		all = append(all, checks[name])
		notices = append(notices, checks[name].overcharged()...)
	}
	notices = append(notices, accepted.notices()...)
	twice, err := q.twice(ctx, of, checks)
	if err != nil {
		return print.Answer{}, err
	}
	a := verifyColumns.answer(all...)
	a.Notices = slices.Concat(notices, twice, q.wrongDays(st.WrongDays))
	if slices.ContainsFunc(all, func(c *check) bool { return !c.ok() }) {
		remedy := q.remedy()
		if len(st.Refusals) > 0 {
			remedy = "see the refused hours above"
		}
		a.Notices = append(a.Notices, "the books are not complete: "+remedy)
		q.failed = true
	}
	return a, nil
}

func (q *question) audit(ctx context.Context, of books.Query) (*books.Audit, error) {
	if archive, ok := q.source.Source.(books.Auditing); ok {
		return archive.Audit(ctx, of)
	}
	of.By, of.Sums, of.Checks = []string{"cluster", "hour", "reason"}, true, true
	st, err := q.source.Statement(ctx, of)
	return &books.Audit{Statement: st}, err
}

// wrongDays reports days whose stored sums differ from the sums of their hours. Statements read the stored sums.
func (q *question) wrongDays(wrong []books.ClusterDay) []string {
	if len(wrong) == 0 {
		return nil
	}
	first := wrong[0]
	q.failed = true
	return []string{fmt.Sprintf("the sums of %d days differ from the sums of their hours (first day: %s%s): delete the rows of these days in days and gpu_days, and start gpuledger-archive run or once, which adds up the days again",
		len(wrong), first.Day.Format(time.DateOnly), ofCluster(first.Cluster))}
}

func checksOf(of books.Query, st *books.Statement) (checks map[string]*check, accepted gaps) {
	checks, accepted = make(map[string]*check), make(gaps)
	for _, h := range st.Hours {
		c := checks[h.Cluster]
		if c == nil {
			c = &check{cluster: h.Cluster, of: of, hours: make(map[time.Time]int64), rows: make(map[time.Time]int64), sums: make(map[time.Time]int64), rests: make(map[time.Time]int64)}
			checks[h.Cluster] = c
		}
		c.add(h)
		if accepted.add(h) {
			c.gaps++
		}
	}
	for _, charge := range st.Charges {
		if c := checks[charge.Cluster]; c != nil {
			c.charge(charge.Hour, charge.Energy, charge.Reason)
		}
	}
	return checks, accepted
}

func dropped(found *books.Audit, checks map[string]*check) (notices []string) {
	if found.Found == nil {
		return nil // a store has no manifest
	}
	n := 0
	for _, c := range checks {
		maps.DeleteFunc(c.rows, func(hour time.Time, _ int64) bool { return found.Found[c.cluster][hour] })
		c.lost += int64(len(c.rows))
		n += len(c.rows)
	}
	if n > 0 {
		notices = append(notices, fmt.Sprintf("the rows of %d hours are missing although the manifest lists them: were partitions or files removed? gpuledger-archive prune would have marked the hours as pruned", n))
	}
	return notices
}

const maxOvercharged = 5

func (c *check) overcharged() (notices []string) {
	for _, hour := range slices.SortedFunc(maps.Keys(c.rests), time.Time.Compare) {
		if rest := c.rests[hour]; rest < -books.MaxNegative && len(notices) < maxOvercharged {
			notices = append(notices, fmt.Sprintf("%s, hour %s: pods and units are charged %.3f kWh more than the boards used", name(c.cluster), stamp(hour), float64(-rest)/3.6e9))
		}
	}
	return notices
}

func (c *check) missing() string { return missingHours(c.of, c.hours) }

func (c *check) ok() bool {
	return c.missing() == "" && c.wrong() == 0 && c.gaps == 0 && c.refused == 0 && c.lost == 0 && !c.twice
}

// wrong returns the number of hours and pruned months whose charges do not add up to the energy of the boards.
func (c *check) wrong() (wrong int64) {
	for _, difference := range c.hours {
		if difference != 0 {
			wrong++
		}
	}
	for _, difference := range c.sums {
		if difference != 0 {
			wrong++
		}
	}
	for hour, rest := range c.rests {
		if rest < -books.MaxNegative && c.hours[hour] == 0 {
			wrong++ // the charges add up, but pods and units are charged too much
		}
	}
	return wrong
}

const maxPods = 20

func unknownPods(pods []books.UnknownPod, checks map[string]*check) []string {
	for _, p := range pods {
		if c := checks[p.Cluster]; c != nil {
			c.pods++
		}
	}
	return atMost(maxPods, pods, "unknown pods", func(p books.UnknownPod) string {
		return fmt.Sprintf("unknown pod %s/%s (%s) of %s: %.3f kWh in %d hours; neither the reconciler nor kube-state-metrics lists this pod",
			p.Namespace, p.Pod, p.UID, p.Cluster, float64(p.Energy)/3.6e9, p.Hours)
	})
}

const maxUncounted = 3

// Uncounted energy does not make the answer fail.
func uncounted(boards []books.Uncounted, checks map[string]*check) []string {
	sums := make(map[string]int64)
	for _, b := range boards {
		sums[b.Cluster] += b.Energy
	}
	for _, c := range checks {
		c.uncounted = new(sums[c.cluster])
	}
	return atMost(maxUncounted, boards, "boards with uncounted energy", func(b books.Uncounted) string {
		return fmt.Sprintf("board %s on node %s of %s: up to %.3f kWh are uncounted because of resets, rejected readings or gaps",
			cmp.Or(b.Serial, b.UUID), b.Node, name(b.Cluster), float64(b.Energy)/3.6e9)
	})
}

const maxRanges = 5

func missingHours(of books.Query, hours map[time.Time]int64) string {
	return ranges(of.From, of.Until, func(hour time.Time) bool { _, ok := hours[hour]; return !ok })
}

func ranges(from, until time.Time, selected func(time.Time) bool) string {
	var all []string
	for at := from; at.Before(until); at = at.Add(time.Hour) {
		start := at
		for at.Before(until) && selected(at) {
			at = at.Add(time.Hour)
		}
		if start.Before(at) {
			all = append(all, start.Format("2006-01-02T15")+" to "+at.Format("2006-01-02T15"))
		}
	}
	if len(all) > maxRanges {
		return strings.Join(all[:maxRanges], ", ") + " and more"
	}
	return strings.Join(all, ", ")
}
