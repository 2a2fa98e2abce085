package serve

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/metric"
)

// The values of the metric's label.
const (
	connectionClosed  = "connection_closed"
	connectionRefused = "connection_refused"
	requestRefused    = "request_refused"
)

var actions = []string{connectionClosed, connectionRefused, requestRefused}

// Metric counts what the limits of the server do.
var Metric = metric.Metric{
	Family: "Serving", Name: "gpuledger_http_overload_total", Type: prometheus.CounterValue,
	Labels: []string{"action"},
	Help:   "Connections closed or refused, and requests refused, because --web.max-connections or --web.max-requests was reached.",
}

// Label is its label.
var Label = metric.Label{
	Name: "action", Values: actions, Complete: true,
	Help: "What happened: a connection that waited for its client was closed for a new one, a new connection was refused, a request got status 503.",
}

// quietTime without an overload ends it: the next one is logged again.
const quietTime = 10 * time.Minute

// overload counts what the limits do, and logs it when it begins.
type overload struct {
	*prometheus.CounterVec
	log *slog.Logger

	mu   sync.Mutex
	last map[string]time.Time // by action
}

func newOverload(log *slog.Logger) *overload {
	o := &overload{
		CounterVec: prometheus.NewCounterVec(prometheus.CounterOpts{Name: Metric.Name, Help: Metric.Help}, Metric.Labels),
		log:        log,
		last:       make(map[string]time.Time),
	}
	for _, action := range actions {
		o.WithLabelValues(action)
	}
	return o
}

// add counts an action that concerns a client address.
func (o *overload) add(action, address string) {
	o.WithLabelValues(action).Inc()
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if last, ok := o.last[action]; !ok || now.Sub(last) >= quietTime {
		o.log.Warn("too many clients: see --web.max-connections and --web.max-requests", "action", action, "address", address)
	}
	o.last[action] = now
}
