// Package store reads raw samples of the record from a Prometheus-compatible query API. It needs
// instant queries only, and refuses answers that may be incomplete.
package store

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/config"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// parameters are the query parameters with which a store rejects a query that it cannot answer
// completely.
var parameters = map[string]url.Values{
	"prometheus":      {},
	"mimir":           {},
	"thanos":          {"partial_response": {"false"}, "dedup": {"true"}, "max_source_resolution": {"0s"}},
	"victoriametrics": {"deny_partial_response": {"1"}, "nocache": {"1"}},
}

// Config is the configuration from the flags.
type Config struct {
	URL, Type, HTTPConfig string
	// Cluster is the name of the only cluster, empty if series have the label cluster.
	Cluster string
	Timeout time.Duration
	// Done is called with the error of each query after its end, unless it is nil.
	Done func(err error)
	// Dial connects to the store; nil uses the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Register adds the flags with their defaults.
func (c *Config) Register(fs *flag.FlagSet) {
	fs.StringVar(&c.URL, "store.url", "http://127.0.0.1:9090", "base `URL` of the store's query API; parameters in it are sent with every query")
	fs.StringVar(&c.Type, "store.type", "prometheus", "`type` of the store: "+strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
	fs.StringVar(&c.HTTPConfig, "store.http.config.file", "", "`file` with TLS, authentication and headers for the store, in the format of promtool's --http.config.file")
	fs.StringVar(&c.Cluster, "cluster", "", "`name` of the cluster, for a store whose series have no label cluster, such as a lone Prometheus")
	fs.DurationVar(&c.Timeout, "store.timeout", 2*time.Minute, "`time` limit of a query")
}

// Store is a Prometheus-compatible store.
type Store struct {
	config Config
	query  *url.URL
	client *http.Client
}

// New returns a store. It does not connect.
func New(c Config) (*Store, error) {
	preset, ok := parameters[c.Type]
	if !ok {
		return nil, fmt.Errorf("--store.type=%s: must be one of %s", c.Type, strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
	}
	base, err := url.Parse(c.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("--store.url=%s: must be a URL such as http://127.0.0.1:9090", c.URL)
	}
	q := base.Query()
	maps.Copy(q, preset)
	at := base.JoinPath("api/v1/query")
	at.RawQuery = q.Encode()
	settings := &config.HTTPClientConfig{FollowRedirects: true}
	if c.HTTPConfig != "" {
		if settings, _, err = config.LoadHTTPConfigFile(c.HTTPConfig); err != nil {
			return nil, fmt.Errorf("--store.http.config.file=%s: %w", c.HTTPConfig, err)
		}
	}
	var options []config.HTTPClientOption
	if c.Dial != nil {
		options = append(options, config.WithDialContextFunc(c.Dial))
	}
	client, err := config.NewClientFromConfig(*settings, "gpuledger-archive", options...)
	if err != nil {
		return nil, fmt.Errorf("--store.http.config.file=%s: %w", c.HTTPConfig, err)
	}
	return &Store{config: c, query: at, client: client}, nil
}

// Record is the record of a cluster in an hour, with the data that shows whether it is complete.
type Record struct {
	fold.Input
	// Up are the samples of up{job="gpuledger-record"} in the hour.
	Up []fold.Series
	// Before are the nodes with samples of a board in the hour before.
	Before []string
}

// Clusters returns the clusters that have boards in an hour.
func (s *Store) Clusters(ctx context.Context, hour time.Time) (clusters []string, err error) {
	if s.config.Cluster != "" {
		return []string{s.config.Cluster}, nil
	}
	err = s.ask(ctx, `group by (cluster) (last_over_time(`+boardEnergy+`[1h]))`, hour.Add(time.Hour), func(found fold.Series) {
		clusters = append(clusters, found.Labels["cluster"])
	})
	if err == nil && slices.Contains(clusters, "") {
		return nil, errors.New(`series in the store have no label cluster: set the external label in Prometheus, or --cluster for a store of one cluster`)
	}
	slices.Sort(clusters)
	return clusters, err
}

const boardEnergy = "gpuledger_board_energy_joules_total"

// Closings are the last samples of each series in an hour.
type Closings struct {
	hour   time.Time
	series []fold.Series
}

// Closings returns the last samples of the record, from which Read takes the opening values of the
// next hour.
func (r *Record) Closings() *Closings {
	c := &Closings{hour: r.Start}
	for _, s := range r.Series {
		if slices.Contains(fold.Opened(), s.Labels["__name__"]) {
			c.series = append(c.series, fold.Series{Labels: s.Labels, Samples: []fold.Sample{s.Samples[len(s.Samples)-1]}})
		}
	}
	return c
}

// Read reads the record of a cluster in an hour. With the closing values of the hour before, it
// requests opening values only of accounts that had no sample in that hour; before may be nil.
func (s *Store) Read(ctx context.Context, cluster string, hour time.Time, before *Closings) (*Record, error) {
	r := &Record{Input: fold.Input{Cluster: cluster, Start: hour}}
	for _, metric := range fold.Metrics() {
		within, err := s.raw(ctx, metric+s.matchers(cluster), hour, hour.Add(time.Hour))
		if err != nil {
			return nil, fmt.Errorf("samples of %s: %w", metric, err)
		}
		r.Series = append(r.Series, within...)
	}
	if before == nil || !before.hour.Add(time.Hour).Equal(hour) {
		before = nil
	} else {
		r.Openings = before.series
	}
	for metric, uuids := range unopened(r, before) {
		openings, err := s.openings(ctx, metric, cluster, hour, uuids)
		if err != nil {
			return nil, fmt.Errorf("opening values of %s: %w", metric, err)
		}
		r.Openings = append(slices.DeleteFunc(slices.Clone(r.Openings), func(o fold.Series) bool {
			return o.Labels["__name__"] == metric && slices.Contains(uuids, o.Labels["UUID"])
		}), openings...)
	}
	for _, metric := range fold.Owners() {
		err := s.ask(ctx, "last_over_time("+metric+s.matchers(cluster)+"[1h])", hour.Add(time.Hour), func(found fold.Series) {
			found.Labels["__name__"] = metric // not every store keeps it
			r.Owners = append(r.Owners, found)
		})
		if err != nil {
			return nil, fmt.Errorf("owners by %s: %w", metric, err)
		}
	}
	var err error
	if r.Up, err = s.raw(ctx, "up"+s.matchers(cluster, `job="gpuledger-record"`), hour, hour.Add(time.Hour)); err != nil {
		return nil, fmt.Errorf("samples of up: %w", err)
	}
	err = s.ask(ctx, `group by (node) (last_over_time(`+boardEnergy+s.matchers(cluster)+`[1h]))`, hour, func(found fold.Series) {
		r.Before = append(r.Before, found.Labels["node"])
	})
	return r, err
}

// unopened returns the metrics whose opening values are missing: of all GPUs if before is nil, else
// of those with accounts that had no sample in the hour before.
func unopened(r *Record, before *Closings) map[string][]string {
	missing := make(map[string][]string)
	if before == nil {
		for _, metric := range fold.Opened() {
			missing[metric] = nil
		}
		return missing
	}
	opened := make(map[string]bool)
	for _, s := range before.series {
		opened[account(s.Labels)] = true
	}
	for _, s := range r.Series {
		metric, uuid := s.Labels["__name__"], s.Labels["UUID"]
		if slices.Contains(fold.Opened(), metric) && !opened[account(s.Labels)] && !slices.Contains(missing[metric], uuid) {
			missing[metric] = append(missing[metric], uuid)
		}
	}
	return missing
}

// account identifies the account of a series: all labels except serial numbers, which may become
// known later.
func account(labels map[string]string) string {
	labels = maps.Clone(labels)
	maps.DeleteFunc(labels, func(name, _ string) bool { return name == "serial" || name == "chassis_serial" })
	return fmt.Sprint(labels)
}

// SampledSince reports whether a cluster has samples in the day after a moment. Stores receive
// samples in the order of time, so all samples until then have arrived.
func (s *Store) SampledSince(ctx context.Context, cluster string, after, now time.Time) (found bool, err error) {
	until := after.Add(24 * time.Hour)
	if until.After(now) {
		until = now
	}
	window := strconv.FormatInt(until.Sub(after).Milliseconds()-1, 10) + "ms"
	// The second selector finds a cluster in which all nodes are down.
	for _, selector := range []string{boardEnergy + s.matchers(cluster), "up" + s.matchers(cluster, `job="gpuledger-record"`)} {
		err = s.ask(ctx, "group(last_over_time("+selector+"["+window+"]))", until, func(fold.Series) { found = true })
		if err != nil || found {
			return found, err
		}
	}
	return false, nil
}

// openings returns the last samples of a metric at or before a moment, of the given GPUs or,
// without any, of all. The query returns values without their times, so they get the time of the
// moment. If an account has several series, their samples are read with their times.
func (s *Store) openings(ctx context.Context, metric, cluster string, at time.Time, uuids []string) (openings []fold.Series, err error) {
	var of []string
	if len(uuids) > 0 {
		quoted := make([]string, len(uuids))
		for i, uuid := range uuids {
			quoted[i] = regexp.QuoteMeta(uuid)
		}
		of = append(of, "UUID=~"+strconv.Quote(strings.Join(quoted, "|")))
	}
	seen, twice := make(map[string]bool), make(map[string]bool)
	err = s.ask(ctx, `last_over_time(`+metric+s.matchers(cluster, of...)+`[1d])`, at, func(o fold.Series) {
		key := account(o.Labels)
		if seen[key] {
			twice[o.Labels["UUID"]] = true
		}
		seen[key] = true
		openings = append(openings, o)
	})
	if err != nil {
		return nil, err
	}
	for uuid := range twice {
		raw, err := s.raw(ctx, metric+s.matchers(cluster, "UUID="+strconv.Quote(uuid)), at.Add(-fold.Lookback), at)
		if err != nil {
			return nil, err
		}
		openings = append(slices.DeleteFunc(openings, func(o fold.Series) bool { return o.Labels["UUID"] == uuid }), raw...)
	}
	return openings, nil
}

// raw returns the samples of a selector after one moment, until another.
func (s *Store) raw(ctx context.Context, selector string, after, until time.Time) (found []fold.Series, err error) {
	window := strconv.FormatInt(int64(until.Sub(after).Seconds()), 10) + "s"
	from, to := after.UnixMilli(), until.UnixMilli()
	err = s.ask(ctx, selector+"["+window+"]", until, func(r fold.Series) {
		// Prometheus 2 includes a sample at the beginning of the window.
		r.Samples = slices.DeleteFunc(r.Samples, func(x fold.Sample) bool { return x.Time <= from || x.Time > to })
		if len(r.Samples) > 0 {
			found = append(found, r)
		}
	})
	return found, err
}

// matchers returns the matchers of a selector for a cluster.
func (s *Store) matchers(cluster string, more ...string) string {
	if s.config.Cluster == "" {
		more = append(more, "cluster="+strconv.Quote(cluster))
	}
	return "{" + strings.Join(more, ",") + "}"
}

// ask evaluates an instant query.
func (s *Store) ask(ctx context.Context, expr string, at time.Time, add func(fold.Series)) (err error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	if s.config.Done != nil {
		defer func() { s.config.Done(err) }()
	}
	form := url.Values{"query": {expr}, "time": {strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.query.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		return fmt.Errorf("%s: HTTP status %s: %q", s.query.Redacted(), response.Status, text)
	}
	if err := decode(response.Body, add); err != nil {
		return fmt.Errorf("%s: %w", s.query.Redacted(), err)
	}
	return nil
}
