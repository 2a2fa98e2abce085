package fold

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// BoardError is the reason why the samples of a board are invalid.
type BoardError struct {
	Node, UUID, Serial string
	Err                error
}

func (e *BoardError) Error() string {
	return fmt.Sprintf("GPU %s on node %s: %v", e.UUID, e.Node, e.Err)
}

func (e *BoardError) Unwrap() error { return e.Err }

// BoardErrors contains the errors of boards in an hour, sorted by node and UUID.
type BoardErrors []*BoardError

func newBoardErrors(all iter.Seq[*BoardError]) BoardErrors {
	return slices.SortedFunc(all, func(a, b *BoardError) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.UUID, b.UUID)) })
}

func (e BoardErrors) Error() string {
	text := e[0].Error()
	if n := len(e) - 1; n > 0 {
		text += fmt.Sprintf("; and %d more boards", n)
	}
	return text
}

// Unwrap returns the errors of the boards.
func (e BoardErrors) Unwrap() (all []error) {
	for _, one := range e {
		all = append(all, one)
	}
	return all
}

// board contains the samples of a GPU in an hour.
type board struct {
	gpuKey
	start, lookback int64
	maxPower        int64
	openings        Openings
	series          map[string][]Series // series by metric
	// seen is the time of the first scrape of the GPU. It is the start of the hour if there is an opening value.
	seen    int64
	created map[Account][]Sample
	tracks  []*track
	dropped map[int64]bool // times of the dropped scrapes
}

func boardsOf(in *Input) map[gpuKey]*board {
	all := make(map[gpuKey]*board)
	at := func(k gpuKey) *board {
		if all[k] == nil {
			all[k] = &board{
				gpuKey: k, start: in.Start.UnixMilli(), lookback: Lookback.Milliseconds(), maxPower: in.power(),
				openings: make(Openings), series: make(map[string][]Series), created: make(map[Account][]Sample), dropped: make(map[int64]bool),
			}
		}
		return all[k]
	}
	for _, s := range in.Series {
		if len(s.Samples) > 0 {
			b, name := at(gpuOf(s.Labels)), s.Labels.Metric()
			b.series[name] = append(b.series[name], s)
		}
	}
	for a, s := range in.Openings {
		if b := all[a.gpuKey]; b != nil {
			b.openings[a] = s
		}
	}
	return all
}

func (b *board) fail(err error) *BoardError {
	e := &BoardError{Node: b.node, UUID: b.uuid, Err: err}
	for _, name := range []string{boardEnergy, placement} {
		for _, s := range b.series[name] {
			e.Serial = cmp.Or(s.Labels.Get("serial"), e.Serial)
		}
	}
	return e
}

// power returns the maximum power that a counter can measure. If the scope of the counter is not the GPU, the counter
// may include a CPU or a second GPU.
func (b *board) power() int64 {
	for _, s := range b.series[source] {
		if s.Labels.Get("scope") != "gpu" {
			return 2 * b.maxPower
		}
	}
	return b.maxPower
}

// settle finds the plausible samples of each counter. If one value is implausible, it drops the whole scrape, so that
// the charges still add up to the energy of the board.
func (b *board) settle() error {
	bad, err := b.read()
	if err != nil {
		return err
	}
	scrapes := 0
	if len(bad) > 0 {
		scrapes = b.scrapes()
	}
	for range maxRounds {
		for _, t := range b.tracks {
			t.drop(bad)
		}
		maps.Copy(b.dropped, bad)
		if n := len(b.dropped); n > 1 && 2*n > scrapes {
			return fmt.Errorf("%d of %d scrapes have impossible values: %w", n, scrapes, ErrImplausible)
		}
		bad = make(map[int64]bool)
		for _, t := range b.tracks {
			if err := t.settle(b, bad); err != nil {
				return err
			}
		}
		if len(bad) == 0 {
			return nil
		}
		scrapes = cmp.Or(scrapes, b.scrapes())
	}
	return fmt.Errorf("the values of different scrapes contradict each other: %w", ErrImplausible)
}

func (b *board) healthOnly() {
	for _, t := range b.tracks {
		if t.sum = 0; (t.kind == health || t.kind == hardware) && len(t.samples) > 0 {
			t.direct(b)
		}
	}
}

// Dropped samples can make other samples implausible, which are then dropped in the next round.
const maxRounds = 10

// read joins the series of each counter. bad contains the times of impossible values.
func (b *board) read() (bad map[int64]bool, err error) {
	bad = make(map[int64]bool)
	b.seen = b.start + b.lookback
	if len(b.openings) > 0 {
		b.seen = b.start
	}
	for i := range created {
		c := &created[i]
		b.see(b.series[c.name])
		accounts, e := c.merge(b.series[c.name])
		err = cmp.Or(err, e)
		for a, samples := range accounts {
			b.created[a] = steady(b.openings[a], samples)
		}
	}
	power := b.power()
	for i := range counters {
		c := &counters[i]
		b.see(b.series[c.name])
		accounts, e := c.merge(b.series[c.name])
		if err = cmp.Or(err, e); e != nil {
			accounts = make(map[Account][]Sample)
			for _, s := range b.series[c.name] {
				accounts[c.account(s.Labels)] = nil
			}
		}
		for a, samples := range accounts {
			b.tracks = append(b.tracks, &track{counter: c, account: a, samples: samples, rate: c.kind.rate(power)})
			for _, s := range samples {
				if _, ok := c.exact(s.Value); !ok {
					bad[s.Time] = true
				}
			}
		}
	}
	// The order of the counters must not depend on the order of series, because settle returns the first error.
	slices.SortFunc(b.tracks, func(x, y *track) int {
		return cmp.Or(cmp.Compare(x.name, y.name), slices.Compare(x.account.labels[:], y.account.labels[:]))
	})
	return bad, err
}

func (b *board) see(series []Series) {
	for _, s := range series {
		b.seen = min(b.seen, s.Samples[0].Time)
	}
}

func (b *board) scrapes() int {
	times := make(map[int64]bool)
	for _, t := range b.tracks {
		for _, s := range t.samples {
			times[s.Time] = true
		}
	}
	return len(times)
}

// steady removes impossible created timestamps. If a timestamp is between two equal timestamps, it is impossible,
// because a counter cannot return to an earlier start.
func steady(opening Sample, samples []Sample) (kept []Sample) {
	before := opening.Value
	for i, s := range samples {
		single := i+1 < len(samples) && samples[i+1].Value == before && s.Value != before
		if isExact(s.Value) && !single {
			kept, before = append(kept, s), s.Value
		}
	}
	return kept
}

func (b *board) createdAt(c *counter, a Account) timeline {
	if c.created == "" {
		return timeline{}
	}
	a.metric = c.created
	clear(a.labels[len(opened[a.metric].by):])
	opening, known := b.openings[a]
	return timeline{opening.Value, known && isExact(opening.Value), b.created[a]}
}

// isNew reports whether the first value of a counter without an opening value is an increase in this hour.
//   - On a GPU that was scraped before, the counter is new and began at 0.
//   - On a GPU that was not scraped before, the counters began at 0 if they are younger than Lookback.
//     Older counters mean that the GPU returned, or that the store has no earlier samples.
func (b *board) isNew(a Account, first int64) bool {
	if b.seen < first {
		return true
	}
	created := b.createdAt(&counters[0], a)
	began, known := created.at(first)
	return known && began*1000 >= float64(b.start-b.lookback)
}

// sum checks that the GPU times of all pods and units together do not exceed the elapsed time. It begins at the first
// sample of each counter in the hour, because the time of an opening value may be unknown.
func (b *board) sum() error {
	begin, end, sum := b.start+b.lookback, b.start, int64(0)
	for _, t := range b.tracks {
		if t.kind == gpuTime && len(t.samples) > 0 {
			begin, end = min(begin, t.first.moved), max(end, t.last.time)
			sum += t.within
		}
	}
	if sum > 0 && sum > end-begin+overlap {
		return fmt.Errorf("pods and units held the GPU for %.0f s within %.0f s: %w", float64(sum)/1000, float64(end-begin)/1000, ErrImplausible)
	}
	return nil
}

// The GPU times of all pods and units together may exceed the elapsed time by up to overlap milliseconds. The reason is
// that a node's clock determines when a counter starts and ends.
const overlap = 10 * 60 * 1000

func (a Account) name() string {
	var values []string
	for _, value := range a.labels {
		if value != "" {
			values = append(values, value)
		}
	}
	if len(values) == 0 {
		return a.metric
	}
	return a.metric + " of " + strings.Join(values, "/")
}
