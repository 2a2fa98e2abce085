package books

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const (
	// maxUUIDs is the maximum number of GPUs in one query.
	maxUUIDs = 256
	// gpuHours is the maximum number of GPU hours in one query. There are about 1,200 samples per GPU hour.
	gpuHours = 512
	// placeHours is the maximum number of GPU hours in a query that reads only places. There are then 60 samples per
	// GPU hour.
	placeHours = 8192
	// maxBatch is the maximum number of hours in one query.
	maxBatch = 14 * 24
)

type group struct {
	cluster string
	uuids   []string
	before  fold.Openings // counter values at the end of the previous batch; nil if the previous batch was not read
}

func (s *samples) read(ctx context.Context, of Query, places bool, each func([]foldedHour) error) error {
	groups, err := s.groups(ctx, of)
	if err != nil || len(groups) == 0 {
		return err
	}
	size := gpuHours
	if places {
		size = placeHours
	}
	total := 0
	for _, g := range groups {
		total += len(g.uuids)
	}
	first := of.From.UTC().Truncate(time.Hour)
	for length := min(max(size/min(total, maxUUIDs), 1), maxBatch); first.Before(of.Until); first = first.Add(time.Duration(length) * time.Hour) {
		if left := int((of.Until.Sub(first) + time.Hour - 1) / time.Hour); left < length {
			length = left
		}
		s.Progress(fmt.Sprintf("reading %s, %d GPUs", first.Format("2006-01-02 15h"), total))
		hours, err := s.hours(ctx, groups, batch{first: first, length: length, until: of.Until, places: places})
		if err != nil {
			return err
		}
		if err := each(hours); err != nil {
			return err
		}
	}
	s.Progress("")
	return nil
}

type batch struct {
	first  time.Time
	length int
	until  time.Time // end of the query
	places bool
	parts  map[string][]foldedHour // hours of each group, by cluster
}

func (s *samples) hours(ctx context.Context, groups []*group, b batch) (hours []foldedHour, err error) {
	b.parts = make(map[string][]foldedHour)
	for _, g := range groups {
		if err := s.add(ctx, g, b); err != nil {
			return nil, err
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(b.parts)) {
		for _, h := range b.parts[cluster] {
			if h.refused != nil {
				h.Refuse()
			}
			if len(h.GPUs) > 0 {
				hours = append(hours, h)
			}
		}
	}
	return hours, nil
}

func (s *samples) add(ctx context.Context, g *group, b batch) error {
	inputs, err := s.inputs(ctx, g, b)
	if err != nil {
		return err
	}
	if b.parts[g.cluster] == nil {
		for i := range b.length {
			h := &table.Hour{Cluster: g.cluster, Start: b.first.Add(time.Duration(i) * time.Hour)}
			b.parts[g.cluster] = append(b.parts[g.cluster], foldedHour{Hour: h})
		}
	}
	for i, in := range inputs {
		h, err := foldOnce(in)
		var boards fold.BoardErrors
		if errors.As(err, &boards) {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("%s, hour %s: %w", s.Name(), in.Start.Format(time.RFC3339), err)
		}
		to := &b.parts[g.cluster][i]
		to.refused = append(to.refused, boards...)
		to.Join(h)
	}
	g.before = inputs[len(inputs)-1].Closings()
	return nil
}

func (s *samples) inputs(ctx context.Context, g *group, b batch) ([]fold.Input, error) {
	if b.places {
		return s.places(ctx, g, b)
	}
	return s.store.Read(ctx, g.cluster, b.first, b.length, store.Shard(matcher("uuid", g.uuids)), g.before)
}

func (s *samples) places(ctx context.Context, g *group, b batch) ([]fold.Input, error) {
	end := earlier(b.first.Add(time.Duration(b.length)*time.Hour), b.until)
	found, err := s.store.Raw(ctx, s.store.Selector(placementMetric, g.cluster, matcher("uuid", g.uuids)), b.first, end)
	if err != nil {
		return nil, err
	}
	all := make([]fold.Input, b.length)
	for i := range all {
		all[i] = fold.Input{Cluster: g.cluster, Start: b.first.Add(time.Duration(i) * time.Hour)}
	}
	store.Divide(all, found)
	return all, nil
}

func (s *samples) groups(ctx context.Context, of Query) (groups []*group, err error) {
	if s.elsewhere(of) {
		return nil, nil
	}
	found, err := s.gpus(ctx, of)
	if err != nil {
		return nil, err
	}
	clusters := make(map[string]map[string]bool)
	for _, l := range found {
		if of.matches("cluster", s.cluster(l)) {
			if clusters[s.cluster(l)] == nil {
				clusters[s.cluster(l)] = make(map[string]bool)
			}
			clusters[s.cluster(l)][l.Get("UUID")] = true
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(clusters)) {
		for uuids := range slices.Chunk(slices.Sorted(maps.Keys(clusters[cluster])), maxUUIDs) {
			groups = append(groups, &group{cluster: cluster, uuids: uuids})
		}
	}
	return groups, nil
}

// gpus returns series whose labels show which GPUs are selected. If the query selects pods or units, these are series
// of pods or units.
func (s *samples) gpus(ctx context.Context, of Query) ([]fold.Labels, error) {
	boards := s.matchers(of, "cluster", "node", "uuid", "serial")
	pods := s.matchers(of, "namespace", "pod", "pod_uid")
	units := s.matchers(of, "manager", "unit")
	workloads := s.matchers(of, "workload_kind", "workload_name", "workload_uid")
	switch {
	case len(workloads) > 0:
		found, err := s.store.Series(ctx, selector("gpuledger_pod_info", slices.Concat(s.matchers(of, "cluster"), pods, workloads)...), of.From, of.Until)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		uids := make(map[string]bool)
		for _, l := range found {
			uids[l.Get("pod_uid")] = true
		}
		pods = append(pods, matcher("pod_uid", slices.Sorted(maps.Keys(uids))))
		fallthrough
	case len(pods) > 0:
		return s.store.Series(ctx, selector(allocationMetric, append(boards, pods...)...), of.From, of.Until)
	case len(units) > 0:
		return s.store.Series(ctx, selector(unitMetric, append(boards, units...)...), of.From, of.Until)
	}
	// The energy counter of a board may be older than its placement series, so the counter is used if possible.
	boards = append(boards, s.matchers(of, "chassis_serial")...)
	if of.Places || of.Where["chassis_serial"] != nil {
		return s.store.Series(ctx, selector(placementMetric, boards...), of.From, of.Until)
	}
	return s.store.Series(ctx, selector(boardMetric, boards...), of.From, of.Until)
}

// owner is an info metric. The value of its label equals the value of the charge's column.
type owner struct{ metric, label, column string }

var owners = []owner{
	{"gpuledger_pod_info", "pod_uid", "pod_uid"},
	{"gpuledger_pod_labels", "pod_uid", "pod_uid"},
	{"kube_namespace_labels", "namespace", "namespace"},
	{"gpuledger_node_machine_info", "node", "node"},
	{"gpuledger_unit_info", "unit", "unit"},
}

// name adds the names of workloads, teams, users and machines to the charges. The names are from the same hour as the
// charge.
func (s *samples) name(ctx context.Context, hours []foldedHour, by []owner) error {
	clusters := make(map[string][]foldedHour)
	for _, h := range hours {
		clusters[h.Cluster] = append(clusters[h.Cluster], h)
	}
	for cluster, all := range clusters {
		found, err := s.owners(ctx, cluster, all, by)
		if err != nil {
			return err
		}
		for _, h := range all {
			fold.Name(h.Hour, found[h.Start.Unix()], s.Team)
			h.Pods, h.Workloads = nil, nil
		}
	}
	return nil
}

func (s *samples) owners(ctx context.Context, cluster string, hours []foldedHour, by []owner) (map[int64][]fold.Series, error) {
	values := map[string]map[string]bool{"pod_uid": {}, "namespace": {}, "node": {}, "unit": {}}
	for _, h := range hours {
		for _, c := range h.Charges {
			values["pod_uid"][c.PodUID], values["namespace"][c.Namespace], values["node"][c.Node], values["unit"][c.Unit] = true, true, true, true
		}
	}
	first, last := hours[0].Start, hours[len(hours)-1].Start
	all := make(map[int64][]fold.Series)
	for _, of := range by {
		delete(values[of.column], "")
		for some := range slices.Chunk(slices.Sorted(maps.Keys(values[of.column])), maxUUIDs) {
			text := store.LastOf(of.metric, s.store.Selector(of.metric, cluster, matcher(of.label, some)))
			err := s.store.Hourly(ctx, text, first.Add(time.Hour), last.Add(time.Hour), func(found fold.Series) {
				found.Labels = append(slices.DeleteFunc(found.Labels, func(l fold.Label) bool { return l.Name == "__name__" }), fold.Label{Name: "__name__", Value: of.metric})
				for i, x := range found.Samples {
					if last := store.LastSamples(of.metric, found.Samples[i:i+1]); len(last) > 0 {
						hour := x.Time/1000 - 3600
						all[hour] = append(all[hour], fold.Series{Labels: found.Labels, Samples: last})
					}
				}
			})
			if err != nil {
				return nil, fmt.Errorf("owners by %s: %w", of.metric, err)
			}
		}
	}
	return all, nil
}
