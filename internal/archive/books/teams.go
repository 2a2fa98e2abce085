package books

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// teams contains the team of each workload and of each namespace, by cluster.
type teams struct {
	label                 string
	workloads, namespaces map[[2]string]team
}

// hours is the number of samples that name this team.
type team struct {
	name  string
	hours float64
}

// The result is the most frequent team of the workload's pods. If these pods have no team, it is the most frequent team
// of the namespace.
func (t *teams) of(c table.Charge) string {
	if t == nil {
		return ""
	}
	return cmp.Or(t.workloads[[2]string{c.Cluster, c.WorkloadUID}].name, t.namespaces[[2]string{c.Cluster, c.Namespace}].name)
}

func (s *rules) teams(ctx context.Context, of Query) (*teams, error) {
	if !slices.Contains(of.By, "team") {
		return nil, nil
	}
	t := &teams{fold.LabelName(s.Team), make(map[[2]string]team), make(map[[2]string]team)}
	window := fmt.Sprintf("[%ds]", int(of.Until.Sub(of.From).Seconds()))
	for _, from := range []struct {
		metric, label string
		to            map[[2]string]team
	}{{"gpuledger:workload_labels:present1h", "workload_uid", t.workloads}, {"kube_namespace_labels", "namespace", t.namespaces}} {
		text := "sum by (cluster, " + from.label + ", " + t.label + ") (count_over_time(" + selector(from.metric, append(s.matchers(of, "cluster"), t.label+`!=""`)...) + window + "))"
		err := s.store.Query(ctx, text, of.Until, func(found fold.Series) {
			key := [2]string{s.cluster(found.Labels), found.Labels.Get(from.label)}
			last, ok := found.Last()
			if !ok {
				return
			}
			now := team{found.Labels.Get(t.label), last.Value}
			if known := from.to[key]; now.hours > known.hours || now.hours == known.hours && now.name < known.name {
				from.to[key] = now
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}
