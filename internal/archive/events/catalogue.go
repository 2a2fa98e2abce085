package events

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/metric"
)

const family = "Events"

var (
	eventsMetric = metric.Metric{
		Family: family, Name: "gpuledger_archive_events_total", Type: prometheus.CounterValue, Flag: "--events.receive", Labels: []string{"sink", "outcome"},
		Help: "Events by sink, repetitions included.",
	}
	queueMetric = metric.Metric{
		Family: family, Name: "gpuledger_archive_event_queue_bytes", Type: prometheus.GaugeValue, Flag: "--events.receive", Unit: "bytes", Labels: []string{"sink"},
		Help: "Size of the events that wait for a sink that fails.",
	}
	requestsMetric = metric.Metric{
		Family: family, Name: "gpuledger_archive_event_requests_total", Type: prometheus.CounterValue, Flag: "--events.receive", Labels: []string{"outcome"},
		Help: "Requests with events.",
	}
)

// The values of the label outcome.
const (
	outcomeFiled        = "filed"
	outcomeRefused      = "refused"
	outcomeFailed       = "failed"
	outcomeUnauthorized = "unauthorized"
	outcomeForbidden    = "forbidden"
	outcomeDropped      = "dropped"
)

// Catalogue returns every metric of this package.
func Catalogue() []metric.Metric { return []metric.Metric{eventsMetric, queueMetric, requestsMetric} }

// Labels returns every label of the catalogue's metrics.
func Labels() []metric.Label {
	return []metric.Label{{
		Name: "outcome", Help: "`refused`: the request is invalid. `unauthorized`: its token is missing or unknown. `forbidden`: its token belongs to another cluster. `failed`: no sink filed the events, and the sender retries. `dropped`: the queue of a sink was full.",
		Values: []string{outcomeFiled, outcomeRefused, outcomeUnauthorized, outcomeForbidden, outcomeFailed, outcomeDropped}, Complete: true,
	}}
}

// counts are the metrics of a receiver.
type counts struct {
	events   *prometheus.CounterVec
	queue    *prometheus.GaugeVec
	requests *prometheus.CounterVec
}

func newCounts() counts {
	c := counts{
		events:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: eventsMetric.Name, Help: eventsMetric.Help}, eventsMetric.Labels),
		queue:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: queueMetric.Name, Help: queueMetric.Help}, queueMetric.Labels),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: requestsMetric.Name, Help: requestsMetric.Help}, requestsMetric.Labels),
	}
	for _, outcome := range []string{outcomeFiled, outcomeRefused, outcomeUnauthorized, outcomeForbidden, outcomeFailed} {
		c.requests.WithLabelValues(outcome)
	}
	return c
}

// sinkCounts are the metrics of a sink.
type sinkCounts struct {
	filed, dropped prometheus.Counter
	queue          prometheus.Gauge
}

func (c *counts) sink(name string) sinkCounts {
	return sinkCounts{
		filed: c.events.WithLabelValues(name, outcomeFiled), dropped: c.events.WithLabelValues(name, outcomeDropped),
		queue: c.queue.WithLabelValues(name),
	}
}

// Describe implements [prometheus.Collector].
func (r *Receiver) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(r, ch) }

// Collect implements [prometheus.Collector].
func (r *Receiver) Collect(ch chan<- prometheus.Metric) {
	r.counts.events.Collect(ch)
	r.counts.queue.Collect(ch)
	r.counts.requests.Collect(ch)
}
