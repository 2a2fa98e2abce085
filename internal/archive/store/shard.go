package store

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// Shard is a part of the GPUs of a cluster: a matcher of their UUIDs, empty for all.
type Shard string

// shardSize is the number of GPUs in a shard. An hour of a GPU takes about 30 kB.
const shardSize = 1024

// maxShards is the maximum number of shards: two digits.
const maxShards = 256

// Shards divides GPUs into shards of similar size by the first digits of their UUIDs, which are
// random. Each is to have at most the given part of shardSize. The last one also has GPUs with other
// UUIDs.
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

// quarters divides each of the patterns of digits into four.
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

// Read reads the record of a shard in some hours. Before are the closing values of the hour before
// them, nil if that hour was not read. Opening values that it lacks are requested.
func (s *Store) Read(ctx context.Context, cluster string, from time.Time, hours int, of Shard, before fold.Openings) ([]fold.Input, error) {
	all := make([]fold.Input, hours)
	for i := range all {
		all[i] = fold.Input{Cluster: cluster, Start: from.Add(time.Duration(i) * time.Hour), MaxPower: int64(s.config.MaxPower)}
	}
	d, matcher := newDecoder(newBudget()), string(of)
	names := "__name__=~" + strconv.Quote(strings.Join(fold.Metrics(), "|"))
	within, err := s.raw(ctx, d, s.matchers(cluster, names, matcher), from, from.Add(time.Duration(hours)*time.Hour))
	if err != nil {
		return nil, fmt.Errorf("samples: %w", err)
	}
	Divide(all, within)
	if before == nil {
		before = make(fold.Openings)
		for _, metric := range fold.Opened() {
			if err := s.open(ctx, d, before, metric, cluster, matcher, from, time.Hour); err != nil {
				return nil, fmt.Errorf("opening values of %s: %w", metric, err)
			}
		}
	}
	for i := range all {
		all[i].Openings = before
		for metric, accounts := range unopened(all[i]) {
			if err := s.openSome(ctx, d, before, metric, cluster, all[i].Start, accounts); err != nil {
				return nil, fmt.Errorf("opening values of %s: %w", metric, err)
			}
		}
		if err := s.reopen(ctx, d, &all[i]); err != nil {
			return nil, fmt.Errorf("samples before %s: %w", all[i].Start.Format(time.RFC3339), err)
		}
		before = all[i].Closings()
	}
	return all, nil
}

// maxReopened is the number of GPUs of an hour for which samples before it are read. If more have doubtful
// opening values, the hour is refused.
const maxReopened = 100

// reopen reads the samples before an hour of GPUs with doubtful opening values: last_over_time may have
// returned a wrong one.
func (s *Store) reopen(ctx context.Context, d *decoder, in *fold.Input) error {
	names := "__name__=~" + strconv.Quote(strings.Join(fold.Opened(), "|"))
	doubtful := in.Doubtful()
	for _, b := range doubtful[:min(len(doubtful), maxReopened)] {
		selector := s.matchers(in.Cluster, names, "node="+strconv.Quote(b.Node), "UUID="+strconv.Quote(b.UUID))
		found, err := s.raw(ctx, d, selector, in.Start.Add(-fold.Lookback), in.Start)
		if err != nil {
			return err
		}
		in.Reopen(found)
	}
	return nil
}

// Divide adds the samples of series to their hours.
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

// unopened returns the accounts without opening values by metric.
func unopened(in fold.Input) map[string][]fold.Account {
	missing := make(map[string][]fold.Account)
	for _, series := range in.Series {
		a, ok := fold.AccountOf(series.Labels)
		if _, known := in.Openings[a]; ok && !known {
			missing[series.Labels.Metric()] = append(missing[series.Labels.Metric()], a)
		}
	}
	return missing
}

// maxAccounts is the number of accounts in a query.
const maxAccounts = 500

// openSome adds the opening values of some accounts of a metric. Pods are found by their UIDs and
// units by their names, which costs nothing for new ones, other accounts by their GPUs.
func (s *Store) openSome(ctx context.Context, d *decoder, to fold.Openings, metric, cluster string, at time.Time, accounts []fold.Account) error {
	var values []string
	label := "UUID"
	for _, a := range accounts {
		value := a.Labels().Get("UUID")
		for _, name := range []string{"pod_uid", "unit"} {
			if owner := a.Labels().Get(name); owner != "" {
				label, value = name, owner
			}
		}
		values = append(values, regexp.QuoteMeta(value))
	}
	slices.Sort(values)
	for some := range slices.Chunk(slices.Compact(values), maxAccounts) {
		found := make(fold.Openings)
		matcher := label + "=~" + strconv.Quote(strings.Join(some, "|"))
		if err := s.open(ctx, d, found, metric, cluster, matcher, at, fold.Lookback); err != nil {
			return err
		}
		for _, a := range accounts {
			if sample, ok := found[a]; ok {
				to[a] = sample
			}
		}
	}
	return nil
}

// open adds the last samples of a metric in a time until a moment. last_over_time does not return
// their times: they have the time of the moment. Series of one account follow each other; their
// samples are read with their times.
func (s *Store) open(ctx context.Context, d *decoder, to fold.Openings, metric, cluster, matcher string, at time.Time, within time.Duration) error {
	twice := make(map[fold.Account]bool)
	window := strconv.FormatInt(int64(within.Seconds()), 10) + "s"
	err := s.askWith(ctx, d, "last_over_time("+metric+s.matchers(cluster, matcher)+"["+window+"])", at, func(found fold.Series) {
		found = named(found, metric)
		a, _ := fold.AccountOf(found.Labels)
		if _, known := to[a]; known {
			twice[a] = true
		}
		to.Add(found)
	})
	if err != nil {
		return err
	}
	for a := range twice {
		delete(to, a)
		series, err := s.raw(ctx, d, metric+s.matchers(cluster, account(a)...), at.Add(-within), at)
		if err != nil {
			return err
		}
		for _, one := range series {
			to.Add(named(one, metric))
		}
	}
	return nil
}

// account returns the matchers of an account.
func account(a fold.Account) (matchers []string) {
	for _, l := range a.Labels() {
		if l.Name != "__name__" {
			matchers = append(matchers, l.Name+"="+strconv.Quote(l.Value))
		}
	}
	return matchers
}
