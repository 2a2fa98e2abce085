package collector

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// page is one scrape being written. It lives as long as one rendering.
//
// From one scrape to the next the values change and the series hardly ever do. So a
// rendering is compared, call by call, with the one before: while it asks for the same
// labels and the same series, it takes them from there and only notes the values.
type page struct {
	opts Options
	last *layout
	same bool // whether all calls so far were those of the last rendering

	sets    []*labelSet
	asked   []question
	series  []series
	amounts []float64 // the values, in the order of series
	seen    map[seriesKey]struct{}
}

// question is what [page.first] was asked, and its answer.
type question struct {
	metric metric
	labels *labelSet
	first  bool
}

// seriesKey names one series of a metric.
type seriesKey struct {
	metric metric
	labels string
}

func newPage(last *layout, opts Options) *page {
	return &page{opts: opts, last: last, same: true}
}

// differ ends the comparison with the last rendering. What was taken from it is not
// written to: it may be in use.
func (p *page) differ() {
	if !p.same {
		return
	}
	p.same = false
	p.sets, p.asked, p.series = apart(p.sets, p.last.sets), apart(p.asked, p.last.asked), apart(p.series, p.last.series)
	p.seen = make(map[seriesKey]struct{})
	for _, q := range p.asked {
		p.seen[q.key()] = struct{}{}
	}
}

// apart returns a copy of the beginning of a list, with room for a list as long. Behind
// what was taken of the last one stands what has left the page since.
func apart[T any](taken, last []T) []T { return append(make([]T, 0, len(last)), taken...) }

// labels returns a set of label values.
func (p *page) labels(given ...string) *labelSet { return p.and(nil, given...) }

// and returns the values of base with more at their end.
func (p *page) and(base *labelSet, given ...string) *labelSet {
	i := len(p.sets)
	if p.same && i < len(p.last.sets) && p.last.sets[i].is(base, given) {
		p.sets = p.last.sets[:i+1]
		return p.sets[i]
	}
	p.differ()
	l := &labelSet{base: base, given: slices.Clone(given)}
	p.sets = append(p.sets, l)
	return l
}

// first reports whether these labels are new on the page. One duplicate would
// fail the whole scrape, and strings that differ can become equal when they are
// made valid; then the first one stands and the caller drops the later ones.
func (p *page) first(m metric, l *labelSet) bool {
	i := len(p.asked)
	if p.same && i < len(p.last.asked) && p.last.asked[i].metric == m && p.last.asked[i].labels == l {
		p.asked = p.last.asked[:i+1]
		return p.asked[i].first
	}
	p.differ()
	q := question{metric: m, labels: l}
	if _, ok := p.seen[q.key()]; !ok {
		q.first = true
		p.seen[q.key()] = struct{}{}
	}
	p.asked = append(p.asked, q)
	return q.first
}

func (q question) key() seriesKey { return seriesKey{q.metric, q.labels.key()} }

// info writes a series that is there for its labels.
func (p *page) info(m metric, l *labelSet) { p.gauge(m, 1, l) }

func (p *page) gauge(m metric, v float64, l *labelSet) { p.counter(m, v, time.Time{}, l) }

// counter writes a counter that began at 0 at the given moment, if that is
// known. Prometheus can then count what came before its first scrape.
func (p *page) counter(m metric, v float64, since time.Time, l *labelSet) {
	p.amounts = append(p.amounts, v)
	i := len(p.series)
	if p.same && i < len(p.last.series) && p.last.series[i].is(m, since, l) {
		p.series = p.last.series[:i+1]
		return
	}
	p.differ()
	p.series = append(p.series, series{metric: m, labels: l, created: p.created(since)})
}

// created returns a moment as the page has it, nil for none. Counters that began together
// mostly follow each other.
func (p *page) created(since time.Time) *timestamppb.Timestamp {
	if since.IsZero() {
		return nil
	}
	if n := len(p.series); n > 0 && p.series[n-1].began(since) {
		return p.series[n-1].created
	}
	return timestamppb.New(since)
}

// optional writes a gauge unless it could not be read.
func optional[T ~float64 | ~uint64 | ~int](p *page, m metric, v *T, l *labelSet) {
	if v != nil {
		p.gauge(m, float64(*v), l)
	}
}

// moment writes a point in time as a gauge, unless it never came.
func (p *page) moment(m metric, t time.Time, l *labelSet) {
	if !t.IsZero() {
		p.gauge(m, float64(t.UnixMilli())/1000, l)
	}
}

// flag writes a condition as 1 or 0.
func (p *page) flag(m metric, on bool, l *labelSet) {
	v := 0.0
	if on {
		v = 1
	}
	p.gauge(m, v, l)
}
