package events

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/metric"
)

const family = "Events"

var (
	eventsMetric = metric.Metric{
		Family: family, Name: "gpuledger_archive_events_total", Type: prometheus.CounterValue, Flag: "--events.receive", Labels: []string{"sink", "outcome"},
		Help: "Events by sink, including repeated events.",
	}
	queueMetric = metric.Metric{
		Family: family, Name: "gpuledger_archive_event_queue_bytes", Type: prometheus.GaugeValue, Flag: "--events.receive", Unit: "bytes", Labels: []string{"sink"},
		Help: "Size of the events that wait for a failing sink.",
	}
	ageMetric = metric.Metric{
		Family: family, Name: "gpuledger_archive_event_queue_age_seconds", Type: prometheus.GaugeValue, Flag: "--events.receive", Unit: "seconds", Labels: []string{"sink"},
		Help: "Age of the oldest event that waits for a sink, 0 if no event waits.",
	}
	requestsMetric = metric.Metric{
		Family: family, Name: "gpuledger_archive_event_requests_total", Type: prometheus.CounterValue, Flag: "--events.receive", Labels: []string{"outcome"},
		Help: "Requests with events.",
	}
)

// These are the values of the label outcome.
const (
	outcomeFiled        = "filed"
	outcomeRefused      = "refused"
	outcomeFailed       = "failed"
	outcomeUnauthorized = "unauthorized"
	outcomeForbidden    = "forbidden"
	outcomeRejected     = "rejected"
	outcomeDropped      = "dropped"
)

// Catalogue returns every metric of this package.
func Catalogue() []metric.Metric {
	return []metric.Metric{eventsMetric, queueMetric, ageMetric, requestsMetric}
}

// Labels returns every label of these metrics.
func Labels() []metric.Label {
	return []metric.Label{{
		Name: "outcome", Help: "`refused`: the request is invalid. `unauthorized`: the token is missing or unknown. `forbidden`: the token belongs to another cluster. `failed`: no sink filed the events, and the sender retries. `rejected`: the sink rejected the event, or the archive stopped before a sink accepted it. The event is in the dead-letter file. `dropped`: the queue of a sink was full, or the event could not be written to the dead-letter file.",
		Values: []string{outcomeFiled, outcomeRefused, outcomeUnauthorized, outcomeForbidden, outcomeFailed, outcomeRejected, outcomeDropped}, Complete: true,
	}}
}

type counts struct {
	events   *prometheus.CounterVec
	queue    *prometheus.GaugeVec
	age      *prometheus.GaugeVec
	requests *prometheus.CounterVec
}

func newCounts() counts {
	c := counts{
		events:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: eventsMetric.Name, Help: eventsMetric.Help}, eventsMetric.Labels),
		queue:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: queueMetric.Name, Help: queueMetric.Help}, queueMetric.Labels),
		age:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: ageMetric.Name, Help: ageMetric.Help}, ageMetric.Labels),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: requestsMetric.Name, Help: requestsMetric.Help}, requestsMetric.Labels),
	}
	for _, outcome := range []string{outcomeFiled, outcomeRefused, outcomeUnauthorized, outcomeForbidden, outcomeFailed} {
		c.requests.WithLabelValues(outcome)
	}
	return c
}

type sinkCounts struct {
	filed, rejected, dropped prometheus.Counter
	queue                    prometheus.Gauge
}

func (c *counts) sink(name string) sinkCounts {
	return sinkCounts{
		filed: c.events.WithLabelValues(name, outcomeFiled), rejected: c.events.WithLabelValues(name, outcomeRejected), dropped: c.events.WithLabelValues(name, outcomeDropped),
		queue: c.queue.WithLabelValues(name),
	}
}

// Describe implements [prometheus.Collector].
func (r *Receiver) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(r, ch) }

// Collect implements [prometheus.Collector].
func (r *Receiver) Collect(ch chan<- prometheus.Metric) {
	r.counts.events.Collect(ch)
	r.counts.queue.Collect(ch)
	for _, o := range r.outlets {
		r.counts.age.WithLabelValues(o.Name).Set(o.age().Seconds())
	}
	r.counts.age.Collect(ch)
	r.counts.requests.Collect(ch)
}
