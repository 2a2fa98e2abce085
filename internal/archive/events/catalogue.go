package events

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/metric"
)

const family = "Events"

var (
	eventsMetric = metric.Metric{
		Family: family, Name: "gpuledger_archive_events_total", Type: prometheus.CounterValue, Flag: "--events.receive",
		Help: "Events that were filed in all sinks, repetitions included.",
	}
	requestsMetric = metric.Metric{
		Family: family, Name: "gpuledger_archive_event_requests_total", Type: prometheus.CounterValue, Flag: "--events.receive", Labels: []string{"outcome"},
		Help: "Requests with events.",
	}
)

// The values of the label outcome.
const (
	resultFiled   = "filed"
	resultRefused = "refused"
	resultFailed  = "failed"
)

// Catalogue returns every metric of this package.
func Catalogue() []metric.Metric { return []metric.Metric{eventsMetric, requestsMetric} }

// Labels returns every label of the catalogue's metrics.
func Labels() []metric.Label {
	return []metric.Label{{
		Name: "outcome", Help: "`refused`: the request is invalid or not authorized. `failed`: a sink failed, and the sender retries.",
		Values: []string{resultFiled, resultRefused, resultFailed}, Complete: true,
	}}
}

// counts are the metrics of a receiver.
type counts struct {
	events   prometheus.Counter
	requests *prometheus.CounterVec
}

func newCounts() counts {
	c := counts{
		events:   prometheus.NewCounter(prometheus.CounterOpts{Name: eventsMetric.Name, Help: eventsMetric.Help}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: requestsMetric.Name, Help: requestsMetric.Help}, requestsMetric.Labels),
	}
	for _, result := range Labels()[0].Values {
		c.requests.WithLabelValues(result)
	}
	return c
}

// filed counts a request whose events are filed.
func (c *counts) filed(events int) {
	c.events.Add(float64(events))
	c.requests.WithLabelValues(resultFiled).Inc()
}

// Describe implements [prometheus.Collector].
func (r *Receiver) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(r, ch) }

// Collect implements [prometheus.Collector].
func (r *Receiver) Collect(ch chan<- prometheus.Metric) {
	r.counts.events.Collect(ch)
	r.counts.requests.Collect(ch)
}
