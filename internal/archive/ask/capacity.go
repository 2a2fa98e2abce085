package ask

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Times are in GPU hours.
var capacityColumns = columns[capacityRow]{
	{"line", "", print.Text, func(r capacityRow) any { return r.line }},
	{"time", "FROM", print.Time, func(r capacityRow) any { return r.at }},
	{"hours", "HOURS", print.Count, func(r capacityRow) any { return r.hours }},
	{"model", "MODEL", print.Text, func(r capacityRow) any { return r.model }},
	{"gpus", "GPUS", print.Count, func(r capacityRow) any { return int64(len(r.gpus)) }},
	{"allocated_ms", "ALLOCATED", print.Span, func(r capacityRow) any { return r.allocated }},
	{"idle_ms", "IDLE", print.Span, func(r capacityRow) any { return r.idle }},
	{"free_ms", "FREE", print.Span, func(r capacityRow) any { return max(r.present-r.allocated, 0) }},
	{"silent_ms", "SILENT", print.Span, func(r capacityRow) any { return r.silent }},
	{"lost_ms", "LOST", print.Span, func(r capacityRow) any { return r.lost }},
	{"pending_ms", "PENDING", print.Span, func(r capacityRow) any { return number(r.pending) }},
}

const capacityDays = 30 * day

// partModel identifies a model and a part of the selected time. Each day is a part. The last hour with data is one more
// part.
type partModel struct {
	start time.Time
	model string
}

// states contains the GPU time of a model in each state, in ms.
type states struct {
	gpus                                   map[string]bool // by UUID
	present, allocated, idle, silent, lost int64
}

type capacityRow struct {
	line, model string
	at          time.Time
	hours       int64 // hours with data
	*states
	pending *int64 // only in the total, because pods do not request a model
}

type nodeHour struct {
	cluster, node string
	hour          time.Time
}

type capacity struct {
	of      books.Query
	filed   map[string][]time.Time           // hours with data, by cluster
	hours   map[time.Time]map[time.Time]bool // hours with data, by part
	seen    map[nodeHour]bool                // nodes with a present GPU
	last    time.Time                        // the last hour with data
	all     map[partModel]*states
	pending map[time.Time]int64 // GPU time of pending pods in ms, by part; nil if unknown
}

func (q *question) capacity(ctx context.Context) (print.Answer, error) {
	if q.Age {
		return q.ages(ctx)
	}
	if q.Failures {
		return q.failures(ctx)
	}
	of, notices := q.period(), []string(nil)
	if !q.Month.IsZero() {
		of, notices = q.billed()
	}
	of.Until = of.Until.Truncate(time.Hour)
	c := &capacity{
		of: of, filed: make(map[string][]time.Time), hours: make(map[time.Time]map[time.Time]bool), seen: make(map[nodeHour]bool), all: make(map[partModel]*states),
	}
	for at := of.From; at.Before(of.Until); at = at.Truncate(day).Add(day) {
		c.of.Parts = append(c.of.Parts, at)
	}
	hours, err := c.read(ctx, q.source)
	if err != nil {
		return print.Answer{}, err
	}
	incomplete := newAccount(nil, c.of)
	if err := q.complete(incomplete, hours); err != nil {
		return print.Answer{}, err
	}
	a := capacityColumns.answer(c.rows()...)
	a.Notices = append(notices, incomplete.notices...)
	if c.pending == nil && len(a.Rows) > 0 {
		a.Notices = append(a.Notices, unknownDemand(q.source.Source))
	}
	return a, nil
}

func unknownDemand(source books.Source) string {
	if _, store := source.(books.Demand); store {
		return "no pending GPU hours in this time: no pod was pending, or the rule " + books.PendingRule + " was not evaluated"
	}
	return "an archive contains no pending GPU hours: set --store.url to a store with the rule " + books.PendingRule
}

func (c *capacity) read(ctx context.Context, source *reader) ([]books.Hour, error) {
	c.of.By = []string{"hour", "model", "reason"}
	st, err := source.Statement(ctx, c.of)
	if err != nil {
		return nil, err
	}
	for _, charge := range st.Charges {
		c.charge(charge.Hour, charge)
	}
	for h, err := range source.Hours(ctx, c.of) {
		if err != nil {
			return nil, err
		}
		c.filed[h.Cluster] = append(c.filed[h.Cluster], h.Hour)
		c.last = later(c.last, h.Hour)
	}
	if c.last.IsZero() {
		return st.Hours, nil
	}
	if err := c.readLast(ctx, source); err != nil {
		return nil, err
	}
	places := c.of
	places.Places, places.Parts = true, nil
	all, err := stays(ctx, source, places)
	if err != nil {
		return nil, err
	}
	c.countPresent(all)
	c.countMissing(all)
	return st.Hours, c.demand(ctx, source.Source)
}

func (c *capacity) readLast(ctx context.Context, source books.Source) error {
	now := c.of
	now.From, now.Until, now.Parts = c.last, c.last.Add(time.Hour), nil
	now.By = []string{"model", "reason"}
	st, err := source.Statement(ctx, now)
	if err != nil {
		return err
	}
	for _, charge := range st.Charges {
		c.charge(c.of.Until, charge)
	}
	return nil
}

// The key of a day is its start. The key of the last hour is the end of the selected time.
func (c *capacity) states(start time.Time, model string) *states {
	key := partModel{start, model}
	if c.all[key] == nil {
		c.all[key] = &states{gpus: make(map[string]bool)}
	}
	return c.all[key]
}

func (c *capacity) charge(start time.Time, charge table.Charge) {
	if charge.Reason != "" {
		return
	}
	s := c.states(start, charge.Model)
	s.allocated += charge.GPUTime
	s.idle += max(charge.GPUTime-charge.Active, 0)
}

// each calls the function add for every hour with data in the period. If the hour is in several parts, it calls add for
// each part.
func (c *capacity) each(s *Stay, from, until time.Time, add func(hour time.Time, to *states)) {
	hours := c.filed[s.Cluster]
	first, _ := slices.BinarySearchFunc(hours, from, time.Time.Compare)
	for _, hour := range hours[first:] {
		if !hour.Before(until) {
			return
		}
		for _, start := range c.parts(hour) {
			to := c.states(start, s.modelIn(hour))
			to.gpus[s.UUID] = true
			if c.hours[start] == nil {
				c.hours[start] = make(map[time.Time]bool)
			}
			c.hours[start][hour] = true
			add(hour, to)
		}
	}
}

// parts returns the keys of the parts that contain an hour. Every hour is in the part of its day. The last hour with
// data is also a part of its own.
func (c *capacity) parts(hour time.Time) []time.Time {
	parts := []time.Time{later(hour.Truncate(day), c.of.From)}
	if hour.Equal(c.last) {
		parts = append(parts, c.of.Until)
	}
	return parts
}

const hourLength = int64(time.Hour / time.Millisecond)

func (c *capacity) countPresent(all []*Stay) {
	for _, s := range all {
		until := s.LastHour.Add(time.Hour)
		if s.NextPlace != nil && s.NextPlace.Hour.Before(until) {
			until = s.NextPlace.Hour // the GPU moved within the hour
		}
		c.each(s, s.Hour, until, func(hour time.Time, to *states) {
			to.present += hourLength
			c.seen[nodeHour{s.Cluster, s.Node, hour}] = true
		})
	}
}

// countMissing adds the hours in which GPUs were missing. A missing GPU is lost if another GPU of its node was scraped,
// and silent otherwise. It is missing until its next scrape, or until another board is scraped at its PCI address.
func (c *capacity) countMissing(all []*Stay) {
	for _, s := range all {
		if s.End == "" || s.End == "moved" || s.End == replaced {
			continue
		}
		until := c.of.Until
		for _, next := range []*Stay{s.NextPlace, s.NextBoard} {
			if next != nil && next.First.After(s.Last) {
				until = earlier(until, next.Hour)
			}
		}
		c.each(s, s.LastHour.Add(time.Hour), until, func(hour time.Time, to *states) {
			if c.seen[nodeHour{s.Cluster, s.Node, hour}] {
				to.lost += hourLength
			} else {
				to.silent += hourLength
			}
		})
	}
}

func (c *capacity) demand(ctx context.Context, source books.Source) error {
	store, ok := source.(books.Demand)
	if !ok {
		return nil
	}
	return store.Pending(ctx, c.of, func(hour time.Time, gpuTime int64) {
		if c.pending == nil {
			c.pending = make(map[time.Time]int64)
		}
		for _, start := range c.parts(hour) {
			c.pending[start] += gpuTime
		}
	})
}

// rows returns the rows of each day, and then the rows of the last hour. Each part has one row per model, and a row for
// the total.
func (c *capacity) rows() (rows []capacityRow) {
	parts := make(map[time.Time][]string) // models in each part
	for key := range c.all {
		parts[key.start] = append(parts[key.start], key.model)
	}
	for _, start := range slices.SortedFunc(maps.Keys(parts), time.Time.Compare) {
		total := &states{gpus: make(map[string]bool)}
		slices.Sort(parts[start])
		for _, model := range parts[start] {
			s := c.all[partModel{start, model}]
			total.add(s)
			rows = append(rows, c.row("model", start, model, s))
		}
		row := c.row("total", start, "TOTAL", total)
		if c.pending != nil {
			row.pending = new(c.pending[start])
		}
		rows = append(rows, row)
	}
	return rows
}

func (s *states) add(other *states) {
	maps.Copy(s.gpus, other.gpus)
	s.present += other.present
	s.allocated += other.allocated
	s.idle += other.idle
	s.silent += other.silent
	s.lost += other.lost
}

func (c *capacity) row(line string, start time.Time, model string, s *states) capacityRow {
	at := start
	if start.Equal(c.of.Until) {
		at = c.last
	}
	return capacityRow{line: line, model: model, at: at, hours: int64(len(c.hours[start])), states: s}
}
