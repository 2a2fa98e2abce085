package books

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// Holder is a pod or unit that used a GPU, or to which the GPU was allocated.
type Holder struct {
	Cluster, Node, UUID, Namespace, Pod, PodUID, Manager, Unit string
	// Ended is set if the pod or unit had ended when the GPU was last scraped in this place.
	Ended bool
	// Last is the time of the pod's or unit's last sample. It is zero if it is unknown.
	Last time.Time
}

// Momentary is a source of single scrapes. An archive is not Momentary, because it contains only hourly sums.
type Momentary interface {
	// Holders returns the pods and units, sorted. The period may begin and end at any time.
	Holders(ctx context.Context, of Query) ([]Holder, error)
}

const (
	allocationTime = "gpuledger_allocation_seconds_total"
	unitTime       = "gpuledger_unit_allocation_seconds_total"
)

// Holders implements [Momentary].
func (s *samples) Holders(ctx context.Context, of Query) (all []Holder, err error) {
	seconds := of
	seconds.Until = of.Until.Add(time.Second) // the API that lists series accepts only whole seconds
	groups, err := s.groups(ctx, seconds)
	if err != nil {
		return nil, err
	}
	metrics := "__name__=~" + strconv.Quote(strings.Join([]string{placementMetric, boardMetric, allocationMetric, allocationTime, unitMetric, unitTime}, "|"))
	for _, g := range groups {
		found, err := s.store.Raw(ctx, s.store.Selector("", g.cluster, metrics, matcher("uuid", g.uuids)), of.From, of.Until)
		if err != nil {
			return nil, err
		}
		tracks := tracksOf(g.cluster, found)
		for key := range tracks {
			if key.metric == allocationMetric || key.metric == unitMetric {
				h := key.Holder
				samples := tracks[key]
				h.Ended, h.Last = tracks.ended(h, key.metric), time.UnixMilli(samples[len(samples)-1].Time)
				all = append(all, h)
			}
		}
	}
	slices.SortFunc(all, func(a, b Holder) int {
		return slices.Compare([]string{a.Cluster, a.Node, a.UUID, a.Namespace, a.Pod, a.PodUID, a.Manager, a.Unit}, []string{b.Cluster, b.Node, b.UUID, b.Namespace, b.Pod, b.PodUID, b.Manager, b.Unit})
	})
	return all, nil
}

// trackKey identifies the samples of one metric and one pod, unit or GPU.
type trackKey struct {
	Holder
	metric string
}

type tracks map[trackKey][]fold.Sample

func tracksOf(cluster string, series []fold.Series) tracks {
	all := make(tracks)
	for _, s := range series {
		get := s.Labels.Get
		h := Holder{Cluster: cluster, Node: get("node"), UUID: get("UUID")}
		switch metric := s.Labels.Metric(); metric {
		case allocationMetric, allocationTime:
			h.Namespace, h.Pod, h.PodUID = get("namespace"), get("pod"), get("pod_uid")
		case unitMetric, unitTime:
			h.Manager, h.Unit = get("manager"), get("unit")
		}
		key := trackKey{h, s.Labels.Metric()}
		all[key] = append(all[key], s.Samples...)
	}
	for samples := range maps.Values(all) {
		slices.SortStableFunc(samples, func(a, b fold.Sample) int { return cmp.Compare(a.Time, b.Time) })
	}
	return all
}

// ended reports whether a pod or unit has left a GPU. There are three signs: the GPU is no longer in this place, the
// pod has no sample since the second-last scrape of the GPU, or its GPU time stays equal while the energy of the GPU
// rises. The third sign is needed because an exporter serves the counters of an ended pod for some minutes.
func (t tracks) ended(h Holder, metric string) bool {
	gpu := Holder{Cluster: h.Cluster, Node: h.Node, UUID: h.UUID}
	places := t[trackKey{gpu, placementMetric}]
	if len(places) == 0 {
		return true
	}
	before := int64(0)
	for _, x := range places {
		if x.Time < places[len(places)-1].Time {
			before = x.Time
		}
	}
	if x := t[trackKey{h, metric}]; x[len(x)-1].Time <= before {
		return true
	}
	held := trackKey{h, map[string]string{allocationMetric: allocationTime, unitMetric: unitTime}[metric]}
	last, rises := t.rise(held, before)
	_, works := t.rise(trackKey{gpu, boardMetric}, before)
	return last > 0 && !rises && works // without an allocation, the GPU time is always 0
}

// rise returns the last value of a counter, and whether the counter rose after a time. If there is no earlier sample,
// the counter counts as rising.
func (t tracks) rise(key trackKey, since int64) (last float64, rises bool) {
	samples := t[key]
	if len(samples) == 0 {
		return 0, false
	}
	last = samples[len(samples)-1].Value
	for _, x := range slices.Backward(samples) {
		if x.Time <= since {
			return last, x.Value != last
		}
	}
	return last, true
}
