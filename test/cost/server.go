package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/cli"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/serve"
)

type renderer string

const (
	ours      renderer = "gpuledger"
	healthy   renderer = "gpuledger with health"
	plain     renderer = "plain registry"
	constants renderer = "constant metrics"
	static    renderer = "static"
)

type usage struct {
	CPU         time.Duration
	Bytes       uint64 // number of allocated bytes
	Allocations uint64
}

func (u usage) less(before usage) usage {
	return usage{u.CPU - before.CPU, u.Bytes - before.Bytes, u.Allocations - before.Allocations}
}

func (u usage) by(n int) usage {
	return usage{u.CPU / time.Duration(n), u.Bytes / uint64(n), u.Allocations / uint64(n)}
}

func used() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		panic(err) // Getrusage fails only for an invalid argument
	}
	return usage{time.Duration(r.Utime.Nano() + r.Stime.Nano()), m.TotalAlloc, m.Mallocs}
}

// serveOne serves one page of a node until the process is killed. start creates its arguments. Each page has a separate
// process. Thus the cost of the page does not include the cost of the scrapers, and the heap does not contain other
// pages.
func serveOne(args []string) error {
	var n [3]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(args[1+i]); err != nil {
			return err
		}
	}
	as := renderer(args[0])
	if as == ours || as == healthy {
		cli.LimitFootprint(cli.ExporterGrowth)
	}
	handler := newHandler(as, size{n[0], n[1], n[2]})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	mux.HandleFunc("GET /usage", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(used()) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, l.Addr())
	return (&http.Server{Handler: mux, ReadHeaderTimeout: time.Second}).Serve(l)
}

// Every scrape uses the next snapshot, which contains the same series with other values, as after a tick.
func newHandler(as renderer, s size) http.Handler {
	var snapshots [4]*gpu.Snapshot
	for i := range snapshots {
		snapshots[i] = s.snapshot(i)
		if as == healthy {
			addHealth(snapshots[i], i)
		}
	}
	var scrapes atomic.Uint64
	c := collector.New(func() *gpu.Snapshot { return snapshots[scrapes.Add(1)%uint64(len(snapshots))] },
		collector.Options{Gauges: true, Health: as == healthy, Process: collector.ProcessAlways})
	registry := prometheus.NewRegistry()
	registry.MustRegister(versioncollector.NewCollector("gpuledger"), collectors.NewGoCollector())
	switch as {
	case plain:
		register(registry, c)
		return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
	case constants:
		registry.MustRegister(newConstants(c))
	case static:
		return serveBytes(serve.NewMetrics(registry, slog.New(slog.DiscardHandler)).Main(c))
	}
	metrics := serve.NewMetrics(registry, slog.New(slog.DiscardHandler))
	if as == constants {
		return metrics.Main()
	}
	return metrics.Main(c)
}

// constantMetrics creates the metrics at every scrape, but their descriptors and label values only once. It shares
// responses as gpuledger does.
type constantMetrics []constant

type constant struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	value  float64
	labels []string
}

func newConstants(c *collector.Collector) constantMetrics {
	families, done, _ := c.Gather()
	defer done()
	var all constantMetrics
	for _, f := range families {
		names, _ := labels(f.Metric[0])
		desc := prometheus.NewDesc(f.GetName(), f.GetHelp(), names, nil)
		for _, m := range f.Metric {
			_, values := labels(m)
			k := constant{desc, prometheus.GaugeValue, m.GetGauge().GetValue(), values}
			if m.Counter != nil {
				k.kind, k.value = prometheus.CounterValue, m.GetCounter().GetValue()
			}
			all = append(all, k)
		}
	}
	return all
}

func (all constantMetrics) Describe(ch chan<- *prometheus.Desc) {
	for i, k := range all {
		if i == 0 || all[i-1].desc != k.desc {
			ch <- k.desc
		}
	}
}

func (all constantMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, k := range all {
		ch <- prometheus.MustNewConstMetric(k.desc, k.kind, k.value, k.labels...)
	}
}

// register registers the same series in the usual way, as vectors of counters and gauges whose values are set once.
func register(registry *prometheus.Registry, c *collector.Collector) {
	families, done, _ := c.Gather()
	defer done()
	for _, f := range families {
		names, _ := labels(f.Metric[0])
		if f.GetType() == dto.MetricType_COUNTER {
			v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.GetName(), Help: f.GetHelp()}, names)
			for _, m := range f.Metric {
				_, values := labels(m)
				v.WithLabelValues(values...).Add(m.GetCounter().GetValue())
			}
			registry.MustRegister(v)
			continue
		}
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: f.GetName(), Help: f.GetHelp()}, names)
		for _, m := range f.Metric {
			_, values := labels(m)
			v.WithLabelValues(values...).Set(m.GetGauge().GetValue())
		}
		registry.MustRegister(v)
	}
}

func labels(m *dto.Metric) (names, values []string) {
	for _, l := range m.Label {
		names, values = append(names, l.GetName()), append(values, l.GetValue())
	}
	return names, values
}

// serveBytes compresses the response only once.
func serveBytes(handler http.Handler) http.Handler {
	answers := make(map[string]*httptest.ResponseRecorder)
	for _, encoding := range []string{"", "gzip"} {
		r, w := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody), httptest.NewRecorder()
		r.Header.Set("Accept", accept)
		r.Header.Set("Accept-Encoding", encoding)
		handler.ServeHTTP(w, r)
		answers[encoding] = w
	}
	return http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		from := answers[r.Header.Get("Accept-Encoding")]
		maps.Copy(to.Header(), from.Header())
		_, _ = to.Write(from.Body.Bytes())
	})
}
