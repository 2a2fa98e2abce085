package archive

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/archive/events"
	"github.com/gpuledger/gpuledger/internal/archive/sinks"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/internal/metric"
	"github.com/gpuledger/gpuledger/internal/serve"
)

// These are the values of the label step.
const (
	stepRead = "read"
	stepFold = "fold"
	stepFile = "file"
)

// These are the values of the label result.
const (
	resultComplete   = "complete"
	resultIncomplete = "incomplete"
	resultFailed     = "failed"
)

const (
	familyHours = "Hours"
	familyWork  = "Sinks and the store"
)

var (
	filedMetric = metric.Metric{
		Family: familyHours, Name: "gpuledger_archive_hours_filed_total", Type: prometheus.CounterValue, Labels: []string{"sink"},
		Help: "Hours of a cluster that were filed in a sink, including revisions.",
	}
	behindMetric = metric.Metric{
		Family: familyHours, Name: "gpuledger_archive_hours_behind", Type: prometheus.GaugeValue, Labels: []string{"sink"},
		Help: "Number of hours, summed over all clusters, that have ended but are not filed in the sink yet. Absent while the replica waits for another replica.",
	}
	newestMetric = metric.Metric{
		Family: familyHours, Name: "gpuledger_archive_newest_hour_timestamp_seconds", Type: prometheus.GaugeValue, Labels: []string{"cluster", "sink"},
		Help: "End of the newest hour of a cluster that the sink is known to contain.",
	}
	refusedMetric = metric.Metric{
		Family: familyHours, Name: "gpuledger_archive_hours_refused", Type: prometheus.GaugeValue, Labels: []string{"cluster", "reason"},
		Help: "Hours that are refused now, because their samples may be incomplete.",
	}
	droppedMetric = metric.Metric{
		Family: familyHours, Name: "gpuledger_archive_scrapes_dropped_total", Type: prometheus.CounterValue, Labels: []string{"cluster"},
		Help: "Scrapes of GPUs that were dropped because of an impossible value. If an hour is read again, its scrapes are counted again.",
	}
	upMetric = metric.Metric{
		Family: familyWork, Name: "gpuledger_archive_sink_up", Type: prometheus.GaugeValue, Labels: []string{"sink"},
		Help: "1 if the last access to a sink succeeded, else 0. It is 0 on a replica that waits for a folder that another replica uses.",
	}
	partitionsMetric = metric.Metric{
		Family: familyWork, Name: "gpuledger_archive_partitions_end_timestamp_seconds", Type: prometheus.GaugeValue, Labels: []string{"sink"},
		Help: "End of the last consecutive month that has partitions in a database. Absent if the program can create partitions.",
	}
	requestsMetric = metric.Metric{
		Family: familyWork, Name: "gpuledger_archive_store_requests_total", Type: prometheus.CounterValue, Labels: []string{"result"},
		Help: "Queries to the store.",
	}
	secondsMetric = metric.Metric{
		Family: familyWork, Name: "gpuledger_archive_step_seconds_total", Type: prometheus.CounterValue, Unit: "seconds", Labels: []string{"step"},
		Help: "Time to file hours, by step.",
	}
)

// Catalogue returns every metric of gpuledger-archive.
func Catalogue() []metric.Metric {
	all := []metric.Metric{filedMetric, behindMetric, newestMetric, refusedMetric, droppedMetric, upMetric, partitionsMetric, requestsMetric, secondsMetric}
	return append(append(all, events.Catalogue()...), serve.Metric)
}

// Labels describes the labels of these metrics.
func Labels() []metric.Label {
	var names []string
	for _, k := range sinks.Kinds() {
		names = append(names, k.Name)
	}
	return append([]metric.Label{
		{Name: "cluster", Help: "Cluster of the hour, as in the tables."},
		{Name: "sink", Help: "Sink, by its kind; the second sink of a kind has the suffix -2.", Values: names},
		{Name: "reason", Help: "Reason for the refusal: see archive.md.", Values: reasons()},
		{Name: "result", Help: "complete, incomplete (a warning, or partial data), or failed.", Values: []string{resultComplete, resultIncomplete, resultFailed}, Complete: true},
		{Name: "step", Help: "Reading the store, folding the samples, filing the rows.", Values: []string{stepRead, stepFold, stepFile}, Complete: true},
	}, events.Labels()...)
}

type metrics struct {
	filed, dropped, requests, seconds *prometheus.CounterVec
	behind, newest, refused, up       *prometheus.GaugeVec
	partitions                        *prometheus.GaugeVec
}

func newMetrics() *metrics {
	counter := func(m metric.Metric) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
	}
	gauge := func(m metric.Metric) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.Labels)
	}
	m := &metrics{
		filed: counter(filedMetric), dropped: counter(droppedMetric), requests: counter(requestsMetric), seconds: counter(secondsMetric),
		behind: gauge(behindMetric), newest: gauge(newestMetric), refused: gauge(refusedMetric), up: gauge(upMetric),
		partitions: gauge(partitionsMetric),
	}
	for _, result := range []string{resultComplete, resultIncomplete, resultFailed} {
		m.requests.WithLabelValues(result)
	}
	for _, step := range []string{stepRead, stepFold, stepFile} {
		m.seconds.WithLabelValues(step)
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.filed, m.dropped, m.requests, m.seconds, m.behind, m.newest, m.refused, m.up, m.partitions}
}

// born creates the series of a sink with the value 0. It creates no series for the state of the sink, because the state
// is not yet known.
func (m *metrics) born(sink string) {
	m.filed.WithLabelValues(sink)
	m.behind.WithLabelValues(sink)
}

func (m *metrics) requested(err error) {
	switch {
	case err == nil:
		m.requests.WithLabelValues(resultComplete).Inc()
	case errors.Is(err, store.ErrIncomplete):
		m.requests.WithLabelValues(resultIncomplete).Inc()
	case !errors.Is(err, context.Canceled):
		m.requests.WithLabelValues(resultFailed).Inc()
	}
}

// spent returns the current time. The next step begins at this time.
func (m *metrics) spent(step string, began time.Time) time.Time {
	now := time.Now()
	m.seconds.WithLabelValues(step).Add(now.Sub(began).Seconds())
	return now
}
