package serve

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/metric"
)

// These are the values of the label action.
const (
	connectionClosed  = "connection_closed"
	connectionRefused = "connection_refused"
	requestRefused    = "request_refused"
)

var actions = []string{connectionClosed, connectionRefused, requestRefused}

// Metric describes the metric that counts the effects of the server's limits.
var Metric = metric.Metric{
	Family: "Serving", Name: "gpuledger_http_overload_total", Type: prometheus.CounterValue,
	Labels: []string{"action"},
	Help:   "Connections that were closed or refused because of --web.max-connections, and requests that were refused because of --web.max-requests.",
}

// Label describes the label of [Metric].
var Label = metric.Label{
	Name: "action", Values: actions, Complete: true,
	Help: "An idle connection was closed to accept a new connection, a new connection was refused, or a request got status 503.",
}

// quietTime is the time without overload after which the next overload is logged.
const quietTime = 10 * time.Minute

type overload struct {
	*prometheus.CounterVec
	log *slog.Logger

	mu   sync.Mutex
	last map[string]time.Time
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

// add counts an action. It logs the action and the client address if the same action has not occurred for quietTime.
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
