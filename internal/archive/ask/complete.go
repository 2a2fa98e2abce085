package ask

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/factors"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

type filedHours struct {
	hours   map[time.Time]bool
	refused int // hours whose samples are impossible
	// partial counts the pruned hours whose monthly sums the account does not use. For example, the account may cover
	// only a part of the month. lost counts the pruned hours whose rows were removed by hand.
	partial, lost int
}

// The result reports whether the account contains the charges of this hour.
func (c *filedHours) add(h books.Hour, of books.Query) bool {
	c.hours[h.Hour] = true
	switch {
	case h.State == books.Refused:
		c.refused++
	case h.State != table.Pruned:
	case h.Lost:
		c.lost++
		return false
	case !of.Sums || !of.Whole(h.Hour):
		c.partial++
		return false
	}
	return true
}

type noHoursError struct {
	source string
	of     books.Query
}

func (e *noHoursError) Error() string {
	return fmt.Sprintf("%s has no hours from %s to %s: check the time, or file these hours with gpuledger-archive once --from", e.source, stamp(e.of.From), stamp(e.of.Until))
}

func (q *question) complete(a *account, hours []books.Hour) error {
	clusters, accepted := make(map[string]*filedHours), make(gaps)
	var summed []time.Time // months with pruned hours
	for _, h := range hours {
		c := clusters[h.Cluster]
		if c == nil {
			c = &filedHours{hours: make(map[time.Time]bool)}
			clusters[h.Cluster] = c
		}
		accepted.add(h)
		if !c.add(h, a.of) {
			continue
		}
		a.boards += h.Energy
		if h.State == table.Pruned {
			summed = append(summed, table.Month(h.Hour))
		}
	}
	if len(clusters) == 0 {
		return &noHoursError{q.source.Name(), a.of}
	}
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		q.notices(a, name, clusters[name])
	}
	a.summedNotices(slices.Compact(summed))
	for _, line := range accepted.notices() {
		a.notice("%s", line)
	}
	return nil
}

func (a *account) checkAmounts(f factors.Factors) {
	if a.total.Energy != a.boards {
		a.notice("the sum of the lines differs from the energy of the boards by %d mJ: run verify, and report a bug", a.total.Energy-a.boards)
	}
	if a.rest.Energy < -books.MaxNegative {
		a.notice("pods and units are charged %.3f kWh more than the boards used: run verify", float64(-a.rest.Energy)/3.6e9)
	}
	a.checkPrices()
	a.unknownIntensities(f)
}

func (a *account) checkPrices() {
	if use := a.unpriced; use.Energy != 0 || use.GPUTime != 0 {
		a.notice("incomplete: %.3f kWh and %.2f GPU hours have no price in --prices", float64(use.Energy)/3.6e9, float64(use.GPUTime)/3.6e6)
	}
}

func (a *account) unknownIntensities(f factors.Factors) {
	for _, cluster := range slices.Sorted(maps.Keys(a.unknown)) {
		if energy := a.unknown[cluster]; energy != 0 {
			a.notice("incomplete: %d hours%s have no intensity in --carbon: %.3f kWh are left out", f.Without(cluster, a.of.From, a.of.Until), ofCluster(cluster), float64(energy)/3.6e9)
		}
	}
}

func ofCluster(name string) string {
	if name == "" {
		return ""
	}
	return " of " + name
}

func (a *account) notice(format string, args ...any) {
	a.notices = append(a.notices, fmt.Sprintf(format, args...))
	a.incomplete = true
}

func (q *question) notices(a *account, name string, c *filedHours) {
	of := ofCluster(name)
	expected := int(a.of.Until.Sub(a.of.From) / time.Hour)
	if n := expected - len(c.hours); n > 0 {
		a.notice("incomplete: %d of %d hours%s are missing (first hour: %s): %s", n, expected, of, stamp(firstMissing(a.of, c.hours)), q.remedy())
	}
	if c.refused > 0 {
		a.notice("incomplete: %d of %d hours%s are refused and left out, because their samples have impossible values", c.refused, expected, of)
	}
	if c.lost > 0 {
		a.notice("incomplete: the rows of %d hours%s were removed, and no sums were kept", c.lost, of)
	}
	if c.partial > 0 {
		a.notice("incomplete: the details of %d hours%s are pruned: use statement or idle with whole months in UTC", c.partial, of)
	}
}

// unsummed contains columns that are empty in the monthly sums of pruned hours.
var unsummed = []string{"node", "uuid", "serial", "pod"}

func (a *account) summedNotices(months []time.Time) {
	if len(months) > 0 && slices.ContainsFunc(a.by, func(name string) bool { return slices.Contains(unsummed, name) }) {
		a.notice("incomplete: the sums of pruned months contain no pods, nodes and boards")
	}
	for _, part := range a.of.Parts {
		if month := table.Month(part); !part.Equal(month) && slices.ContainsFunc(months, month.Equal) {
			a.notice("incomplete: %s is pruned, so the prices and intensities at the start of the month apply to the whole month", month.Format("2006-01"))
			return
		}
	}
}

func firstMissing(of books.Query, hours map[time.Time]bool) time.Time {
	at := of.From
	for hours[at] {
		at = at.Add(time.Hour)
	}
	return at
}

func (q *question) remedy() string {
	if q.Books == "" {
		return "check that the store received samples from the job gpuledger-record"
	}
	return "file them with gpuledger-archive once --from"
}

// gaps contains the hours that operators accepted although samples are missing, sorted by time.
type gaps map[gapReason][]time.Time

type gapReason struct{ cluster, reason string }

func (g gaps) add(h books.Hour) bool {
	if h.State != table.Gaps && h.Reason == "" {
		return false
	}
	key := gapReason{h.Cluster, cmp.Or(h.Reason, table.EarlierReason)}
	g[key] = append(g[key], h.Hour)
	return true
}

func (g gaps) notices() (lines []string) {
	keys := slices.SortedFunc(maps.Keys(g), func(a, b gapReason) int {
		return slices.Compare([]string{a.cluster, a.reason}, []string{b.cluster, b.reason})
	})
	for _, key := range keys {
		of := ofCluster(key.cluster)
		filed := make(map[time.Time]bool)
		for _, hour := range g[key] {
			filed[hour] = true
		}
		first, last := g[key][0], g[key][len(g[key])-1]
		lines = append(lines, fmt.Sprintf("incomplete: %d hours%s were accepted although samples are missing, %s: %s",
			len(g[key]), of, ranges(first, last.Add(time.Hour), func(hour time.Time) bool { return filed[hour] }), key.reason))
	}
	return lines
}
