package ask

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// gaps contains the hours that operators accepted although samples are missing, by cluster and reason. The hours are
// sorted by time.
type gaps map[gapReason][]time.Time

// gapReason identifies a reason that an operator gave for a cluster.
type gapReason struct{ cluster, reason string }

// add adds an hour if it has gaps, and reports whether it has gaps.
func (g gaps) add(h books.Hour) bool {
	if h.State != table.Gaps && h.Reason == "" {
		return false
	}
	key := gapReason{h.Cluster, cmp.Or(h.Reason, table.EarlierReason)}
	g[key] = append(g[key], h.Hour)
	return true
}

// notices returns a line for each cluster and reason.
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
