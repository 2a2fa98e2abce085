package outbox

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/metric"
)

const flagURL = "--events.url"

var (
	eventCount = metric.Metric{
		Family: "Events to the archive", Name: "gpuledger_reconciler_archive_events_total", Type: prometheus.CounterValue, Flag: flagURL,
		Labels: []string{"result"},
		Help:   "Events sent to the archive, by result; a repeated event is counted again.",
	}
	failureCount = metric.Metric{
		Family: "Events to the archive", Name: "gpuledger_reconciler_archive_failures_total", Type: prometheus.CounterValue, Flag: flagURL,
		Help: "Failed requests to the archive; they are retried.",
	}
	queueBytes = metric.Metric{
		Family: "Events to the archive", Name: "gpuledger_reconciler_archive_queue_bytes", Type: prometheus.GaugeValue, Flag: flagURL, Unit: "bytes",
		Help: "Size of the events that wait to be sent to the archive.",
	}
)

const (
	delivered = "delivered"
	dropped   = "dropped"
	rejected  = "rejected"
)

// Catalogue returns every metric of this package.
func Catalogue() []metric.Metric { return []metric.Metric{eventCount, failureCount, queueBytes} }

// Labels returns every label of the catalogue's metrics.
func Labels() []metric.Label {
	return []metric.Label{{
		Name: "result", Help: "`dropped`: the queue was full. `rejected`: the archive reported an invalid request; the log contains the reason.",
		Values: []string{delivered, dropped, rejected}, Complete: true,
	}}
}

type counts struct {
	events   *prometheus.CounterVec
	failures prometheus.Counter
	queue    prometheus.Gauge
}

func newCounts() counts {
	c := counts{
		events:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: eventCount.Name, Help: eventCount.Help}, eventCount.Labels),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: failureCount.Name, Help: failureCount.Help}),
		queue:    prometheus.NewGauge(prometheus.GaugeOpts{Name: queueBytes.Name, Help: queueBytes.Help}),
	}
	for _, result := range Labels()[0].Values {
		c.events.WithLabelValues(result)
	}
	return c
}

// Describe implements [prometheus.Collector].
func (o *Outbox) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(o, ch) }

// Collect implements [prometheus.Collector].
func (o *Outbox) Collect(ch chan<- prometheus.Metric) {
	o.counts.events.Collect(ch)
	o.counts.failures.Collect(ch)
	o.counts.queue.Collect(ch)
}
