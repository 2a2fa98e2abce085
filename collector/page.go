package collector

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// page contains the series of a collector. Every scrape overwrites the page.
//
// Between two scrapes, values change, but the set of series rarely changes. Each rendering requests labels and series
// one after another. While these requests equal the requests of the previous rendering, the page keeps the labels and
// series and writes only the values.
type page struct {
	opts Options
	same bool // set while all requests equal the requests of the previous rendering

	sets   list[*labelSet]
	asked  list[question]
	series list[series]
	seen   map[seriesKey]struct{} // series of the current rendering; nil while same is set
}

type question struct {
	metric metricID
	labels *labelSet
	first  bool
}

type seriesKey struct {
	metric metricID
	labels string
}

func (p *page) begin() {
	p.same = true
	p.sets.next, p.asked.next, p.series.next = 0, 0, 0
}

// end adds the labels to new series, and reports whether the set of series changed.
func (p *page) end() (changed bool, err error) {
	if p.same && p.series.next == p.series.len {
		return false, nil
	}
	p.seen = nil
	p.sets.end()
	p.asked.end()
	p.series.end()
	return true, label(&p.series)
}

// differ ends the comparison with the previous rendering. It is called for the first request that differs.
func (p *page) differ() {
	if !p.same {
		return
	}
	p.same = false
	p.seen = make(map[seriesKey]struct{})
	for i := range p.asked.next {
		p.seen[p.asked.at(i).key()] = struct{}{}
	}
}

func (p *page) labels(given ...string) *labelSet { return p.with(nil, given...) }

func (p *page) with(base *labelSet, given ...string) *labelSet {
	if old := p.sets.old(); p.same && old != nil && (*old).matches(base, given) {
		p.sets.next++
		return *old
	}
	p.differ()
	l := &labelSet{base: base, given: slices.Clone(given)}
	*p.sets.add() = l
	return l
}

// first reports whether this is the first series on the page with this metric and these labels. If first returns false,
// the caller must drop the series, because a duplicate series would make the whole scrape fail. Duplicates are possible
// because different strings can become equal when they are converted to valid UTF-8.
func (p *page) first(m metricID, l *labelSet) bool {
	if old := p.asked.old(); p.same && old != nil && old.metric == m && old.labels == l {
		p.asked.next++
		return old.first
	}
	p.differ()
	q := question{metric: m, labels: l}
	if _, ok := p.seen[q.key()]; !ok {
		q.first = true
		p.seen[q.key()] = struct{}{}
	}
	*p.asked.add() = q
	return q.first
}

func (q question) key() seriesKey { return seriesKey{q.metric, q.labels.key()} }

// info writes an info series, which has the value 1.
func (p *page) info(m metricID, l *labelSet) { p.gauge(m, 1, l) }

func (p *page) gauge(m metricID, v float64, l *labelSet) { p.counter(m, v, time.Time{}, l) }

// counter adds a counter to the page. If since is not zero, it becomes the created timestamp of the counter. With this
// timestamp, Prometheus also counts the increase before the first scrape.
func (p *page) counter(m metricID, v float64, since time.Time, l *labelSet) {
	if old := p.series.old(); p.same && old != nil && old.matches(m, since, l) {
		old.value = v
		p.series.next++
		return
	}
	p.differ()
	created := p.created(since)
	p.series.add().write(m, v, created, l)
}

// created returns the timestamp for a time, or nil if the time is zero. It reuses the timestamp of the previous series,
// because successive counters usually have the same timestamp.
func (p *page) created(since time.Time) *timestamppb.Timestamp {
	if since.IsZero() {
		return nil
	}
	if n := p.series.next; n > 0 {
		if s := p.series.at(n - 1); s.began(since) {
			return s.Counter.CreatedTimestamp
		}
	}
	return timestamppb.New(since)
}

func optional[T ~float64 | ~uint64 | ~int](p *page, m metricID, v *T, l *labelSet) {
	if v != nil {
		p.gauge(m, float64(*v), l)
	}
}

func (p *page) moment(m metricID, t time.Time, l *labelSet) {
	if !t.IsZero() {
		p.gauge(m, float64(t.UnixMilli())/1000, l)
	}
}

func (p *page) flag(m metricID, on bool, l *labelSet) {
	v := 0.0
	if on {
		v = 1
	}
	p.gauge(m, v, l)
}
