package collector

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// health renders the errors, the activity and other health values of a GPU. After the GPU was lost, the values from
// readings are absent, and all other series remain. If the driver does not report XID errors, the series of XID errors
// are absent, because 0 would look like a healthy GPU.
func (p *page) health(g *gpu.GPU, uuid *labelSet) {
	if g.ReportsEvents || g.Events.Count > 0 {
		p.counter(xidErrors, float64(g.Events.Count), g.Events.Since, uuid)
	}
	for _, code := range slices.Sorted(maps.Keys(g.Events.Last)) {
		p.moment(xidLast, g.Events.Last[code], p.with(uuid, "xid", strconv.FormatUint(code, 10)))
	}
	p.moment(lastReading, g.LastReading, uuid)
	if !g.Present || g.Reading == nil {
		return
	}
	if r := g.Reading.RowRemap; r != nil {
		p.flag(rowRemapPending, r.Pending, uuid)
		p.flag(rowRemapFailure, r.Failed, uuid)
		if p.opts.Details {
			p.gauge(remappedRows, float64(r.Correctable), p.with(uuid, "error", "correctable"))
			p.gauge(remappedRows, float64(r.Uncorrectable), p.with(uuid, "error", "uncorrectable"))
		}
	}
	if action := g.Reading.Recovery; action != "" {
		p.info(gpuRecovery, p.with(uuid, "action", action))
	}
	p.healthValues(g.Reading, uuid)
	p.activities(firstActivity, g.Reading.Profile, uuid)
	for _, i := range g.Reading.InstanceProfiles {
		p.activities(firstInstanceActivity, i.Profile, p.with(uuid, "GPU_I_ID", i.Instance))
	}
	for _, e := range g.Reading.RASErrors {
		p.counter(rasErrors, float64(e.Count), time.Time{}, p.with(uuid, "block", e.Block, "type", string(e.Type)))
	}
}

// healthValues renders the health values and their details, which are read every ten seconds or less often.
func (p *page) healthValues(r *gpu.Reading, uuid *labelSet) {
	if p.opts.Health {
		p.values(r.Health, uuid)
	}
	if p.opts.Details {
		p.values(r.Details, uuid)
	}
}

func (p *page) values(values []gpu.HealthValue, uuid *labelSet) {
	for i := range values {
		v := &values[i]
		info, labels := &gpu.HealthInfos[v.Metric], uuid
		switch len(info.Labels) {
		case 1:
			labels = p.with(uuid, info.Labels[0], v.Labels[0])
		case 2:
			labels = p.with(uuid, info.Labels[0], v.Labels[0], info.Labels[1], v.Labels[1])
		}
		if info.Counter {
			p.counter(firstHealth+metricID(v.Metric), v.Value, time.Time{}, labels)
		} else {
			p.gauge(firstHealth+metricID(v.Metric), v.Value, labels)
		}
	}
}

// The counters of activity restart from 0 when the exporter restarts.
func (p *page) activities(first metricID, profile *gpu.Profile, uuid *labelSet) {
	if profile == nil || !p.opts.Profiling {
		return
	}
	for i, seconds := range profile.Seconds {
		if seconds != nil {
			p.counter(first+metricID(i), *seconds, time.Time{}, uuid)
		}
	}
}

func (p *page) stages(stages []gpu.Stage) {
	for _, s := range stages {
		name := p.labels("stage", s.Name)
		if !p.first(stageFailures, name) {
			continue
		}
		p.counter(stageFailures, float64(s.Failures), time.Time{}, name)
		p.counter(stageOversized, float64(s.Oversized), time.Time{}, name)
		p.flag(stageUp, s.Up, name)
		p.gauge(stageDuration, s.Duration.Seconds(), name)
		p.moment(stageLastSuccess, s.LastSuccess, name)
	}
}

func (p *page) processCounts(gpus []gpu.GPU) {
	var mapped, unmapped int
	for i := range gpus {
		for j := range gpus[i].Processes {
			switch gpus[i].Processes[j].Owner.Kind {
			case gpu.OwnerPending, gpu.OwnerUnmapped:
				unmapped++
			default:
				mapped++
			}
		}
	}
	p.gauge(processCount, float64(mapped), p.labels("mapped", "true"))
	p.gauge(processCount, float64(unmapped), p.labels("mapped", "false"))
}
