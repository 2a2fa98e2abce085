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
	// maxAhead is the number of hours that are read at once when the past is filed. It saves a third of the
	// processor time: the store finds the series once, and decodes its chunks once.
	maxAhead = 6
	// maxSequences is the number of sequences of a cluster: sinks may be at different hours.
	maxSequences = 4
)

// sequence is some consecutive hours of a cluster that are read one after the other.
type sequence struct {
	cluster  string
	next     time.Time
	shards   []store.Shard
	closings []fold.Openings // by shard, of the last hour that was read; nil if they are not known
	ahead    []*foldedHour   // hours that were read already
	nodes    map[string]bool // with samples in the hour before next, nil if it was not read
}

// foldedHour is an hour that was read and folded.
type foldedHour struct {
	coverage coverage
	parts    []*fold.Hour // by shard
	err      error        // the first refusal of a shard
}

// nodesBefore returns the nodes of a cluster in the last hour before another one, from a sink.
type nodesBefore func(ctx context.Context, cluster string, hour time.Time) ([]string, error)

// read reads and folds an hour. The error is a refusal if the samples may be incomplete, or errGone.
func (a *archive) read(ctx context.Context, cluster string, hour time.Time, filed nodesBefore) (h table.Hour, err error) {
	s := a.sequence(cluster, hour)
	if len(s.ahead) == 0 {
		if err := a.readAhead(ctx, s); err != nil {
			return h, refused(err)
		}
	}
	f := s.ahead[0]
	s.ahead = s.ahead[1:]
	if s.nodes == nil {
		if s.nodes, err = a.nodesBefore(ctx, s, filed); err != nil {
			return h, refused(err)
		}
	}
	silent, err := a.check(ctx, s, f)
	if err != nil {
		return h, refused(err)
	}
	owners, err := a.store.Owners(ctx, cluster, hour)
	if err != nil {
		return h, refused(err)
	}
	folded := &fold.Hour{Cluster: cluster, Start: hour.UTC()}
	folded.Join(f.parts...)
	folded.Name(owners, a.config.Team)
	h = table.Hour{Hour: folded, State: table.Complete, SilentNodes: len(silent), Filed: table.Filed{Digest: table.Digest(folded)}}
	if c := &f.coverage; c.tooSilent(silent) || len(c.nodes)+len(c.targets) == 0 {
		h.State = table.Gaps
	}
	s.next, s.nodes = hour.Add(time.Hour), f.coverage.nodes
	a.keep(s)
	return h, nil
}

// keep adds a sequence, in place of all others if they take too much memory together: these are read
// again.
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

// kept returns the memory of closing values, in bytes.
func kept(closings []fold.Openings) (bytes int) {
	for _, of := range closings {
		bytes += store.Kept(0, len(of))
	}
	return bytes
}

// kept returns the memory of the hours that were read, in bytes.
func (s *sequence) kept() (bytes int) {
	for _, f := range s.ahead {
		for _, part := range f.parts {
			bytes += store.Kept(len(part.GPUs)+len(part.Charges), 0)
		}
	}
	return bytes
}

// sequence removes the sequence of a cluster that continues with an hour, and returns it, or a new
// one. It is added again once the hour is complete: values of a refused hour may be incomplete.
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

// readAhead reads and folds the next hour of a sequence, and those after it if they are so old that
// no more samples arrive. Only one shard is in memory at a time.
func (a *archive) readAhead(ctx context.Context, s *sequence) error {
	if err := a.divide(ctx, s); err != nil {
		return err
	}
	for range a.hoursAhead(s.next) {
		s.ahead = append(s.ahead, &foldedHour{coverage: coverage{nodes: make(map[string]bool)}})
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
		closings[i] = fold.Closings(hours[len(hours)-1].Series)
		a.metrics.spent(stepFold, began)
		if err := store.CheckKept(s.kept() + kept(closings)); err != nil {
			return err
		}
	}
	s.closings = closings
	return nil
}

// divide divides the GPUs of a cluster into shards.
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

// hoursAhead returns the number of hours to read at once.
func (a *archive) hoursAhead(first time.Time) int {
	end := a.now().Add(-maxLag)
	if until := a.config.Until; !until.IsZero() && until.Before(end) {
		end = until.Time
	}
	return min(max(int(end.Sub(first)/time.Hour), 1), maxAhead)
}

// add folds a shard.
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

// nodesBefore returns the nodes with boards in the hour before, by the store and by the sink: a Thanos
// Query that lost a component answers as if that had never existed.
func (a *archive) nodesBefore(ctx context.Context, s *sequence, filed nodesBefore) (map[string]bool, error) {
	inStore, err := a.store.Nodes(ctx, s.cluster, s.next.Add(-time.Hour))
	if err != nil {
		return nil, err
	}
	inSink, err := filed(ctx, s.cluster, s.next)
	nodes := make(map[string]bool)
	for _, node := range slices.Concat(inStore, inSink) {
		nodes[node] = true
	}
	return nodes, err
}

// check returns the silent nodes of an hour, and a refusal if it may be incomplete.
func (a *archive) check(ctx context.Context, s *sequence, f *foldedHour) (silent []string, err error) {
	c := &f.coverage
	c.start, c.now, c.acceptGaps = s.next, a.now(), a.config.AcceptGaps
	if c.sampledAfter, err = a.store.SampledSince(ctx, s.cluster, s.next.Add(time.Hour), c.now); err != nil {
		return nil, err
	}
	if c.targets, err = a.store.Targets(ctx, s.cluster, s.next); err != nil {
		return nil, err
	}
	c.before = slices.Collect(maps.Keys(s.nodes))
	if silent, err = c.check(); err == nil && f.err != nil {
		err = &refusal{f.err}
	}
	return silent, err
}
