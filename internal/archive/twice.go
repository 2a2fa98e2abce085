package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// located caches the GPUs of the current hour, by cluster.
type located struct {
	hour     time.Time
	clusters map[string][]table.Seen
}

func (l *located) add(h *table.Hour) {
	if !l.hour.Equal(h.Start) {
		*l = located{h.Start, make(map[string][]table.Seen)}
	}
	l.clusters[h.Cluster] = table.SeenIn(h)
}

// checkTwice refuses an hour if the sink contains one of its GPUs in another cluster at the same time. Otherwise the
// same samples would be archived under two names.
func (f *filer) checkTwice(ctx context.Context, h *table.Hour) error {
	s, ok := f.sink.(locator)
	if !ok {
		return nil
	}
	f.located.add(h)
	ctx, cancel := context.WithTimeout(ctx, sinkTimeout)
	defer cancel()
	others, err := s.Elsewhere(ctx, slices.Collect(maps.Keys(f.located.clusters)), h.Start)
	if err != nil {
		return &sinkError{err}
	}
	for cluster, known := range f.located.clusters {
		if cluster != h.Cluster {
			others = append(others, known...)
		}
	}
	elsewhere := make(map[string][]table.Seen)
	for _, o := range others {
		elsewhere[o.UUID] = append(elsewhere[o.UUID], o)
	}
	for _, g := range f.located.clusters[h.Cluster] {
		for _, o := range elsewhere[g.UUID] {
			if g.Twice(&o) {
				delete(f.located.clusters, h.Cluster)
				return &refusal{error: twiceError(&g, &o)}
			}
		}
	}
	return nil
}

var errTwice = errors.New("file each cluster under one name: check --cluster and the label cluster, and see rename-cluster")

func twiceError(g, o *table.Seen) error {
	return fmt.Errorf("board %s of node %s is filed for cluster %s at the same time, from %s to %s on node %s: %w",
		cmp.Or(g.Serial, g.UUID), g.Node, o.Cluster, o.First.Format(time.TimeOnly), o.Last.Format(time.TimeOnly), o.Node, errTwice)
}
