package injector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/metric"
	"github.com/gpuledger/gpuledger/internal/sidecar"
)

const family = "Admission webhook"

var (
	requestCount = metric.Metric{
		Family: family, Name: "gpuledger_reconciler_webhook_requests_total", Type: prometheus.CounterValue, Flag: flagAddress,
		Labels: []string{"result"},
		Help:   "Requests to the admission webhook, by result.",
	}
	expiry = metric.Metric{
		Family: family, Name: "gpuledger_reconciler_webhook_certificate_expiry_timestamp_seconds", Type: prometheus.GaugeValue, Flag: flagAddress, Unit: "seconds",
		Help: "Time at which the webhook's certificate expires. Absent without a certificate.",
	}
)

// These are values of the label result. The other values are the reasons that [sidecar.Parameters.Refuse] returns.
const (
	injected            = "injected"
	noParameters        = "no_parameters"
	invalidRequest      = "invalid_request"
	certificateRejected = "certificate_rejected"
)

var results = []string{
	injected, noParameters, string(sidecar.NoImage), string(sidecar.InvalidSecretName), string(sidecar.NodeNotSelected), invalidRequest, certificateRejected,
}

// Catalogue returns every metric of this package.
func Catalogue() []metric.Metric { return []metric.Metric{requestCount, expiry} }

// Labels returns every label of the catalogue's metrics.
func Labels() []metric.Label {
	return []metric.Label{{
		Name: "result", Values: results, Complete: true,
		Help: "`injected`: the pod gets the container. `certificate_rejected`: the API server does not trust the webhook's certificate. " +
			"Otherwise the reason why the pod does not get the container.",
	}}
}

type counts struct {
	requests *prometheus.CounterVec
	expiry   *prometheus.Desc
}

func newCounts() counts {
	c := counts{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: requestCount.Name, Help: requestCount.Help}, requestCount.Labels),
		expiry:   prometheus.NewDesc(expiry.Name, expiry.Help, nil, nil),
	}
	for _, result := range results {
		c.requests.WithLabelValues(result)
	}
	return c
}

// Describe implements [prometheus.Collector].
func (i *Injector) Describe(ch chan<- *prometheus.Desc) {
	i.counts.requests.Describe(ch)
	ch <- i.counts.expiry
}

// Collect implements [prometheus.Collector].
func (i *Injector) Collect(ch chan<- prometheus.Metric) {
	i.counts.requests.Collect(ch)
	if at := i.certificate.Expiry(); !at.IsZero() {
		ch <- expiry.Constant(i.counts.expiry, float64(at.Unix()))
	}
}
