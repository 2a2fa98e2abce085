package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// Shard is a matcher for the label UUID. It selects a part of a cluster's GPUs. An empty matcher selects all GPUs.
type Shard string

// shardSize is the number of GPUs in a shard. One hour of a GPU takes about 30 kB.
const shardSize = 1024

// The first two hexadecimal digits of a UUID have maxShards values.
const maxShards = 256

// Shards divides GPUs by the first digits of their UUIDs. These digits are random, so the shards have similar sizes. A
// shard has at most about shardSize/part GPUs. The last shard also contains GPUs with UUIDs of another form.
func Shards(gpus, part int) []Shard {
	prefixes := []string{""}
	for len(prefixes)*shardSize/part < min(gpus, maxBoards) && len(prefixes) < maxShards {
		prefixes = quarters(prefixes)
	}
	all := make([]Shard, len(prefixes))
	for i, prefix := range prefixes {
		all[i] = Shard(`UUID=~"GPU-` + prefix + `.*"`)
	}
	last := len(all) - 1
	all[last] = Shard(`UUID!~"GPU-(` + strings.Join(prefixes[:last], "|") + `).*"`)
	if last == 0 {
		all[0] = ""
	}
	return all
}

// quarters divides each pattern of hexadecimal digits into four.
func quarters(prefixes []string) (all []string) {
	for _, prefix := range prefixes {
		known, digits, half := strings.Cut(prefix, "[")
		if !half {
			digits = "0123456789abcdef"
		}
		digits = strings.TrimSuffix(digits, "]")
		for part := range slices.Chunk([]byte(digits), len(digits)/4) {
			next := known + string(part)
			if len(part) > 1 {
				next = known + "[" + string(part) + "]"
			}
			all = append(all, next)
		}
	}
	return all
}

// Read reads the samples of a shard in consecutive hours. before contains the last values of all counters before the
// first hour. If before is nil, Read reads these values from the store.
func (s *Store) Read(ctx context.Context, cluster string, from time.Time, hours int, of Shard, before fold.Openings) ([]fold.Input, error) {
	all := make([]fold.Input, hours)
	for i := range all {
		all[i] = fold.Input{Cluster: cluster, Start: from.Add(time.Duration(i) * time.Hour), MaxPower: int64(s.config.MaxPower)}
	}
	r := s.reader()
	names := "__name__=~" + strconv.Quote(strings.Join(fold.Metrics(), "|"))
	series, err := r.raw(ctx, s.matchers(cluster, names, string(of)), Window{from, from.Add(time.Duration(hours) * time.Hour)})
	if err != nil {
		return nil, fmt.Errorf("samples: %w", err)
	}
	Divide(all, series)
	if before == nil {
		before = make(fold.Openings)
		for _, metric := range fold.Opened() {
			if err := r.open(ctx, before, opening{cluster, metric, from}, of); err != nil {
				return nil, fmt.Errorf("values of %s before the hour: %w", metric, err)
			}
		}
	}
	for i := range all {
		in := &all[i]
		in.Openings = before
		for metric, accounts := range unopened(*in) {
			if err := r.openSome(ctx, before, opening{cluster, metric, in.Start}, accounts); err != nil {
				return nil, fmt.Errorf("values of %s before the hour: %w", metric, err)
			}
		}
		if err := r.reopen(ctx, in); err != nil {
			return nil, fmt.Errorf("samples before %s: %w", in.Start.Format(time.RFC3339), err)
		}
		before = in.Closings()
	}
	return all, nil
}

// Divide assigns the samples of series to their hours.
func Divide(hours []fold.Input, series []fold.Series) {
	for _, s := range series {
		for i := range hours {
			end := hours[i].Start.Add(time.Hour).UnixMilli()
			n, _ := slices.BinarySearchFunc(s.Samples, end+1, func(x fold.Sample, at int64) int { return cmp.Compare(x.Time, at) })
			if n > 0 {
				hours[i].Series = append(hours[i].Series, fold.Series{Labels: s.Labels, Samples: s.Samples[:n:n]})
			}
			s.Samples = s.Samples[n:]
		}
	}
}
