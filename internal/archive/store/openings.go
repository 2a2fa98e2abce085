package store

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// An opening value is the last value of a counter before an hour.
type opening struct {
	cluster, metric string
	at              time.Time
}

// open adds opening values that are at most an hour old.
func (r *reader) open(ctx context.Context, to fold.Openings, o opening, of Shard) error {
	found, err := r.last(ctx, o, string(of), time.Hour)
	maps.Copy(to, found)
	return err
}

// openSome adds the opening values of the given accounts. It finds a pod by UID and a unit by name, so that the query
// for a new pod or unit returns no series. It finds other accounts by GPU.
func (r *reader) openSome(ctx context.Context, to fold.Openings, o opening, accounts []fold.Account) error {
	label, values := identities(accounts)
	for _, matcher := range matching(label, values) {
		found, err := r.last(ctx, o, matcher, fold.Lookback)
		if err != nil {
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

func identities(accounts []fold.Account) (label string, values []string) {
	label = "UUID"
	for _, a := range accounts {
		value := a.Labels().Get("UUID")
		for _, name := range []string{"pod_uid", "unit"} {
			if owner := a.Labels().Get(name); owner != "" {
				label, value = name, owner
			}
		}
		values = append(values, value)
	}
	slices.Sort(values)
	return label, slices.Compact(values)
}

// last returns the last samples before the opening. within is their maximum age. The samples have the time of the
// opening, because last_over_time returns no times. If an account has several series, last reads their samples with
// times, and uses the last sample.
func (r *reader) last(ctx context.Context, o opening, matcher string, within time.Duration) (fold.Openings, error) {
	openings, twice := make(fold.Openings), make(map[fold.Account]bool)
	window := strconv.FormatInt(int64(within.Seconds()), 10) + "s"
	err := r.ask(ctx, "last_over_time("+r.Selector(o.metric, o.cluster, matcher)+"["+window+"])", o.at, func(found fold.Series) {
		found = named(found, o.metric)
		a, _ := fold.AccountOf(found.Labels)
		if _, known := openings[a]; known {
			twice[a] = true
		}
		openings.Add(found)
	})
	if err != nil {
		return nil, err
	}
	for a := range twice {
		delete(openings, a)
		series, err := r.raw(ctx, r.Selector(o.metric, o.cluster, account(a)...), Window{o.at.Add(-within), o.at})
		if err != nil {
			return nil, err
		}
		for _, one := range series {
			openings.Add(named(one, o.metric))
		}
	}
	return openings, nil
}

func account(a fold.Account) (matchers []string) {
	for _, l := range a.Labels() {
		if l.Name != "__name__" {
			matchers = append(matchers, l.Name+"="+strconv.Quote(l.Value))
		}
	}
	return matchers
}

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

// maxReopened is the maximum number of GPUs whose samples before the hour are read. If more GPUs have doubtful opening
// values, the hour is refused.
const maxReopened = 100

// reopen reads the samples before an hour for GPUs with doubtful opening values. The result of last_over_time may be a
// wrong value.
func (r *reader) reopen(ctx context.Context, in *fold.Input) error {
	names := "__name__=~" + strconv.Quote(strings.Join(fold.Opened(), "|"))
	doubtful := in.Doubtful()
	for _, b := range doubtful[:min(len(doubtful), maxReopened)] {
		selector := r.matchers(in.Cluster, names, "node="+strconv.Quote(b.Node), "UUID="+strconv.Quote(b.UUID))
		found, err := r.raw(ctx, selector, Window{in.Start.Add(-fold.Lookback), in.Start})
		if err != nil {
			return err
		}
		in.Reopen(found)
	}
	return nil
}
