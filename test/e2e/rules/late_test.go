//go:build e2e

package rules_test

import (
	"maps"
	"time"
)

// late is counters that nobody saw begin, all of 100 W: of a node that joins late, of
// one that is not scraped for more than a day, of one that reboots while nobody looks,
// of one that does so again soon after, and of pods whose GPU has no serial number at
// first. promtool evaluates the rules; a server answers what reads more than promtool
// allows.
func late() []world {
	const (
		end = 31 * time.Hour
		old = 10 * daily
	)
	hm := func(hours, minutes time.Duration) time.Duration { return hours*time.Hour + minutes*time.Minute }
	h := newHistory(time.Minute)
	// A pod that is so old, and its board, which is as old.
	put := func(name, serial string, from, to, age time.Duration) {
		gpu := map[string]string{"node": name, "UUID": "GPU-" + name, "serial": serial}
		pod := with(gpu, "namespace", name, "pod", name, "pod_uid", "u-"+name)
		h.linear(series(boardEnergy, gpu), from, to, 100*age.Seconds(), 100)
		h.linear(series(allocationEnergy, pod), from, to, 100*age.Seconds(), 100)
		h.linear(series(allocationSeconds, pod), from, to, age.Seconds(), 1)
	}
	put("new", "S1", hm(3, 10), end, time.Minute)
	put("joined", "S2", hm(3, 10), end, old)
	put("unseen", "S3", 0, hm(2, 0), old)
	put("unseen", "S3", hm(27, 10), end, old+hm(27, 10))
	put("rebooted", "S4", 0, hm(8, 0), old)
	put("rebooted", "S4", hm(10, 30), end, time.Hour)
	put("twice", "S7", 0, hm(8, 0), old)
	put("twice", "S7", hm(10, 30), hm(10, 45), time.Minute)
	put("twice", "S7", hm(10, 45), end, 0)
	put("told", "", 0, hm(5, 0), old)
	put("told", "S5", hm(5, 0), end, old+hm(5, 0))
	put("young", "", hm(4, 0), hm(5, 0), 0)
	put("young", "S6", hm(5, 0), end, time.Hour)
	ofDay, ofRules := lateQuestions()
	return []world{
		{name: "late", history: h, evaluate: 20 * time.Minute, questions: ofRules},
		{name: "late day", history: h, questions: ofDay},
	}
}

// lateQuestions are about the 29 hours before the 30th, and one of them. Their answers
// are minutes of 100 W.
func lateQuestions() (ofDay, ofRules []question) {
	const until, minute = 30 * time.Hour, 6000.0
	ask := func(title string, at time.Duration, window string, minutes map[string]float64) question {
		want := make(map[string]float64)
		for labels, m := range minutes {
			want[labels] = m * minute
		}
		return question{title, at, map[string]string{"window": window}, want}
	}
	namespaces := map[string]float64{
		`{namespace="new"}`:      1 + 1610, // with what it had when it was first seen
		`{namespace="joined"}`:   1610,     // without
		`{namespace="unseen"}`:   1740,
		`{namespace="rebooted"}`: 419 + 60 + 1170,
		`{namespace="twice"}`:    419 + 15 + 1155,
		`{namespace="told"}`:     239 + 1500,
		`{namespace="young"}`:    59 + 60 + 1500, // an hour of it twice
	}
	boards := map[string]float64{
		`{UUID="GPU-new",serial="S1"}`:      1610,
		`{UUID="GPU-joined",serial="S2"}`:   1610,
		`{UUID="GPU-unseen",serial="S3"}`:   1740,
		`{UUID="GPU-rebooted",serial="S4"}`: 419 + 60 + 1170,
		`{UUID="GPU-twice",serial="S7"}`:    419 + 15 + 1155,
		`{UUID="GPU-told"}`:                 239,
		`{UUID="GPU-told",serial="S5"}`:     1500,
		`{UUID="GPU-young"}`:                59,
		`{UUID="GPU-young",serial="S6"}`:    1500,
	}
	// No hour knows what came before a day in which nobody looked, and none counts what was
	// between two restarts of which nobody saw the first.
	hours, hoursOfBoards := maps.Clone(namespaces), maps.Clone(boards)
	hours[`{namespace="unseen"}`], hoursOfBoards[`{UUID="GPU-unseen",serial="S3"}`] = 59+170, 59+170
	hours[`{namespace="twice"}`], hoursOfBoards[`{UUID="GPU-twice",serial="S7"}`] = 419+1155, 419+1155
	one := make(map[string]float64)
	for labels := range namespaces {
		one[labels] = 60
	}
	one[`{namespace="unseen"}`] = 50
	several := make(map[string]float64)
	for _, name := range []string{"told", "young"} {
		several[series("", map[string]string{"UUID": "GPU-" + name, "namespace": name, "pod": name, "pod_uid": "u-" + name})] = 2
	}
	ofDay = []question{
		ask("Joules of each namespace", until, "29h", namespaces),
		ask("Joules of each board", until, "29h", boards),
	}
	return ofDay, []question{
		ask("Joules of each namespace", 28*time.Hour, "1h", one),
		ask("Joules of each namespace over a month", until+30*time.Minute, "29h", hours),
		ask("Joules of each board over a day", until+30*time.Minute, "29h", hoursOfBoards),
		{"Which pods have several series on a GPU", until, map[string]string{"window": "29h"}, several},
		{"How many hours of the month are there", until + 30*time.Minute, map[string]string{"window": "29h"}, everyRule(29)},
	}
}

// everyRule is the number of hours for which each of the rules of energy has joules.
func everyRule(hours float64) map[string]float64 {
	want := make(map[string]float64)
	for _, of := range []string{"fleet", "namespace"} {
		want[`{rule="gpuledger:`+of+`_energy_joules:increase1h"}`] = hours
	}
	return want
}
