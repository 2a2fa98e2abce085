package archive

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/permanent"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/store"
)

// refusalReason is a value of the label reason.
type refusalReason struct {
	name string
	err  error // error to match; nil matches any error
}

var refusalReasons = []refusalReason{
	{"lagging", errLagging},
	{"downsampled", errDownsampled},
	{"silent_nodes", errSilent},
	{"replicas", fold.ErrReplicas},
	{"implausible", fold.ErrImplausible},
	{"overcharged", fold.ErrOvercharged},
	{"incomplete", store.ErrIncomplete},
	{"two_clusters", errTwice},
	{"rejected", permanent.Err},
	{"too_large", store.ErrTooLarge},
	{"other", nil},
}

func reason(err error) string {
	i := slices.IndexFunc(refusalReasons, func(r refusalReason) bool { return r.err == nil || errors.Is(err, r.err) })
	return refusalReasons[i].name
}

func reasons() (names []string) {
	for _, r := range refusalReasons {
		names = append(names, r.name)
	}
	return names
}

type refusedHour struct {
	cluster string
	hour    time.Time
	sink    string
}

// refusals contains the hours that are refused at present. If an hour is refused for the same reason again, it is not
// logged again.
type refusals struct {
	gauge *prometheus.GaugeVec
	log   *slog.Logger

	mu     sync.Mutex
	hours  map[refusedHour]string // reason for each refused hour
	outage bool                   // set while the store fails
}

func newRefusals(gauge *prometheus.GaugeVec, log *slog.Logger) *refusals {
	return &refusals{gauge: gauge, log: log, hours: make(map[refusedHour]string)}
}

// newest is the start of the cluster's newest archived hour. It is zero if it is unknown.
func (r *refusals) add(key refusedHour, newest time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key.hour = key.hour.UTC()
	why, known := reason(err), false
	for other, its := range r.hours {
		known = known || its == why && other.cluster == key.cluster && other.hour.Equal(key.hour)
	}
	r.hours[key] = why
	r.count(key.cluster)
	if known {
		return
	}
	if refusal := new(refusal); errors.As(err, &refusal) && refusal.acceptable {
		err = fmt.Errorf("%w; if the nodes were removed or down, run %s with the flags of this program", err, r.command(key, newest))
	}
	r.log.Warn("hour refused", "cluster", key.cluster, "hour", key.hour, "err", err)
}

// command returns the shell command that accepts a refused hour. The command also accepts the refused or missing hours
// before this hour.
func (r *refusals) command(last refusedHour, newest time.Time) string {
	first := last.hour
	if next := newest.Add(time.Hour); next.Before(first) && first.Sub(next) <= maxAbsence {
		first = next
	}
	for r.hours[refusedHour{last.cluster, first.Add(-time.Hour), last.sink}] != "" {
		first = first.Add(-time.Hour)
	}
	stamp := func(at time.Time) string { return at.Format("2006-01-02T15") }
	return fmt.Sprintf("gpuledger-archive accept %s --from=%s --to=%s --reason=REASON",
		quoted(last.cluster), stamp(first), stamp(last.hour.Add(time.Hour)))
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// Without a cluster, remove deletes the hour for all clusters.
func (r *refusals) remove(of refusedHour) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.hours {
		if key.sink == of.sink && key.hour.Equal(of.hour) && (of.cluster == "" || key.cluster == of.cluster) {
			delete(r.hours, key)
			r.count(key.cluster)
		}
	}
}

func (r *refusals) born(cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(cluster)
}

// answer lists the hours that are refused at present. Each row has the command that accepts the hour. flags are added
// to the command. locked is a notice about the command, or empty.
func (r *refusals) answer(flags, locked string) print.Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := print.Answer{Columns: []print.Column{{Name: "sink", Title: "SINK"}, {Name: "cluster", Title: "CLUSTER"}, {Name: "hour", Title: "HOUR", Kind: print.Time}, {Name: "reason", Title: "REASON"}, {Name: "command", Title: "COMMAND"}}}
	keys := slices.SortedFunc(maps.Keys(r.hours), func(x, y refusedHour) int {
		return cmp.Or(cmp.Compare(x.cluster, y.cluster), x.hour.Compare(y.hour), cmp.Compare(x.sink, y.sink))
	})
	for _, key := range keys {
		command := ""
		if slices.Contains(accepted, r.hours[key]) {
			command = strings.TrimSpace(r.command(key, time.Time{}) + " " + flags)
		}
		a.Rows = append(a.Rows, []any{key.sink, key.cluster, key.hour, r.hours[key], command})
	}
	if locked != "" && slices.ContainsFunc(a.Rows, func(row []any) bool { return row[len(row)-1] != "" }) {
		a.Notices = append(a.Notices, locked)
	}
	return a
}

// accepted contains the reasons that an operator can override with the command accept.
var accepted = []string{"lagging", "silent_nodes"}

// If several sinks refuse an hour for the same reason, the metric counts the hour once.
func (r *refusals) count(cluster string) {
	hours := make(map[string]map[int64]bool)
	for key, why := range r.hours {
		if key.cluster != cluster {
			continue
		}
		if hours[why] == nil {
			hours[why] = make(map[int64]bool)
		}
		hours[why][key.hour.Unix()] = true
	}
	for _, why := range reasons() {
		r.gauge.WithLabelValues(cluster, why).Set(float64(len(hours[why])))
	}
}

func (r *refusals) store(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil && !r.outage:
		r.log.Error("store failed", "err", err)
	case err == nil && r.outage:
		r.log.Info("store works again")
	}
	r.outage = err != nil
}
