package collector

import (
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// families returns one family per metric, with the metric's series. Like a registry, it sorts the families and the
// series. It does not copy the series.
func families(all *list[series]) []*dto.MetricFamily {
	order := make([]*series, all.len)
	for i := range order {
		order[i] = all.at(i)
	}
	slices.SortStableFunc(order, (*series).compare)
	var grouped []*dto.MetricFamily
	metrics, first := make([]*dto.Metric, len(order)), 0
	for i, s := range order {
		metrics[i] = &s.Metric
		if i == 0 || order[i-1].metric != s.metric {
			grouped, first = append(grouped, catalogue[s.metric].NewFamily(nil)), i
		}
		grouped[len(grouped)-1].Metric = metrics[first : i+1]
	}
	return grouped
}
