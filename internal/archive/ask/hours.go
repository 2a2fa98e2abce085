package ask

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const missingState = "missing"

// stretch is a range of consecutive hours. They have the same cluster, state and reason.
type stretch struct {
	cluster, state, reason string
	from, until            time.Time
	energy                 int64
}

func (q *question) hours(ctx context.Context) (print.Answer, error) {
	of, notices := q.billed()
	if !of.From.Before(of.Until) {
		return print.Answer{}, Invalid(fmt.Errorf("the period from %s has not ended: select an earlier period", stamp(of.From)))
	}
	clusters := make(map[string][]books.Hour)
	for h, err := range q.source.Hours(ctx, of) {
		if err != nil {
			return print.Answer{}, err
		}
		clusters[h.Cluster] = append(clusters[h.Cluster], h)
	}
	if len(clusters) == 0 {
		return print.Answer{}, &noHoursError{q.source.Name(), of}
	}
	var all []stretch
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		all = append(all, stretches(name, of, clusters[name])...)
	}
	a := q.hoursColumns().answer(all...)
	a.Notices = notices
	if q.locked != "" && slices.ContainsFunc(all, func(s stretch) bool { return s.command("") != "" }) {
		a.Notices = append(a.Notices, q.locked)
	}
	return a, nil
}

func (q *question) hoursColumns() columns[stretch] {
	return columns[stretch]{
		{"cluster", "CLUSTER", print.Text, func(s stretch) any { return s.cluster }},
		{"state", "STATE", print.Text, func(s stretch) any { return s.state }},
		{"from", "FROM", print.Time, func(s stretch) any { return s.from }},
		{"until", "UNTIL", print.Time, func(s stretch) any { return s.until }},
		{"hours", "HOURS", print.Count, func(s stretch) any { return int64(s.until.Sub(s.from) / time.Hour) }},
		{"energy_mj", "KWH", print.Energy, func(s stretch) any { return s.energy }},
		{"reason", "REASON", print.Text, func(s stretch) any { return s.reason }},
		{"command", "COMMAND", print.Text, func(s stretch) any { return s.command(q.filing) }},
	}
}

// stretches also adds the missing hours. The given hours must be sorted by time.
func stretches(cluster string, of books.Query, hours []books.Hour) (all []stretch) {
	next := of.From
	add := func(s stretch) {
		if n := len(all); n > 0 && all[n-1].state == s.state && all[n-1].reason == s.reason {
			all[n-1].until = s.until
			all[n-1].energy += s.energy
			return
		}
		all = append(all, s)
	}
	for _, h := range hours {
		if next.Before(h.Hour) {
			add(stretch{cluster: cluster, state: missingState, from: next, until: h.Hour})
		}
		next = h.Hour.Add(time.Hour)
		s := stretch{cluster, string(h.State), h.Reason, h.Hour, next, h.Energy}
		if h.State == table.Gaps && s.reason == "" {
			s.reason = table.EarlierReason
		}
		add(s)
	}
	if next.Before(of.Until) {
		add(stretch{cluster: cluster, state: missingState, from: next, until: of.Until})
	}
	return all
}

// command returns the command that files or repairs these hours. It returns "" if no command is needed.
func (s stretch) command(flags string) string {
	const layout = "2006-01-02T15"
	span := strings.TrimSpace(fmt.Sprintf("--from=%s --until=%s %s", s.from.UTC().Format(layout), s.until.UTC().Format(layout), flags))
	switch s.state {
	case missingState:
		return "gpuledger-archive once " + span
	case string(table.Gaps):
		return "gpuledger-archive once --again " + span
	}
	return ""
}
