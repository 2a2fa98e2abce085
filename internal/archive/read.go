package archive

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const (
	// maxAhead is the maximum number of old hours in one read. The store then finds the series and decodes their chunks
	// only once, which saves a third of the processor time.
	maxAhead = 6
	// maxSequences is the maximum number of sequences per cluster. A sink that is behind the other sinks needs its own
	// sequence.
	maxSequences = 4
)

// sequence reads consecutive hours of one cluster. The counter values at the end of an hour are the values at the start
// of the next hour.
type sequence struct {
	cluster  string
	next     time.Time
	shards   []store.Shard
	closings []fold.Openings // counter values at the end of the last hour that was read, by shard; nil if unknown
	ahead    []*foldedHour   // hours from next on that are already read
	nodes    map[string]bool // nodes with samples in the hour before next; nil if this hour was not read
}

// foldedHour contains the rows that were computed from the samples of an hour.
type foldedHour struct {
	coverage coverage
	parts    []*table.Hour // tables of each shard
	err      error         // first error of a shard
}

type filedHours interface {
	// nodes returns the nodes that had boards in the last archived hour of the period.
	nodes(ctx context.Context, cluster string, from, until time.Time) ([]string, error)
	filed(ctx context.Context, cluster string, hour time.Time) (table.Filed, error)
}

// before is the row of the hour in the sink's manifest. It is zero if the manifest does not contain the hour.
type request struct {
	cluster string
	hour    time.Time
	before  table.Filed
	sink    filedHours
}

// Requests with the same requestKey have the same result. For example, the results differ between a sink that already
// contains the hour and a sink that does not.
type requestKey struct {
	cluster string
	hour    int64 // seconds since the epoch
	filed   bool
	reason  string
}

func (r request) key() requestKey {
	return requestKey{r.cluster, r.hour.Unix(), r.before != (table.Filed{}), r.before.Reason}
}

// read computes the rows of an hour from its samples. If the cluster is gone, the error is errGone. If samples may be
// missing, the error is a refusal.
func (a *archive) read(ctx context.Context, r request) (h table.Hour, err error) {
	cluster, hour := r.cluster, r.hour
	s := a.sequence(cluster, hour)
	if len(s.ahead) == 0 {
		if err := a.readAhead(ctx, s); err != nil {
			return h, refused(err)
		}
	}
	f := s.ahead[0]
	s.ahead = s.ahead[1:]
	if s.nodes == nil {
		if s.nodes, err = a.nodesBefore(ctx, s, r.sink); err != nil {
			return h, refused(err)
		}
	}
	state, err := a.check(ctx, s, f, r)
	if err != nil {
		return h, refused(err)
	}
	owners, err := a.store.Owners(ctx, cluster, hour)
	if err != nil {
		return h, refused(err)
	}
	c := &f.coverage
	h = table.Hour{Cluster: cluster, Start: hour.UTC(), State: state, SilentNodes: len(c.silent(c.before)), ExplainedNodes: len(c.explained)}
	h.Join(f.parts...)
	a.metrics.dropped.WithLabelValues(cluster).Add(float64(h.Dropped))
	if unknown := fold.Unknown(&h, owners); len(unknown) > 0 {
		more, err := a.store.Pods(ctx, cluster, hour, unknown)
		if err != nil {
			return h, refused(err)
		}
		owners = append(owners, more...)
	}
	fold.Name(&h, owners, a.config.Team)
	h.Digest = table.Digest(&h)
	if state == table.Gaps {
		h.Reason = c.accepted
	}
	s.next, s.nodes = hour.Add(time.Hour), f.coverage.nodes
	a.keep(s)
	return h, nil
}

// keep stores a sequence for the next request. If the sequences together take too much memory, keep drops all other
// sequences. Their next hours must then be read from the store again.
func (a *archive) keep(s *sequence) {
	bytes := s.kept() + kept(s.closings)
	for _, other := range a.sequences {
		bytes += other.kept() + kept(other.closings)
	}
	if store.CheckKept(bytes) != nil {
		a.sequences = nil
	}
	a.sequences = append(a.sequences, s)
}

func kept(closings []fold.Openings) (bytes int) {
	for _, of := range closings {
		bytes += store.Kept(0, len(of))
	}
	return bytes
}

func (s *sequence) kept() (bytes int) {
	for _, f := range s.ahead {
		for _, part := range f.parts {
			bytes += store.Kept(len(part.GPUs)+len(part.Charges), 0)
		}
	}
	return bytes
}

// sequence removes and returns the sequence whose next hour is the given hour. If there is none, it returns a new
// sequence. The caller puts the sequence back only if the hour is archived, because the counter values at the end of a
// refused hour may be incomplete.
func (a *archive) sequence(cluster string, hour time.Time) *sequence {
	n := 0
	for i, s := range a.sequences {
		if s.cluster != cluster {
			continue
		}
		if n++; s.next.Equal(hour) {
			a.sequences = slices.Delete(a.sequences, i, i+1)
			return s
		}
	}
	if n >= maxSequences {
		a.sequences = slices.DeleteFunc(a.sequences, func(s *sequence) bool { return s.cluster == cluster })
	}
	return &sequence{cluster: cluster, next: hour}
}

// readAhead reads the next hour of a sequence. It also reads later hours that can receive no more samples. Only one
// shard of the samples is in memory at a time.
func (a *archive) readAhead(ctx context.Context, s *sequence) error {
	if err := a.divide(ctx, s); err != nil {
		return err
	}
	for range a.hoursAhead(s.next) {
		s.ahead = append(s.ahead, &foldedHour{coverage: newCoverage()})
	}
	closings := make([]fold.Openings, len(s.shards))
	for i, shard := range s.shards {
		var before fold.Openings
		if s.closings != nil {
			before, s.closings[i] = s.closings[i], nil
		}
		began := time.Now()
		hours, err := a.store.Read(ctx, s.cluster, s.next, len(s.ahead), shard, before)
		if err != nil {
			return err
		}
		began = a.metrics.spent(stepRead, began)
		for j, in := range hours {
			s.ahead[j].add(in)
		}
		closings[i] = hours[len(hours)-1].Closings()
		a.metrics.spent(stepFold, began)
		if err := store.CheckKept(s.kept() + kept(closings)); err != nil {
			return err
		}
	}
	s.closings = closings
	return nil
}

func (a *archive) divide(ctx context.Context, s *sequence) error {
	gpus, err := a.store.Boards(ctx, s.cluster, s.next)
	if err != nil {
		return err
	}
	if shards := store.Shards(gpus, maxAhead); len(shards) > len(s.shards) {
		s.shards, s.closings = shards, nil
	}
	return nil
}

func (a *archive) hoursAhead(first time.Time) int {
	end := a.now().Add(-maxLag)
	if until := a.config.Until; !until.IsZero() && until.Before(end) {
		end = until.Time
	}
	return min(max(int(end.Sub(first)/time.Hour), 1), maxAhead)
}

func (f *foldedHour) add(in fold.Input) {
	f.coverage.add(in.Series)
	part, err := fold.Fold(in)
	switch {
	case err == nil:
		f.parts = append(f.parts, part)
	case f.err == nil:
		f.err = err
	}
}

// nodesBefore returns the nodes with boards in the previous hour, from the store and from the sink. The store may lack
// nodes: if a Thanos Query loses a component, its responses show no error.
func (a *archive) nodesBefore(ctx context.Context, s *sequence, sink filedHours) (map[string]bool, error) {
	inStore, err := a.store.Nodes(ctx, s.cluster, s.next.Add(-time.Hour))
	if err != nil {
		return nil, err
	}
	inSink, err := sink.nodes(ctx, s.cluster, s.next.Add(-maxAbsence), s.next)
	nodes := make(map[string]bool)
	for _, node := range slices.Concat(inStore, inSink) {
		nodes[node] = true
	}
	return nodes, err
}

func (a *archive) check(ctx context.Context, s *sequence, f *foldedHour, r request) (state table.State, err error) {
	c := &f.coverage
	c.start, c.now, c.before = s.next, a.now(), slices.Collect(maps.Keys(s.nodes))
	if c.targets, err = a.store.Targets(ctx, s.cluster, s.next); err != nil {
		return "", err
	}
	if err = a.explain(ctx, s.cluster, c); err != nil {
		return "", err
	}
	if c.sampledAfter, err = a.sampledAfter(ctx, s.cluster, c); err != nil {
		return "", err
	}
	if c.sparse() {
		if c.scrapes, err = a.store.Scrapes(ctx, s.cluster, s.next); err != nil {
			return "", err
		}
	}
	if err = a.acceptance(ctx, c, r); err != nil {
		return "", err
	}
	if state, err = c.check(); err == nil && f.err != nil {
		err = &refusal{error: f.err}
	}
	return state, err
}

func (a *archive) sampledAfter(ctx context.Context, cluster string, c *coverage) (bool, error) {
	found, err := a.store.SampledSince(ctx, cluster, c.start.Add(time.Hour), c.now)
	if err != nil || found {
		return found, err
	}
	return a.allGone(ctx, cluster, c)
}

// acceptance finds out whether missing samples are accepted. There are three reasons: the command accept, an archived
// hour that an operator accepted, or no scrapes of the cluster since an accepted hour.
func (a *archive) acceptance(ctx context.Context, c *coverage, r request) (err error) {
	if a.config.Accept != "" {
		c.accepted = a.config.Reason
		return nil
	}
	c.accepted = r.before.Reason
	if r.before != (table.Filed{}) {
		c.kept, err = r.sink.nodes(ctx, r.cluster, r.hour, r.hour.Add(time.Hour))
		return err
	}
	if !c.empty() || len(c.before) > 0 {
		return nil
	}
	return inherit(ctx, c, r)
}

// inherit accepts an hour without samples if the last archived hour was accepted. After two days without samples, the
// cluster counts as gone.
func inherit(ctx context.Context, c *coverage, r request) error {
	var last table.Filed
	ago := time.Duration(0)
	for last == (table.Filed{}) && ago < maxAbsence {
		ago += time.Hour
		var err error
		if last, err = r.sink.filed(ctx, r.cluster, r.hour.Add(-ago)); err != nil {
			return err
		}
	}
	if last.Reason == "" {
		return nil
	}
	first, err := r.sink.filed(ctx, r.cluster, r.hour.Add(-maxLag))
	if err != nil {
		return err
	}
	nodes, err := r.sink.nodes(ctx, r.cluster, r.hour.Add(-maxLag), r.hour.Add(time.Hour-maxLag))
	c.gone = ago > maxLag || first.Reason != "" && len(nodes) == 0
	if !c.gone {
		c.accepted = last.Reason
	}
	return err
}
