//go:build e2e

package history_test

import (
	"maps"
	"strings"
)

// The windows that the questions ask about, back from the end.
var (
	lastHour   = window{end - 60, end}
	lastDay    = window{end - day, end}
	dayBefore  = window{end - 2*day, end - day}
	lastWeek   = window{end - 7*day, end}
	everything = window{end - 90*day, end}
)

// answers are the answers at the end of the tape. Windows that may be chosen are a
// day.
func (p *tape) answers(serial, chassis string) map[string]answer {
	all := p.placements(serial, chassis)
	maps.Copy(all, p.statements(serial))
	maps.Copy(all, p.months())
	maps.Copy(all, p.waste())
	return all
}

func (p *tape) placements(serial, chassis string) map[string]answer {
	place := []string{"cluster", "node", "serial"}
	gpu := []string{"cluster", "node", "UUID", "serial"}
	of := by(place...).where("serial", serial)
	now := p.moments(window{end - 1, end}, of, true)
	boards := p.present(placement, everything, by("serial"))
	recent := p.present(placement, lastWeek, by("serial"))
	old := p.present(placement, everything, func(s *line) (string, bool) {
		return s.key(place), recent[s.labels["serial"]] == 0
	})
	held := []string{"chassis_serial", "chassis_slot", "tray_index", "node", "UUID", "serial", "model"}
	ran := []string{"cluster", "serial", "namespace", "pod"}
	pods := []string{"chassis_serial", "node", "serial", "namespace", "pod", "pod_uid"}
	return map[string]answer{
		"Where is a board, or where was it last":       {by: place, want: now},
		"When was a board first seen in each place":    {by: place, want: p.moments(everything, of, false)},
		"When was a board last seen in each place":     {by: place, want: p.moments(everything, of, true)},
		"Which boards were in more than one machine":   {by: []string{"serial"}, want: p.several(boards, "system_uuid")},
		"Which boards moved across clusters":           {by: []string{"serial"}, want: p.several(boards, "cluster")},
		"How many boards were there on a day":          one(len(p.present(placement, lastDay, by("serial")))),
		"How many GPUs were there on a day":            one(len(p.present(placement, lastDay, by("UUID")))),
		"How many boards were there, day by day":       one(len(p.present(placement, lastDay, by("serial")))),
		"Which boards arrived in the last day":         {by: gpu, want: without(p.present(placement, lastDay, by(gpu...)), p.present(placement, dayBefore, by(gpu...)))},
		"Which boards departed in the last day":        {by: gpu, want: without(p.present(placement, lastDay, by(gpu...)), p.present(placement, lastHour, by(gpu...)))},
		"Which boards were not seen for seven days":    {by: place, want: old},
		"Which boards did a chassis hold":              {by: held, want: p.present(placement, everything, by(held...).where("chassis_serial", chassis))},
		"Which pods did a chassis host":                {by: pods, want: p.present(allocation, everything, by(pods...).where("chassis_serial", chassis))},
		"What ran on a board, and for how many joules": {by: ran, want: p.sum(allocation, lastDay, true, by(ran...).where("serial", serial))},
		"Which pods have several series on a GPU":      {none: true},
	}
}

func one(n int) answer { return answer{want: map[string]float64{"": float64(n)}} }

// moments returns when a board was seen first, or last, in seconds since 1970.
func (p *tape) moments(w window, k key, last bool) map[string]float64 {
	found := make(map[string]float64)
	for _, s := range p.lines {
		key, ok := k(s)
		if s.name != placement || !ok {
			continue
		}
		for _, minute := range s.minutes {
			at := float64(p.at(minute).Unix())
			if _, seen := found[key]; minute > w.from && minute <= w.to && (last || !seen) {
				found[key] = at
			}
		}
	}
	return found
}

// several counts for each board how many values of a label it had, where it had more
// than one.
func (p *tape) several(boards map[string]float64, label string) map[string]float64 {
	counts := make(map[string]float64)
	for serial := range boards {
		if n := len(p.present(placement, everything, by(label).where("serial", serial))); n > 1 {
			counts[serial] = float64(n)
		}
	}
	return counts
}

// without returns what the first has and the second has not.
func without(a, b map[string]float64) map[string]float64 {
	maps.DeleteFunc(a, func(k string, _ float64) bool { _, there := b[k]; return there })
	return a
}

// The keys by what others tell of a pod, and the labels that they are made of.
func workload(s *line) (string, bool) {
	return s.cluster + " " + s.labels["namespace"] + " Job " + s.base(), true
}

func namespaceTeam(s *line) (string, bool) { return teamOfNamespace(s.labels["namespace"]), true }

func podTeam(s *line) (string, bool) {
	return teamOfWorkload(s.base()), true
}

var byNamespace = []string{"cluster", "namespace"}

var byWorkload = []string{"cluster", "namespace", "workload_kind", "workload_name"}

func (p *tape) statements(serial string) map[string]answer {
	team, gpu := []string{"label_team"}, []string{"serial", "UUID"}
	boards, pods := p.sum(board, lastDay, false, by(gpu...)), p.sum(allocation, lastDay, true, by(gpu...))
	nobody := make(map[string]float64)
	for k, joules := range boards {
		nobody[k] = joules - pods[k]
	}
	return map[string]answer{
		"Joules of each namespace":                            {by: byNamespace, want: p.sum(allocation, lastDay, true, by(byNamespace...))},
		"Joules of each workload":                             {by: byWorkload, want: p.sum(allocation, lastDay, true, workload)},
		"Joules of each team, by the label of its namespaces": {by: team, want: p.sum(allocation, lastDay, true, namespaceTeam)},
		"Joules of each team, by the label of its pods":       {by: team, want: p.sum(allocation, lastDay, true, podTeam)},
		"Joules of each board":                                {by: gpu, want: boards},
		"Joules of each board that no pod was charged for":    {by: gpu, want: nobody},
	}
}

// price is that of a kilowatt hour.
const price = 0.25

func (p *tape) months() map[string]answer {
	all := p.sum(allocation, lastDay, true, by("cluster"))
	nobody := p.sum(board, lastDay, false, by("cluster"))
	for k := range nobody {
		nobody[k] -= all[k]
	}
	byBoard := []string{"serial", "UUID"}
	boards, idle, charged := p.sum(board, lastDay, false, by(byBoard...)), p.sum(board, lastDay, false, by(byBoard...)), p.sum(allocation, lastDay, true, by(byBoard...))
	for k := range idle {
		idle[k] -= charged[k]
	}
	cost := func(k key) map[string]float64 {
		joules := p.sum(allocation, lastDay, true, k)
		for team := range joules {
			joules[team] *= price / 3.6e6
		}
		return joules
	}
	return map[string]answer{
		"How many hours of the month are there":                                     {by: []string{"cluster", "rule"}, want: p.hours()},
		"Joules of each namespace over a month":                                     {by: byNamespace, want: p.sum(allocation, lastDay, true, by(byNamespace...))},
		"Joules that no pod was charged for, over a month":                          {by: []string{"cluster"}, want: nobody},
		"Joules of each board over a day":                                           {by: byBoard, want: boards},
		"Joules of each board that no pod was charged for, over a day":              {by: byBoard, want: idle},
		"Energy and cost of each team over a month, by the label of its namespaces": {by: []string{"label_team"}, want: cost(namespaceTeam)},
		"Energy and cost of each team over a month, by the label of its pods":       {by: []string{"label_team"}, want: cost(podTeam)},
		"Joules of a workload over all its restarts": {by: byWorkload, want: p.sum(allocation, window{0, end}, true, func(s *line) (string, bool) {
			k, _ := workload(s)
			return k, strings.HasSuffix(k, " research Job nightly")
		})},
	}
}

// hours counts the hours of the last day in which each rule had something to add up.
func (p *tape) hours() map[string]float64 {
	counts := make(map[string]float64)
	for _, of := range []struct{ rule, metric string }{
		{"fleet", board}, {"namespace", allocation},
	} {
		for at := lastDay.from; at < lastDay.to; at += 60 {
			for cluster := range p.present(of.metric, window{at, at + 60}, by("cluster")) {
				counts[cluster+" gpuledger:"+of.rule+"_energy_joules:increase1h"]++
			}
		}
	}
	return counts
}

// waste are estimates: increase() guesses what is beyond the first and the last sample.
func (p *tape) waste() map[string]answer {
	const idle, allocated, active = "gpuledger_container_idle_energy_joules_total", "gpuledger_container_gpu_allocated_seconds_total", "gpuledger_container_gpu_active_seconds_total"
	seconds := func(k key) map[string]float64 {
		held := p.sum(allocated, lastDay, false, k)
		for who, s := range p.sum(active, lastDay, false, k) {
			held[who] -= s
		}
		return held
	}
	estimate := func(by []string, want map[string]float64) answer { return answer{by: by, want: want, off: 0.02} }
	return map[string]answer{
		"Idle joules of each namespace":      estimate(byNamespace, p.sum(idle, lastDay, false, by(byNamespace...))),
		"Idle GPU seconds of each namespace": estimate(byNamespace, seconds(by(byNamespace...))),
		"Idle joules of each workload":       estimate(byWorkload, p.sum(idle, lastDay, false, workload)),
		"Idle GPU seconds of each workload":  estimate(byWorkload, seconds(workload)),
	}
}
