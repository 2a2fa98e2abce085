package workloads

import (
	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

type page struct {
	samples [numMetrics][]sample
	levels  map[levelKey]*level
}

func (pg *page) add(m metricID, samples ...sample) {
	for _, s := range samples {
		if s != "" {
			pg.samples[m] = append(pg.samples[m], s)
		}
	}
}

// addLevel adds a workload to the page once, even if many pods belong to the workload. If the owner chains contain
// different parents for the workload, addLevel selects the same parent at every scrape.
func (pg *page) addLevel(l *level) {
	if other := pg.levels[l.key]; other == nil || l.before(other) {
		pg.levels[l.key] = l
	}
}

// stop describes the end of a chain before its root: the kind of the last owner, and the reason.
type stop struct {
	kind string
	why  reason
}

// page returns the series. Before all pods have been listed, it returns no series.
func (b *book) page() *page {
	b.mu.Lock()
	defer b.mu.Unlock()
	pg := &page{levels: make(map[levelKey]*level, len(b.owners))}
	if !b.listed {
		return pg
	}
	b.showStale()
	pg.samples[podInfo] = make([]sample, 0, len(b.pods))
	pg.samples[podRequests] = make([]sample, 0, len(b.pods))
	for _, e := range b.pods {
		if s := e.samples; s != nil {
			pg.add(podInfo, s.info)
			pg.add(podRequests, s.requests...)
			pg.add(podLabels, s.labels)
			pg.add(podAnnotations, s.annotations)
		}
		if e.workload != nil {
			pg.addLevel(e.workload)
		}
	}
	b.addOwners(pg)
	for _, l := range pg.levels {
		pg.add(workloadInfo, l.sample)
	}
	return pg
}

func (b *book) addOwners(pg *page) {
	stops := make(map[stop]int)
	waiting := 0
	for _, o := range b.owners {
		if o.chain == nil {
			waiting++
			continue
		}
		for i := range o.above.levels {
			pg.addLevel(&o.above.levels[i])
		}
		if o.chain.stopped != "" {
			stops[stop{labelvalue.Valid(o.chain.root().kind), o.chain.stopped}]++
		}
	}
	for at, n := range stops {
		pg.add(walksStopped, b.render.gauge(walksStopped, float64(n), b.render.pairs.New("kind", at.kind), b.render.pairs.New("reason", string(at.why))))
	}
	pg.add(walksWaiting, b.render.gauge(walksWaiting, float64(waiting)))
}
