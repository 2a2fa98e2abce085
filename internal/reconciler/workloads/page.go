package workloads

import dto "github.com/prometheus/client_model/go"

// page is what is shown at one moment, metric by metric.
type page struct {
	samples [numMetrics][]*dto.Metric
	shown   map[levelKey]bool
}

func (pg *page) add(m metric, samples ...*dto.Metric) {
	for _, s := range samples {
		if s != nil {
			pg.samples[m] = append(pg.samples[m], s)
		}
	}
}

// addLevel adds a workload, unless it is there: many pods belong to one.
func (pg *page) addLevel(l level) {
	if !pg.shown[l.key] {
		pg.shown[l.key] = true
		pg.add(workloadInfo, l.sample)
	}
}

// stop is where walks ended before the root.
type stop struct {
	kind string
	why  reason
}

// page returns what is shown now; nothing before the first list.
func (b *book) page() *page {
	b.mu.Lock()
	defer b.mu.Unlock()
	pg := &page{shown: make(map[levelKey]bool, len(b.owners))}
	if !b.listed {
		return pg
	}
	pg.samples[podInfo] = make([]*dto.Metric, 0, len(b.pods))
	pg.samples[podRequests] = make([]*dto.Metric, 0, len(b.pods))
	for _, e := range b.pods {
		if s := e.samples; s != nil {
			pg.add(podInfo, s.info)
			pg.add(podRequests, s.requests...)
			pg.add(podLabels, s.labels)
			pg.add(podAnnotations, s.annotations)
		}
		if e.workload != nil {
			pg.addLevel(*e.workload)
		}
	}
	b.addOwners(pg)
	return pg
}

func (b *book) addOwners(pg *page) {
	stops := make(map[stop]int)
	waiting := 0
	for _, o := range b.owners {
		if o.lineage == nil {
			waiting++
			continue
		}
		for _, l := range o.above.levels {
			pg.addLevel(l)
		}
		if o.lineage.stopped != "" {
			stops[stop{valid(o.lineage.root().kind), o.lineage.stopped}]++
		}
	}
	for at, n := range stops {
		pg.add(walksStopped, b.render.gauge(float64(n), b.render.common("kind", at.kind), b.render.common("reason", string(at.why))))
	}
	pg.add(walksWaiting, b.render.gauge(float64(waiting)))
}
