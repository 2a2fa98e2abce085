package store

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// Cluster returns the name of the only cluster, empty if series have the label cluster.
func (s *Store) Cluster() string { return s.config.Cluster }

// URL returns the address of the store, without a password.
func (s *Store) URL() string {
	u, err := url.Parse(s.config.URL)
	if err != nil {
		return ""
	}
	return u.Redacted()
}

// Selector returns a selector of a metric in a cluster. Empty matchers are left out.
func (s *Store) Selector(metric, cluster string, matchers ...string) string {
	return metric + s.matchers(cluster, matchers...)
}

// Query evaluates an instant query.
func (s *Store) Query(ctx context.Context, expr string, at time.Time, add func(fold.Series)) error {
	return s.ask(ctx, expr, at, add)
}

// Raw returns the samples of a selector after one moment, until another.
func (s *Store) Raw(ctx context.Context, selector string, after, until time.Time) ([]fold.Series, error) {
	return s.raw(ctx, newDecoder(), selector, after, until)
}

// maxSteps is the number of steps in a range query. Stores accept 11,000.
const maxSteps = 10_000

// Hourly evaluates a query at every hour from a first to a last one.
func (s *Store) Hourly(ctx context.Context, expr string, first, last time.Time, add func(fold.Series)) error {
	ranges := *s
	at := *s.query
	at.Path = strings.TrimSuffix(at.Path, "query") + "query_range"
	ranges.query = &at
	seconds := func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
	for begin := first; !begin.After(last); begin = begin.Add(maxSteps * time.Hour) {
		end := begin.Add((maxSteps - 1) * time.Hour)
		if end.After(last) {
			end = last
		}
		form := url.Values{"query": {expr}, "start": {seconds(begin)}, "end": {seconds(end)}, "step": {"3600"}}
		if err := ranges.post(ctx, newDecoder(), form, add); err != nil {
			return err
		}
	}
	return nil
}

// Series returns the labels of the series of a selector that have samples in a time, or a little
// earlier. The store reads its index only.
func (s *Store) Series(ctx context.Context, selector string, from, until time.Time) ([]fold.Labels, error) {
	return s.SomeSeries(ctx, selector, from, until, 0)
}

// SomeSeries returns the labels of at most limit series, or of all if limit is 0. A store may ignore
// the limit.
func (s *Store) SomeSeries(ctx context.Context, selector string, from, until time.Time, limit int) (found []fold.Labels, err error) {
	at := *s.query
	at.Path = strings.TrimSuffix(at.Path, "query") + "series"
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	seconds := func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
	form := url.Values{"match[]": {selector}, "start": {seconds(from)}, "end": {seconds(until)}}
	if limit > 0 {
		form.Set("limit", strconv.Itoa(limit))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		return nil, fmt.Errorf("%s: HTTP status %s: %q", at.Redacted(), response.Status, text)
	}
	var body struct {
		Status    string
		Data      []map[string]string
		Warnings  []string
		IsPartial bool
	}
	switch err := json.NewDecoder(response.Body).Decode(&body); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", at.Redacted(), err)
	case limit > 0 && len(body.Data) >= limit: // Prometheus warns of the limit
	case len(body.Warnings) > 0 || body.IsPartial:
		return nil, fmt.Errorf("%s: %w: %s", at.Redacted(), ErrIncomplete, strings.Join(body.Warnings, "; "))
	}
	for _, labels := range body.Data {
		var all fold.Labels
		for name, value := range labels {
			all = append(all, fold.Label{Name: name, Value: value})
		}
		found = append(found, all)
	}
	return found, nil
}
