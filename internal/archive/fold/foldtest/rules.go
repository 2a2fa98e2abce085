package foldtest

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// RunRuled advances the fleet by hours, and adds the results of the recording rules in dashboards/rules. It computes
// these results from the true energy of the nodes.
func (f *Fleet) RunRuled(hours int) {
	for range hours {
		before := f.truth()
		f.Run(60)
		now := f.truth()
		for _, key := range slices.Sorted(maps.Keys(now)) {
			rule, labels, _ := strings.Cut(key, " ")
			f.store.Add(f.start.Add(recorded), joules(now[key]-before[key]), "gpuledger:"+rule+":increase1h", slices.Concat(f.more, strings.Split(labels, " "))...)
		}
	}
}

// The rules record the results of an hour this long after its end.
const recorded = 40 * time.Minute

// truth returns the true energy since the start, by rule and labels.
func (f *Fleet) truth() map[string]int64 {
	all := make(map[string]int64)
	const model = "model NVIDIA"
	for _, n := range f.Nodes {
		gpu := "UUID " + n.UUID
		rest := n.Board.Energy
		all["fleet_energy_joules "+model] += n.Board.Energy
		all["board_energy_joules "+gpu] += n.Board.Energy
		for name, use := range n.Pods {
			rest -= use.Energy
			if isUnit(name) {
				all["user_energy_joules manager slurm "+model] += use.Energy
				all["unit_allocation_energy_joules node "+n.Name+" manager slurm unit "+name+" "+gpu] += use.Energy
				continue
			}
			all["namespace_energy_joules namespace ml "+model] += use.Energy
			all["allocation_energy_joules namespace ml pod "+name+" pod_uid "+name+" "+gpu] += use.Energy
		}
		all["board_unattributed_energy_joules "+gpu] = rest
	}
	return all
}

// Scale multiplies the samples of a metric, beginning with the time from.
func (s *Store) Scale(metric string, by float64, from time.Time) {
	for _, one := range s.series(metric) {
		for i, x := range one.Samples {
			if x.Time >= from.UnixMilli() {
				one.Samples[i].Value *= by
			}
		}
	}
}

// sumForm matches a query for the sum of a rule's values. The sum is for one time, or over all hours of a window.
var sumForm = regexp.MustCompile(`^sum by \(([\w, ]+)\) \((sum_over_time\()?((?:last|count)_over_time\(.*?\[\w+\]\))(?:\[(\d+)s:1h\] offset -61m\))?\)( < -?\d+)?$`)

type sum struct {
	by     []string
	window time.Duration // time over which the hours are added up; 0 for the values at one time
	below  float64       // only sums below this limit are returned
	of     *query
}

// parseSum returns nil for any other query.
func parseSum(text string) *sum {
	m := sumForm.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	seconds, _ := strconv.Atoi(m[4])
	s := &sum{strings.Split(m[1], ", "), time.Duration(seconds) * time.Second, math.Inf(1), parsed(m[3])}
	if m[5] != "" {
		s.below, _ = strconv.ParseFloat(strings.TrimPrefix(m[5], " < "), 64)
	}
	if s.of == nil {
		return nil
	}
	return s
}

func (a API) sums(s *sum, at time.Time) []result {
	moments := []time.Time{at}
	if s.window > 0 {
		end := at.Add(61 * time.Minute)
		moments = nil
		for step := end.Truncate(time.Hour); step.After(end.Add(-s.window)); step = step.Add(-time.Hour) {
			moments = append(moments, step)
		}
	}
	sums, metrics := make(map[string]float64), make(map[string]map[string]string)
	for _, moment := range moments {
		for _, one := range a.results(s.of, moment) {
			metric := make(map[string]string)
			for _, name := range s.by {
				if value := one.Metric[name]; value != "" {
					metric[name] = value
				}
			}
			key := fmt.Sprint(metric)
			sums[key], metrics[key] = sums[key]+one.Value.Value, metric
		}
	}
	results := []result{}
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		if sums[key] < s.below {
			results = append(results, result{Metric: metrics[key], Value: value(at, sums[key])})
		}
	}
	return results
}

// Double copies the series of a metric. In the copies, one label has another value.
func (s *Store) Double(metric, label, value string) {
	for _, one := range s.series(metric) {
		other := slices.Clone(one.Labels)
		for i := range other {
			if other[i].Name == label {
				other[i].Value = value
			}
		}
		s.add(other, one.Samples...)
	}
}

// Remove removes the samples at one time from all metrics with a prefix.
func (s *Store) Remove(prefix string, at time.Time) {
	for _, one := range s.all {
		if strings.HasPrefix(one.Labels.Metric(), prefix) {
			one.Samples = slices.DeleteFunc(one.Samples, func(x fold.Sample) bool { return x.Time == at.UnixMilli() })
		}
	}
}
