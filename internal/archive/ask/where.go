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
)

var whereColumns = slices.Concat(boardColumns, assetColumns, placeColumns, columns[*listed]{
	{"since", "SINCE", print.Time, (*listed).since},
	{"last_seen", "LAST SEEN", print.Time, (*listed).lastSeen},
	{"holders", "HOLDERS", print.Text, func(l *listed) any { return strings.Join(l.detail.holders, " ") }},
	{"past_holders", "PAST", print.Text, func(l *listed) any { return strings.Join(l.detail.past, " ") }},
	{"xids", "XIDS", print.Text, func(l *listed) any { return l.detail.xids[:min(len(l.detail.xids), 5)] }},
}, errorsOfStay)

// A question about more than someBoards boards first reads only the last someDays days, unless --since is set. Reading
// more is slow, because a store contains a sample for each board and minute.
const (
	someBoards = 16
	someDays   = 14 * day
)

// Errors are read for this number of days, until the end of the last hour. XID errors are listed. Other errors are
// added up.
const xidDays = 7

func (q *question) where(ctx context.Context) (print.Answer, error) {
	of := q.moment()
	if q.At.After(q.now) {
		return print.Answer{}, Invalid(fmt.Errorf("--at=%s is after now, %s", q.At.Format(time.RFC3339), q.now.Format(time.RFC3339)))
	}
	found, notices, err := q.find(ctx, of)
	if err != nil {
		return print.Answer{}, err
	}
	a, err := q.places(ctx, of, found)
	a.Notices = append(notices, a.Notices...)
	return withoutZeros(a), err
}

func (q *question) places(ctx context.Context, of books.Query, found []named) (print.Answer, error) {
	all, notice, err := q.lastStays(ctx, of, uuids(found))
	if err != nil {
		return print.Answer{}, err
	}
	current := q.current(all)
	if err := q.replaced(ctx, current, of); err != nil {
		return print.Answer{}, err
	}
	details, err := q.details(ctx, all, of)
	if err != nil {
		return print.Answer{}, err
	}
	boards := q.listed(found, current, of.Until)
	var elsewhere []string
	for _, n := range found {
		if n.unknown == nil && !slices.ContainsFunc(current, n.has) {
			elsewhere = append(elsewhere, fmt.Sprintf("the %d boards of %s are in other places now: run history for these boards", len(n.uuids), n.name))
		}
	}
	for _, l := range boards {
		if d := details[l.UUID]; d != nil {
			l.detail, l.errors = d, &d.errors
		}
	}
	a := q.titled(whereColumns.answer(boards...))
	if notice != "" {
		a.Notices = append(a.Notices, notice)
	}
	a.Notices = append(a.Notices, elsewhere...)
	if _, momentary := q.source.Source.(books.Momentary); !momentary && slices.ContainsFunc(slices.Collect(maps.Values(details)), func(d *detail) bool { return len(d.holders) > 0 }) {
		a.Notices = append(a.Notices, "an archive contains hourly data: the holders are all holders in the last hour, not only at the last scrape")
	}
	if last := newest(all); of.Until.Sub(last) > 2*time.Hour && len(all) > 0 {
		a.Notices = append(a.Notices, fmt.Sprintf("the books contain no hour of these boards after %s: the boards were removed, or later hours are not filed yet", stamp(last)))
	}
	return a, nil
}

// If there are many boards, lastStays first reads a shorter period, and returns a notice. It reads the whole period
// only for boards that have no stay in the shorter period.
func (q *question) lastStays(ctx context.Context, of books.Query, uuids []string) (all []*Stay, notice string, err error) {
	of.Places = true
	short := of
	if from := of.Until.Add(-someDays); len(uuids) > someBoards && !q.since && q.From.IsZero() && of.From.Before(from) {
		short.From = from.Truncate(time.Hour)
		notice = fmt.Sprintf("for these %d boards, only the time since %s was read: set --since to read more", len(uuids), stamp(short.From))
	}
	if len(uuids) == 0 {
		return nil, "", nil
	}
	all, err = stays(ctx, q.source, where(short, "uuid", uuids...))
	if err != nil || notice == "" {
		return all, notice, err
	}
	absent := slices.DeleteFunc(slices.Clone(uuids), func(uuid string) bool {
		return slices.ContainsFunc(all, func(s *Stay) bool { return s.UUID == uuid })
	})
	if len(absent) == 0 {
		return all, notice, nil
	}
	earlier, err := stays(ctx, q.source, where(of, "uuid", absent...))
	return append(earlier, all...), notice, err
}

func newest(all []*Stay) (end time.Time) {
	for _, s := range all {
		end = later(end, s.LastHour.Add(time.Hour))
	}
	return end
}

// current returns the last stay of each GPU, sorted by place.
func (q *question) current(all []*Stay) []*Stay {
	latest := make(map[string]*Stay)
	for _, s := range all {
		if known := latest[s.UUID]; known == nil || !s.Last.Before(known.Last) {
			latest[s.UUID] = s
		}
	}
	return slices.SortedFunc(maps.Values(latest), func(a, b *Stay) int {
		return slices.Compare([]string{a.Cluster, a.Node, a.PCIBusID, a.UUID}, []string{b.Cluster, b.Node, b.PCIBusID, b.UUID})
	})
}

// replaced marks stays that ended because a different board is in the place now. It reads the stays of these different
// boards, because current contains only the boards in the question.
func (q *question) replaced(ctx context.Context, current []*Stay, of books.Query) error {
	return q.successors(ctx, slices.DeleteFunc(slices.Clone(current), func(s *Stay) bool { return state(s, of.Until) == present }), of)
}

// since returns the start of the stay. If the GPU left the place and came back, it returns the time of the return.
func (l *listed) since() any {
	if l.cameBack() {
		return l.NextPlace.Last
	}
	return l.First
}

// unknownState is the state of a name that the source does not contain. present is the state of a GPU whose stay has
// not ended.
const unknownState, present = "unknown", "present"

// cameBack reports whether a GPU left its place and returned in the last hour of its stay.
func (s *Stay) cameBack() bool { return s.NextPlace != nil && s.NextPlace.Last.Before(s.Last) }

func state(s *Stay, until time.Time) string {
	behind := earlier(s.LastHour.Add(time.Hour), until).Sub(s.Last) <= settle // there is no data after the last hour of the stay
	went := s.End
	if s.cameBack() {
		went = ""
	}
	switch {
	case until.Sub(s.Last) <= settle || went == "" && behind:
		return present
	case went == "":
		return "silent"
	}
	return went
}
