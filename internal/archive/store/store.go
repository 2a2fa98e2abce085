// Package store reads raw samples of the exporter's record page from a Prometheus-compatible query API. It rejects
// responses that may be incomplete.
package store

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/config"

	"github.com/gpuledger/gpuledger/internal/archive/address"
	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// These parameters make a store reject a query that it cannot answer completely.
var parameters = map[string]url.Values{
	"prometheus":      {},
	"mimir":           {},
	"thanos":          {"partial_response": {"false"}, "dedup": {"true"}, "max_source_resolution": {"0s"}},
	"victoriametrics": {"deny_partial_response": {"1"}, "nocache": {"1"}},
}

// Config contains the values of the flags.
type Config struct {
	URL, Type, HTTPConfig string
	// Cluster is the name of the only cluster in the store. It is empty if series have a label cluster.
	Cluster string
	Timeout time.Duration
	// MaxPower is the maximum power of a GPU, in watts. If a GPU seems to draw more power, its hour is refused. 0 means
	// the default.
	MaxPower int
	// Done is called after each query, with its error. It may be nil.
	Done func(err error)
	// Dial connects to the store. If it is nil, the store is reached over the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Register adds the flags with their defaults.
func (c *Config) Register(fs *flag.FlagSet) {
	fs.StringVar(&c.URL, "store.url", "http://127.0.0.1:9090", "base `URL` of the store's query API; parameters in the URL are sent with every query")
	fs.StringVar(&c.Type, "store.type", "prometheus", "`type` of the store: "+strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
	fs.StringVar(&c.HTTPConfig, "store.http.config.file", "", "`file` with TLS, authentication and headers for the store, in the format of promtool's --http.config.file")
	fs.StringVar(&c.Cluster, "cluster", "", "`name` of the cluster, for a store without the label cluster, such as a single Prometheus; series with another value of this label are refused")
	fs.IntVar(&c.MaxPower, "gpu.max-power", fold.DefaultMaxPower, "maximum power of a GPU in `watts`; if a board exceeds it in an hour, the archive refuses the energy and times of this board and hour; the limit is doubled for counters that may cover more than one GPU")
	fs.DurationVar(&c.Timeout, "store.timeout", 2*time.Minute, "`time` limit for a query")
}

// Store is a Prometheus-compatible store.
type Store struct {
	config Config
	base   *url.URL
	client *http.Client
}

const maxPower = 1_000_000

// New does not connect to the store.
func New(c Config) (*Store, error) {
	if parameters[c.Type] == nil {
		return nil, fmt.Errorf("--store.type=%s: must be one of %s", c.Type, strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
	}
	if c.MaxPower < 0 || c.MaxPower > maxPower {
		return nil, fmt.Errorf("--gpu.max-power=%d: must be a number of watts up to %d", c.MaxPower, maxPower)
	}
	base, err := address.Parse(c.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--store.url must be a URL such as http://127.0.0.1:9090: %w", err)
	case !address.IsHTTP(base):
		return nil, errors.New("--store.url must be a URL such as http://127.0.0.1:9090")
	}
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
	return &Store{config: c, base: base, client: client}, nil
}

// Clusters returns the clusters with boards in an hour or in the previous hour.
func (s *Store) Clusters(ctx context.Context, hour time.Time) (clusters []string, err error) {
	if cluster := s.config.Cluster; cluster != "" {
		if err := table.CheckCluster(cluster); err != nil {
			return nil, err
		}
	}
	err = s.ask(ctx, `group by (cluster) (last_over_time(`+boardEnergy+`[2h]))`, hour.Add(time.Hour), func(found fold.Series) {
		clusters = append(clusters, found.Labels.Get("cluster"))
	})
	if cluster := s.config.Cluster; cluster != "" && err == nil {
		return only(cluster, clusters)
	}
	if err == nil && slices.Contains(clusters, "") {
		return nil, errors.New(`series in the store have no label cluster: set the external label in Prometheus, or --cluster for a store of one cluster`)
	}
	if len(clusters) > maxClusters {
		return nil, fmt.Errorf("%w: %d clusters, at most %d are possible", ErrTooLarge, len(clusters), maxClusters)
	}
	slices.Sort(clusters)
	for _, cluster := range clusters {
		if err := table.CheckCluster(cluster); err != nil {
			return nil, err
		}
	}
	return clusters, err
}

// The result is the cluster that --cluster names. It is empty if there are no series. A series with the label of
// another cluster is an error, because the cluster would then be archived under two names.
func only(cluster string, labels []string) ([]string, error) {
	if len(labels) == 0 {
		return nil, nil
	}
	others := slices.DeleteFunc(labels, func(label string) bool { return label == "" || label == cluster })
	slices.Sort(others)
	switch {
	case len(others) == 0:
		return []string{cluster}, nil
	case len(others) > 3:
		others = append(others[:3], "...")
	}
	return nil, fmt.Errorf("series in the store have the label cluster=%q, which is not --cluster=%q: leave out --cluster; if hours are already filed as %[2]q, rename this cluster with gpuledger-archive rename-cluster",
		strings.Join(others, ", "), cluster)
}

// maxClusters and maxBoards are far above any real number. They limit the number of queries: each cluster and each
// shard needs several queries.
const maxClusters, maxBoards = 10_000, 10_000_000

const boardEnergy = "gpuledger_board_energy_joules_total"

// Boards returns the number of boards that a cluster had in an hour.
func (s *Store) Boards(ctx context.Context, cluster string, hour time.Time) (int, error) {
	query := "count(last_over_time(" + boardEnergy + s.matchers(cluster) + "[1h]))"
	n := 0.0
	err := s.ask(ctx, query, hour.Add(time.Hour), func(found fold.Series) {
		last, ok := found.Last()
		if n = last.Value; !ok {
			n = math.NaN()
		}
	})
	switch {
	case err != nil:
		return 0, err
	case n > maxBoards:
		return 0, fmt.Errorf("%w: %s returns %g boards, at most %d are possible", ErrTooLarge, query, n, maxBoards)
	case n != math.Trunc(n) || n < 0: // the number may also be NaN
		return 0, fmt.Errorf("%w: %s returns %g, which is not a number of boards", ErrIncomplete, query, n)
	}
	return int(n), nil
}

// Nodes returns the nodes of a cluster with samples of boards in an hour.
func (s *Store) Nodes(ctx context.Context, cluster string, hour time.Time) ([]string, error) {
	return s.nodes(ctx, boardEnergy+s.matchers(cluster), hour)
}

// Targets returns the nodes of a cluster that were scraped in an hour. It includes nodes whose scrapes all failed.
func (s *Store) Targets(ctx context.Context, cluster string, hour time.Time) ([]string, error) {
	return s.nodes(ctx, "up"+s.matchers(cluster, recordJob), hour)
}

const recordJob = `job="gpuledger-record"`

func (s *Store) nodes(ctx context.Context, selector string, hour time.Time) (nodes []string, err error) {
	// In Prometheus 2, the window includes a sample at its start. Such a sample would belong to the previous hour.
	err = s.ask(ctx, "group by (node) (last_over_time("+selector+"[3599999ms]))", hour.Add(time.Hour), func(found fold.Series) {
		nodes = append(nodes, found.Labels.Get("node"))
	})
	return nodes, err
}

// Owners returns the series that name the owners of energy in an hour, such as pods.
func (s *Store) Owners(ctx context.Context, cluster string, hour time.Time) (owners []fold.Series, err error) {
	r := s.reader()
	for _, metric := range fold.Owners() {
		err := r.ask(ctx, LastOf(metric, metric+s.matchers(cluster)), hour.Add(time.Hour), func(found fold.Series) {
			if found.Samples = LastSamples(metric, found.Samples); len(found.Samples) > 0 {
				owners = append(owners, named(found, metric))
			}
		})
		if err != nil {
			return nil, fmt.Errorf("owners by %s: %w", metric, err)
		}
	}
	return owners, nil
}

// maxPods limits the pods that are searched for in one hour.
const maxPods = 10_000

// Pods returns the series of kube_pod_info for the given pods in an hour.
func (s *Store) Pods(ctx context.Context, cluster string, hour time.Time, pods []table.PodID) (found []fold.Series, err error) {
	const metric = "kube_pod_info"
	var uids []string
	for _, p := range pods[:min(len(pods), maxPods)] {
		uids = append(uids, p.UID)
	}
	for _, matcher := range matching("uid", uids) {
		text := "last_over_time(" + s.Selector(metric, cluster, matcher) + "[1h])"
		err := s.ask(ctx, text, hour.Add(time.Hour), func(one fold.Series) { found = append(found, named(one, metric)) })
		if err != nil {
			return nil, fmt.Errorf("pods by %s: %w", metric, err)
		}
	}
	return found, nil
}

// named adds the label __name__. Some stores do not return it.
func named(s fold.Series, metric string) fold.Series {
	s.Labels = slices.DeleteFunc(s.Labels, func(l fold.Label) bool { return l.Name == "__name__" })
	s.Labels = append(s.Labels, fold.Label{Name: "__name__", Value: metric})
	return s
}

// SampledSince reports whether a cluster has samples in the week after a time. If it has, all earlier samples have
// arrived, because a store receives samples in order.
func (s *Store) SampledSince(ctx context.Context, cluster string, after, now time.Time) (found bool, err error) {
	for _, length := range []time.Duration{10 * time.Minute, 24 * time.Hour, 7 * 24 * time.Hour} { // a query with a longer window takes much more time
		until := after.Add(length)
		if until.After(now) {
			until = now
		}
		window := strconv.FormatInt(until.Sub(after).Milliseconds()-1, 10) + "ms"
		// The first selector matches even if all nodes of the cluster are down.
		for _, selector := range []string{"up" + s.matchers(cluster, recordJob), boardEnergy + s.matchers(cluster)} {
			err = s.ask(ctx, "group(last_over_time("+selector+"["+window+"]))", until, func(fold.Series) { found = true })
			if err != nil || found {
				return found, err
			}
		}
	}
	return false, nil
}

func (s *Store) matchers(cluster string, more ...string) string {
	if s.config.Cluster == "" {
		more = append(more, "cluster="+strconv.Quote(cluster))
	}
	more = slices.DeleteFunc(more, func(m string) bool { return m == "" })
	return "{" + strings.Join(more, ",") + "}"
}

func (s *Store) ask(ctx context.Context, expr string, at time.Time, add func(fold.Series)) error {
	return s.reader().ask(ctx, expr, at, add)
}

// The timeout includes the body of the response. Errors contain no secrets.
func (s *Store) post(ctx context.Context, path string, form url.Values, decode func(body io.Reader) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	if s.config.Done != nil {
		defer func() { s.config.Done(err) }()
	}
	at := s.base.JoinPath("api/v1", path)
	q := at.Query()
	maps.Copy(q, parameters[s.config.Type])
	at.RawQuery = q.Encode()
	if err := s.send(ctx, at, form, decode); err != nil {
		return fmt.Errorf("%s: %w", address.Public(at), address.Hide(s.base, err))
	}
	return nil
}
