package store

import (
	"context"
	"errors"
	"io"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/address"
	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// Cluster returns the name of the only cluster in the store. It is empty if series have a label cluster.
func (s *Store) Cluster() string { return s.config.Cluster }

// URL returns the address of the store, without its secrets.
func (s *Store) URL() string { return address.Public(s.base) }

// Close closes idle connections.
func (s *Store) Close() { s.client.CloseIdleConnections() }

// Selector returns a selector for a metric in a cluster. It ignores empty matchers.
func (s *Store) Selector(metric, cluster string, matchers ...string) string {
	return metric + s.matchers(cluster, matchers...)
}

// Query evaluates an instant query.
func (s *Store) Query(ctx context.Context, expr string, at time.Time, add func(fold.Series)) error {
	return s.ask(ctx, expr, at, add)
}

// Raw returns the samples that a selector matches in (after, until].
func (s *Store) Raw(ctx context.Context, selector string, after, until time.Time) ([]fold.Series, error) {
	return s.reader().raw(ctx, selector, Window{after, until})
}

// maxSteps is the maximum number of steps in a range query. Stores allow 11,000 steps.
const maxSteps = 10_000

// Hourly evaluates a query at every hour from first to last.
func (s *Store) Hourly(ctx context.Context, expr string, first, last time.Time, add func(fold.Series)) error {
	seconds := func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
	for begin := first; !begin.After(last); begin = begin.Add(maxSteps * time.Hour) {
		end := begin.Add((maxSteps - 1) * time.Hour)
		if end.After(last) {
			end = last
		}
		form := url.Values{"query": {expr}, "start": {seconds(begin)}, "end": {seconds(end)}, "step": {"3600"}}
		d := newDecoder(newBudget())
		err := s.post(ctx, "query_range", form, func(body io.Reader) error {
			return d.decode(body, func(found fold.Series) {
				found.Samples = Window{begin.Add(-1), end}.within(found.Samples)
				add(found)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Series returns the labels of the matching series with samples in a period or shortly before the period. For this
// query, the store reads only its index.
func (s *Store) Series(ctx context.Context, selector string, from, until time.Time) ([]fold.Labels, error) {
	return s.SomeSeries(ctx, selector, from, until, 0)
}

// SomeSeries is like Series, but returns at most limit series. A store may ignore the limit. 0 means no limit.
func (s *Store) SomeSeries(ctx context.Context, selector string, from, until time.Time, limit int) (found []fold.Labels, err error) {
	seconds := func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
	form := url.Values{"match[]": {selector}, "start": {seconds(from)}, "end": {seconds(until)}}
	if limit > 0 {
		form.Set("limit", strconv.Itoa(limit))
	}
	d := newDecoder(newBudget())
	err = s.post(ctx, "series", form, func(body io.Reader) error {
		err := d.decodeLabels(body, func(labels fold.Labels) { found = append(found, labels) })
		if limit > 0 && len(found) >= limit && errors.Is(err, ErrIncomplete) {
			return nil // Prometheus returns a warning if the limit was reached
		}
		return err
	})
	return found, err
}

// LastOf returns a query for the last samples of a selector in an hour. [LastSamples] reads its results. For
// [fold.UnitInfo], the values are the times of the last samples in seconds. The value is 0 if a series lasted less than
// a minute.
func LastOf(metric, selector string) string {
	if metric == fold.UnitInfo {
		return "max_over_time(timestamp(" + selector + ")[1h:1m]) or 0 * last_over_time(" + selector + "[1h])"
	}
	return "last_over_time(" + selector + "[1h])"
}

// LastSamples returns the last samples from the results of [LastOf]. The query must be evaluated at a full hour.
func LastSamples(metric string, results []fold.Sample) (samples []fold.Sample) {
	if metric != fold.UnitInfo {
		return results
	}
	for _, x := range results {
		begin, last := x.Time-time.Hour.Milliseconds(), int64(math.Round(x.Value*1000))
		switch {
		case last == 0:
			last = begin
		case last <= begin: // the sample is from the previous hour
			continue
		}
		samples = append(samples, fold.Sample{Time: last, Value: 1})
	}
	return samples
}
