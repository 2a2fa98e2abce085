//go:build e2e

package history_test

import (
	"maps"

	"github.com/gpuledger/gpuledger/test/prometheus"
)

// All windows end at the end of the history, except dayBefore.
var (
	lastHour   = window{end - 60, end}
	lastDay    = window{end - day, end}
	dayBefore  = window{end - 2*day, end - day}
	lastWeek   = window{end - 7*day, end}
	everything = window{end - 90*day, end}
)

// answers returns the expected results at the end of the history, for a $window of a day.
func (p *tape) answers(serial, chassis string) map[string]prometheus.Answer {
	all := p.placements(serial, chassis)
	maps.Copy(all, p.statements(serial))
	return all
}

func (p *tape) placements(serial, chassis string) map[string]prometheus.Answer {
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
	pods := []string{"chassis_serial", "node", "serial", "namespace", "pod", "pod_uid"}
	return map[string]prometheus.Answer{
		"Where is a board, or where was it last":     {By: place, Want: now},
		"When was a board first seen in each place":  {By: place, Want: p.moments(everything, of, false)},
		"When was a board last seen in each place":   {By: place, Want: p.moments(everything, of, true)},
		"Which boards were in more than one machine": {By: []string{"serial"}, Want: p.several(boards, "system_uuid")},
		"Which boards moved across clusters":         {By: []string{"serial"}, Want: p.several(boards, "cluster")},
		"How many boards were there on a day":        one(len(p.present(placement, lastDay, by("serial")))),
		"How many GPUs were there on a day":          one(len(p.present(placement, lastDay, by("UUID")))),
		"How many boards were there, day by day":     one(len(p.present(placement, lastDay, by("serial")))),
		"Which boards arrived in the last day":       {By: gpu, Want: without(p.present(placement, lastDay, by(gpu...)), p.present(placement, dayBefore, by(gpu...)))},
		"Which boards departed in the last day":      {By: gpu, Want: without(p.present(placement, lastDay, by(gpu...)), p.present(placement, lastHour, by(gpu...)))},
		"Which boards were not seen for seven days":  {By: place, Want: old},
		"Which boards did a chassis hold":            {By: held, Want: p.present(placement, everything, by(held...).where("chassis_serial", chassis))},
		"Which pods did a chassis host":              {By: pods, Want: p.present(allocation, everything, by(pods...).where("chassis_serial", chassis))},
		nothing:                                      {},
	}
}

func one(n int) prometheus.Answer { return prometheus.Answer{Want: map[string]float64{"": float64(n)}} }

// moments returns the time of each board's first or last sample, in seconds since the epoch.
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

// several counts the values of a label for each board. It returns only the boards with at least two values.
func (p *tape) several(boards map[string]float64, label string) map[string]float64 {
	counts := make(map[string]float64)
	for serial := range boards {
		if n := len(p.present(placement, everything, by(label).where("serial", serial))); n > 1 {
			counts[serial] = float64(n)
		}
	}
	return counts
}

// without removes the keys of b from a, and returns a.
func without(a, b map[string]float64) map[string]float64 {
	maps.DeleteFunc(a, func(k string, _ float64) bool { _, there := b[k]; return there })
	return a
}

// The following functions derive keys from labels that other programs report for a pod.
func workload(s *line) (string, bool) {
	return s.cluster + " " + s.labels["namespace"] + " Job " + s.base(), true
}

func chat(s *line) (string, bool) {
	key, _ := workload(s)
	return key, s.base() == "chat"
}

// model returns a key with the namespace of a series and the model of its GPU. The model is a label of the GPU's
// placement.
func (p *tape) model(s *line) (string, bool) {
	for _, place := range p.lines {
		if place.name == placement && place.labels["UUID"] == s.labels["UUID"] {
			return s.key(byNamespace) + " " + place.labels["model"], true
		}
	}
	return "", false
}

func namespaceTeam(s *line) (string, bool) { return teamOfNamespace(s.labels["namespace"]), true }

func podTeam(s *line) (string, bool) {
	return teamOfWorkload(s.base()), true
}

var byNamespace = []string{"cluster", "namespace"}

var byWorkload = []string{"cluster", "namespace", "workload_kind", "workload_name"}

const price = 0.25

func (p *tape) statements(serial string) map[string]prometheus.Answer {
	ran := []string{"cluster", "serial", "namespace", "pod", "pod_uid"}
	gpu := []string{"cluster", "UUID", "serial"}
	answer := func(of []string, want map[string]float64) prometheus.Answer {
		return prometheus.Answer{By: of, Want: want}
	}
	energy := func(k key) map[string]float64 { return p.sum(allocation, lastDay, k) }
	idle := func(k key) map[string]float64 { return p.sum(allocationIdle, lastDay, k) }
	hours := func(k key) map[string]float64 { return scaled(p.sum(gpuSeconds, lastDay, k), 1.0/3600) }
	active := func(k key) map[string]float64 { return scaled(p.sum(activeSeconds, lastDay, k), 1.0/3600) }
	cost := func(k key) map[string]float64 { return scaled(energy(k), price/3.6e6) }
	unattributed := func(k key) map[string]float64 {
		rest, charged := p.sum(board, lastDay, k), energy(k)
		for of := range rest {
			rest[of] -= charged[of]
		}
		return rest
	}
	return map[string]prometheus.Answer{
		"Energy of each namespace":                                     answer(byNamespace, energy(by(byNamespace...))),
		"Energy of each workload":                                      answer(byWorkload, energy(workload)),
		"GPU hours of each namespace":                                  answer(byNamespace, hours(by(byNamespace...))),
		"GPU hours of each workload":                                   answer(byWorkload, hours(workload)),
		"GPU hours of each namespace and model":                        answer([]string{"cluster", "namespace", "model"}, hours(p.model)),
		"How many GPUs did a workload use on average over the day":     answer(byWorkload, scaled(hours(chat), 1.0/24)),
		"Idle energy of each namespace":                                answer(byNamespace, idle(by(byNamespace...))),
		"Idle energy of each workload":                                 answer(byWorkload, idle(workload)),
		"Active GPU hours of each namespace":                           answer(byNamespace, active(by(byNamespace...))),
		"Active GPU hours of each workload":                            answer(byWorkload, active(workload)),
		"Energy and cost of each team, by the label of its namespaces": answer([]string{"label_team"}, cost(namespaceTeam)),
		"Energy and cost of each team, by the label of its pods":       answer([]string{"label_team"}, cost(podTeam)),
		"Energy of each board":                                         answer(gpu, p.sum(board, lastDay, by(gpu...))),
		"Energy of each board that no pod or unit was charged for":     answer(gpu, unattributed(by(gpu...))),
		"Energy that no pod or unit was charged for":                   answer([]string{"cluster"}, unattributed(by("cluster"))),
		"Pods of a board and their energy":                             answer(ran, energy(by(ran...).where("serial", serial))),
		"Hours for which the rules have results":                       answer([]string{"cluster", "rule"}, p.hours()),
	}
}

func scaled(values map[string]float64, factor float64) map[string]float64 {
	for k := range values {
		values[k] *= factor
	}
	return values
}

// hours returns the number of hours of the last day in which each rule had samples.
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
