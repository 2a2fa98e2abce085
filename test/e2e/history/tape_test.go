//go:build e2e

package history_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/fleet"
)

// leg describes one boot of a node, with its first and last page in real time.
type leg struct {
	node        fleet.Node
	first, last exposition.Page
	from, to    int // first and last minute in slow motion
}

// tape contains a history in slow motion: a second becomes an hour, and counters grow evenly. Therefore the history can
// cover days, and the correct result of each query is known.
type tape struct {
	began time.Time // time of minute 0
	lines map[string]*line
}

type line struct {
	name, cluster string
	labels        map[string]string
	minutes       []int
	values        []float64
}

var families = []string{
	"gpuledger_placement_info", "gpuledger_board_energy_joules_total",
	"gpuledger_allocation_energy_joules_total", "gpuledger_allocation_seconds_total", "gpuledger_allocation_gpu_seconds_total",
	"gpuledger_board_created_timestamp_seconds", "gpuledger_allocation_created_timestamp_seconds",
	"gpuledger_allocation_idle_energy_joules_total", "gpuledger_allocation_active_seconds_total",
}

// play adds a boot to the history. A series that is missing from the last page keeps its first value and ends in the
// middle of the boot.
func (p *tape) play(t *testing.T, l *leg) {
	t.Helper()
	sc, err := l.node.Simulated()
	check(t, err)
	for _, name := range families {
		for key, m := range index(name, l.first) {
			end, last := index(name, l.last)[key], l.to
			if end == nil {
				end, last = m, (l.from+l.to)/2
			}
			labels := exposition.Labels(m)
			labels["instance"], labels["job"] = sc.Node, "gpuledger-record"
			s := p.line(name, l.node.Cluster, labels)
			from, to := exposition.Value(m), exposition.Value(end)
			if strings.HasSuffix(name, "_created_timestamp_seconds") {
				from, to = float64(p.at(l.from).Unix()), float64(p.at(l.from).Unix())
			}
			for minute := l.from; minute <= last; minute++ {
				s.add(minute, from+(to-from)*float64(minute-l.from)/float64(last-l.from))
			}
		}
	}
}

func index(name string, page exposition.Page) map[string]*dto.Metric {
	all := make(map[string]*dto.Metric)
	for _, m := range page[name].GetMetric() {
		all[name+fmt.Sprint(exposition.Labels(m))] = m
	}
	return all
}

func (p *tape) line(name, cluster string, labels map[string]string) *line {
	key := fmt.Sprint(name, cluster, labels)
	if p.lines[key] == nil {
		p.lines[key] = &line{name: name, cluster: cluster, labels: labels}
	}
	return p.lines[key]
}

func (s *line) add(minute int, value float64) {
	s.minutes, s.values = append(s.minutes, minute), append(s.values, value)
}

// beside adds the series about pods that the reconciler and kube-state-metrics serve.
func (p *tape) beside() {
	for _, s := range slices.Collect(maps.Values(p.lines)) {
		if s.name != "gpuledger_allocation_seconds_total" {
			continue
		}
		base := s.base()
		who := map[string]string{"namespace": s.labels["namespace"], "pod": s.labels["pod"], "pod_uid": s.labels["pod_uid"]}
		info, labelled := maps.Clone(who), maps.Clone(who)
		info["workload_kind"], info["workload_name"], info["workload_uid"] = "Job", base, "uid-of-"+base
		labelled["label_team"] = teamOfWorkload(base)
		for name, labels := range map[string]map[string]string{
			"gpuledger_pod_info": info, "gpuledger_pod_labels": labelled,
			"kube_namespace_labels": {"namespace": s.labels["namespace"], "label_team": teamOfNamespace(s.labels["namespace"])},
		} {
			other := p.line(name, s.cluster, labels)
			for _, minute := range s.minutes {
				if n := len(other.minutes); n == 0 || other.minutes[n-1] < minute {
					other.add(minute, 1)
				}
			}
		}
	}
}

func (s *line) base() string {
	base, _, _ := strings.Cut(s.labels["pod"], "-")
	return base
}

func teamOfNamespace(namespace string) string { return "the-team-of-" + namespace }

func teamOfWorkload(name string) string {
	if name == "chat" {
		return "chatters"
	}
	return "batchers"
}

func (p *tape) at(minute int) time.Time { return p.began.Add(time.Duration(minute) * time.Minute) }

func (p *tape) openMetrics(cluster string) []byte {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(p.lines)) {
		s := p.lines[key]
		if s.cluster != cluster {
			continue
		}
		var labels []string
		for name, value := range s.labels {
			labels = append(labels, fmt.Sprintf("%s=%q", name, value))
		}
		slices.Sort(labels)
		for i, minute := range s.minutes {
			fmt.Fprintf(&text, "%s{%s} %v %d\n", s.name, strings.Join(labels, ","), s.values[i], p.at(minute).Unix())
		}
	}
	text.WriteString("# EOF\n")
	return []byte(text.String())
}

// A window begins after the minute from, and ends with the minute to.
type window struct{ from, to int }

func (s *line) has(w window) bool {
	return slices.ContainsFunc(s.minutes, func(m int) bool { return m > w.from && m <= w.to })
}

// grown returns the increase of a counter in a window. A counter begins at 0, both at its start and after each restart.
func (s *line) grown(w window) (sum float64) {
	before := 0.0
	for i, minute := range s.minutes {
		v := s.values[i]
		if v < before {
			before = 0
		}
		if minute > w.from && minute <= w.to {
			sum += v - before
		}
		before = v
	}
	return sum
}

// key returns the name of the result to which a series belongs. It returns false if the series belongs to no result.
type key func(*line) (key string, ok bool)

func by(names ...string) key {
	return func(s *line) (string, bool) { return s.key(names), true }
}

func (s *line) key(names []string) string {
	var values []string
	for _, name := range names {
		switch v := s.labels[name]; name {
		case "cluster":
			values = append(values, s.cluster)
		default:
			values = append(values, v)
		}
	}
	return strings.Join(values, " ")
}

func (k key) where(name, value string) key {
	return func(s *line) (string, bool) {
		if s.labels[name] != value {
			return "", false
		}
		return k(s)
	}
}

func (p *tape) sum(name string, w window, k key) map[string]float64 {
	sums := make(map[string]float64)
	for _, s := range p.lines {
		if key, ok := k(s); s.name == name && ok && s.has(w) {
			sums[key] += s.grown(w)
		}
	}
	return sums
}

// present returns the keys of a metric's series that have a sample in a window, like PromQL's group.
func (p *tape) present(name string, w window, k key) map[string]float64 {
	found := make(map[string]float64)
	for _, s := range p.lines {
		if key, ok := k(s); s.name == name && ok && s.has(w) {
			found[key] = 1
		}
	}
	return found
}
