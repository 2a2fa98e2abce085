package ask

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// verified adds the flags of verify.
func verified(fs *flag.FlagSet, o *options) {
	ofMonth(fs, o)
	fs.BoolVar(&o.Prove, "prove", false, "compare the sums of the samples and rules of the store, and of each archive in --books, which may be repeated")
	chained(fs, o)
	truthFlags(fs, o)
}

// verifyColumns are the columns of the check of a month.
var verifyColumns = []print.Column{
	{Name: "cluster", Title: "CLUSTER"},
	{Name: "hours", Title: "HOURS", Kind: print.Count},
	{Name: "expected_hours", Title: "OF", Kind: print.Count},
	{Name: "missing", Title: "MISSING"},
	{Name: "gap_hours", Title: "WITH GAPS", Kind: print.Count},
	{Name: "corrected_hours", Title: "CORRECTED", Kind: print.Count},
	{Name: "refused_hours", Title: "REFUSED", Kind: print.Count},
	{Name: "unknown_pods", Title: "UNKNOWN PODS", Kind: print.Count},
	{Name: "pruned_hours", Title: "PRUNED", Kind: print.Count},
	{Name: "lost_hours", Title: "LOST", Kind: print.Count},
	{Name: "boards_mj", Title: "BOARDS KWH", Kind: print.Energy},
	{Name: "charged_mj", Title: "CHARGED KWH", Kind: print.Energy},
	{Name: "uncounted_mj", Title: "UNCOUNTED KWH", Kind: print.Energy},
	{Name: "wrong_hours", Title: "WRONG HOURS", Kind: print.Count},
	{Name: "ok", Title: "OK", Kind: print.Flag},
}

// check is the result of the check of a cluster.
type check struct {
	cluster         string
	hours           map[time.Time]int64 // energy of the boards less the charges
	rows            map[time.Time]int64 // number of rows of GPUs in the manifest, for hours that are not pruned
	sums            map[time.Time]int64 // energy of the boards in pruned hours less their sums, by month
	rests           map[time.Time]int64 // energy for which no pod or unit is charged
	gaps, corrected int64
	refused, pods   int64 // pods are unknown ones
	pruned, lost    int64
	boards, charged int64
	uncounted       any // nil if it is unknown
}

// add adds a filed hour. A pruned hour is checked with its month, if that is selected.
func (c *check) add(h books.Hour, of books.Query) {
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
	case of.Whole(h.Hour):
		c.sums[table.Month(h.Hour)] += h.Energy
		c.boards += h.Energy
	}
}

// charge subtracts the charges of an hour, and the sums of a month at its start.
func (c *check) charge(hour time.Time, energy int64, reason string) {
	c.charged += energy
	if reason != "" {
		c.rests[hour] += energy
	}
	if rest, ok := c.sums[hour]; ok {
		c.sums[hour] = rest + c.hours[hour] - energy // of its first hour too
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
	a := print.Answer{Columns: verifyColumns, Notices: notices}
	st, err := q.audit(ctx, of)
	if err != nil {
		return a, err
	}
	checks, accepted := checksOf(of, st.Statement)
	unknownPods(st.UnknownPods, checks, &a)
	dropped := dropped(st, checks)
	if st.Bounded {
		uncounted(st.Uncounted, checks, &a)
	}
	a.Notices = append(a.Notices, dropped...)
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		a.Notices = append(a.Notices, checks[name].overcharged()...)
		a.Rows = append(a.Rows, checks[name].row(of))
	}
	a.Notices = append(a.Notices, accepted.notices()...)
	if err := q.twice(ctx, of, &a); err != nil {
		return a, err
	}
	q.wrongDays(st.WrongDays, &a)
	if len(a.Rows) == 0 {
		return a, &noHoursError{q.source.Name(), of}
	}
	if slices.ContainsFunc(a.Rows, func(row []any) bool { return row[len(row)-1] == false }) {
		remedy := q.remedy()
		if len(st.Refusals) > 0 {
			remedy = "see the hours that are refused"
		}
		a.Notices = append(a.Notices, "the books are not complete: "+remedy)
		q.failed = true
	}
	return a, nil
}

// audit returns the sums that are checked.
func (q *question) audit(ctx context.Context, of books.Query) (*books.Audit, error) {
	if archive, ok := q.source.Source.(books.Auditing); ok {
		return archive.Audit(ctx, of)
	}
	of.By, of.Sums, of.Checks = []string{"cluster", "hour", "reason"}, true, true
	st, err := q.source.Statement(ctx, of)
	return &books.Audit{Statement: st}, err
}

// wrongDays adds a notice about days with stored sums that differ from the sums of their hours.
// Statements read the stored sums.
func (q *question) wrongDays(wrong []books.ClusterDay, a *print.Answer) {
	if len(wrong) == 0 {
		return
	}
	first := wrong[0]
	a.Notices = append(a.Notices, fmt.Sprintf("the sums of %d days differ from their hours, the first one is %s%s: delete their rows in days and gpu_days, and start gpuledger-archive run or once, which adds them up again",
		len(wrong), first.Day.Format(time.DateOnly), ofCluster(first.Cluster)))
	q.failed = true
}

// checksOf returns the filed hours and the charges of each cluster, and the hours with gaps that were accepted.
func checksOf(of books.Query, st *books.Statement) (checks map[string]*check, accepted gaps) {
	checks, accepted = make(map[string]*check), make(gaps)
	for _, h := range st.Hours {
		c := checks[h.Cluster]
		if c == nil {
			c = &check{cluster: h.Cluster, hours: make(map[time.Time]int64), rows: make(map[time.Time]int64), sums: make(map[time.Time]int64), rests: make(map[time.Time]int64)}
			checks[h.Cluster] = c
		}
		c.add(h, of)
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

// dropped adds the hours that are filed but have no rows, and returns a notice about them.
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
		notices = append(notices, fmt.Sprintf("the rows of %d hours are missing although the manifest lists them: were partitions or files removed? gpuledger-archive prune marks such hours", n))
	}
	return notices
}

// maxOvercharged is the maximum number of listed hours.
const maxOvercharged = 5

// overcharged returns notices about hours with more charges than energy.
func (c *check) overcharged() (notices []string) {
	for _, hour := range slices.SortedFunc(maps.Keys(c.rests), time.Time.Compare) {
		if rest := c.rests[hour]; rest < -books.MaxNegative && len(notices) < maxOvercharged {
			notices = append(notices, fmt.Sprintf("%s, hour %s: pods and units are charged %.3f kWh more than the boards used", name(c.cluster), stamp(hour), float64(-rest)/3.6e9))
		}
	}
	return notices
}

func (c *check) row(of books.Query) []any {
	expected, wrong := int64(of.Until.Sub(of.From)/time.Hour), c.wrong()
	missing := missingHours(of, c.hours)
	ok := missing == "" && wrong == 0 && c.gaps == 0 && c.refused == 0 && c.lost == 0
	return []any{
		c.cluster, int64(len(c.hours)), expected, missing, c.gaps, c.corrected, c.refused, c.pods, c.pruned, c.lost, c.boards, c.charged, c.uncounted, wrong, ok,
	}
}

// wrong returns the number of hours, and of pruned months, in which the charges do not add up to
// the energy of the boards.
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
			wrong++ // although the charges add up
		}
	}
	return wrong
}

// maxPods is the maximum number of listed unknown pods.
const maxPods = 20

// unknownPods lists the pods that no series of their cluster names.
func unknownPods(pods []books.UnknownPod, checks map[string]*check, a *print.Answer) {
	for i, p := range pods {
		if c := checks[p.Cluster]; c != nil {
			c.pods++
		}
		switch {
		case i < maxPods:
			a.Notices = append(a.Notices, fmt.Sprintf("unknown pod %s/%s (%s) of %s: %.3f kWh in %d hours; neither the reconciler nor kube-state-metrics names it",
				p.Namespace, p.Pod, p.UID, p.Cluster, float64(p.Energy)/3.6e9, p.Hours))
		case i == maxPods:
			a.Notices = append(a.Notices, fmt.Sprintf("and %d more unknown pods", len(pods)-i))
		}
	}
}

// maxUncounted is the maximum number of listed boards with uncounted energy.
const maxUncounted = 3

// uncounted adds the upper bounds of the energy that the books omit, and lists the boards with the
// highest bounds. Omitted energy does not make the books incomplete.
func uncounted(boards []books.Uncounted, checks map[string]*check, a *print.Answer) {
	sums := make(map[string]int64)
	for i, b := range boards {
		sums[b.Cluster] += b.Energy
		switch {
		case i < maxUncounted:
			a.Notices = append(a.Notices, fmt.Sprintf("board %s on node %s of %s: up to %.3f kWh are uncounted because of resets, rejected readings or gaps",
				cmp.Or(b.Serial, b.UUID), b.Node, name(b.Cluster), float64(b.Energy)/3.6e9))
		case i == maxUncounted:
			a.Notices = append(a.Notices, fmt.Sprintf("and %d more boards with uncounted energy", len(boards)-i))
		}
	}
	for _, c := range checks {
		c.uncounted = sums[c.cluster]
	}
}

// maxRanges is the maximum number of listed ranges of hours.
const maxRanges = 5

// missingHours lists the ranges of hours that are missing.
func missingHours(of books.Query, hours map[time.Time]int64) string {
	return ranges(of.From, of.Until, func(hour time.Time) bool { _, ok := hours[hour]; return !ok })
}

// ranges lists the given hours of a period as ranges.
func ranges(from, until time.Time, is func(time.Time) bool) (text string) {
	n := 0
	for at := from; at.Before(until); {
		if !is(at) {
			at = at.Add(time.Hour)
			continue
		}
		end := at
		for end.Before(until) && is(end) {
			end = end.Add(time.Hour)
		}
		if n++; n > maxRanges {
			return text + " and more"
		}
		if text != "" {
			text += ", "
		}
		text += at.Format("2006-01-02T15") + " to " + end.Format("2006-01-02T15")
		at = end
	}
	return text
}
