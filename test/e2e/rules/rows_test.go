//go:build e2e

package rules_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/worlds"
)

type grouping = func(labels map[string]string) string

type rows []*table.Hour

// file computes the archive's rows of some hours. The history begins at the epoch, like promtool's histories.
func file(t *testing.T, h *worlds.History, clusters []string, of worlds.Span) (all rows) {
	t.Helper()
	for _, cluster := range clusters {
		store := foldtest.NewStore()
		for name, slots := range h.Series {
			labels := worlds.Parse(name)
			if labels["cluster"] != cluster {
				continue
			}
			metric := labels["__name__"]
			delete(labels, "__name__")
			var pairs []string
			for key, value := range labels {
				pairs = append(pairs, key, value)
			}
			for _, slot := range slices.Sorted(maps.Keys(slots)) {
				if value, err := strconv.ParseFloat(slots[slot], 64); err == nil {
					store.Add(time.Unix(0, 0).Add(time.Duration(slot)*h.Interval), value, metric, pairs...)
				}
			}
		}
		for at := of.From; at < of.To; at += time.Hour {
			in := store.Input(time.Unix(0, 0).Add(at))
			in.Cluster = cluster
			hour, err := fold.Fold(in)
			check(t, err)
			fold.Name(hour, in.Series, "")
			all = append(all, hour)
		}
	}
	return all
}

// sum adds up the columns that correspond to the given counters.
func (r rows) sum(metrics []string, group grouping) map[string]float64 {
	sums := make(map[string]float64)
	for _, hour := range r {
		for _, metric := range metrics {
			if metric == worlds.BoardEnergy {
				for _, g := range hour.GPUs {
					sums[group(map[string]string{"cluster": hour.Cluster, "node": g.Node, "UUID": g.UUID, "serial": g.Serial})] += float64(g.Energy) / 1000
				}
				continue
			}
			for i := range hour.Charges {
				if c := &hour.Charges[i]; c.Namespace != "" && !isUnit(metric) || c.Unit != "" && isUnit(metric) {
					sums[group(map[string]string{
						"cluster": hour.Cluster, "node": c.Node, "UUID": c.UUID, "serial": c.Serial, "namespace": c.Namespace, "pod": c.Pod, "pod_uid": c.PodUID,
						"manager": c.Manager, "unit": c.Unit, "user": c.Username, "account": c.Team, "workload_kind": c.WorkloadKind, "workload_name": c.WorkloadName,
					})] += float64(amount(c, metric)) / 1000
				}
			}
		}
	}
	return sums
}

func isUnit(metric string) bool {
	return slices.Contains([]string{worlds.UnitEnergy, worlds.UnitIdle, worlds.UnitGPU, worlds.UnitActive}, metric)
}

func amount(c *table.Charge, metric string) int64 {
	switch metric {
	case worlds.AllocationEnergy, worlds.UnitEnergy:
		return c.Energy
	case worlds.AllocationIdle, worlds.UnitIdle:
		return c.Idle
	case worlds.AllocationGPU, worlds.UnitGPU:
		return c.GPUTime
	case worlds.AllocationActive, worlds.UnitActive:
		return c.Active
	}
	panic(metric)
}
