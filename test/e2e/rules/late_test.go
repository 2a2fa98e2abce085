//go:build e2e

package rules_test

import "time"

// late returns counters of 100 W whose start was not scraped: of nodes that join late, are not
// scraped for more than a day, reboot meanwhile, or reboot again soon after, and of pods whose GPU
// has no serial number at first.
func late() world {
	const (
		end = 32 * time.Hour
		old = 10 * daily
	)
	hm := func(hours, minutes time.Duration) time.Duration { return hours*time.Hour + minutes*time.Minute }
	h := newHistory(time.Minute)
	// A pod with an age at its first sample, and its board of the same age. Without an age it
	// continues counters with other labels.
	put := func(name, serial string, from, to time.Duration, age *time.Duration, counted time.Duration) {
		gpu := map[string]string{"node": name, "UUID": "GPU-" + name, "serial": serial}
		pod := with(gpu, "namespace", name, "pod", name, "pod_uid", "u-"+name)
		h.linear(series(boardEnergy, gpu), from, to, 100*counted.Seconds(), 100)
		h.linear(series(allocationEnergy, pod), from, to, 100*counted.Seconds(), 100)
		if age != nil {
			h.constant(series(createdOf(boardEnergy), gpu), from, to, (from - *age).Seconds())
			h.constant(series(createdOf(allocationEnergy), pod), from, to, (from - *age).Seconds())
		}
	}
	aged := func(name, serial string, from, to, age time.Duration) { put(name, serial, from, to, &age, age) }
	aged("new", "S1", hm(3, 10), end, time.Minute)
	aged("joined", "S2", hm(3, 10), end, old)
	aged("unseen", "S3", 0, hm(2, 0), old)
	aged("unseen", "S3", hm(27, 10), end, old+hm(27, 10))
	aged("rebooted", "S4", 0, hm(8, 0), old)
	aged("rebooted", "S4", hm(10, 30), end, time.Hour)
	aged("twice", "S7", 0, hm(8, 0), old)
	aged("twice", "S7", hm(10, 30), hm(10, 45), time.Minute)
	aged("twice", "S7", hm(10, 45), end, 0)
	aged("renamed", "", 0, hm(5, 0), old)
	put("renamed", "S5", hm(5, 0), end, nil, old+hm(5, 0))
	aged("young", "", hm(4, 0), hm(5, 0), 0)
	put("young", "S6", hm(5, 0), end, nil, time.Hour)
	return world{name: "late", history: h, evaluate: 15 * time.Minute, questions: lateQuestions()}
}

// lateQuestions cover the 29 hours before the 30th hour, and one of them. Their results are minutes
// of 100 W.
func lateQuestions() []question {
	const until, minute = 30 * time.Hour, 6000.0
	ask := func(title string, to time.Duration, window string, minutes map[string]float64) question {
		want := make(map[string]float64)
		for labels, m := range minutes {
			want[labels] = m * minute
		}
		return question{title, to, map[string]string{"window": window, "cluster": ".*"}, want}
	}
	minutes := map[string]float64{
		"new":      1 + 1610, // with its energy before the first scrape
		"joined":   1610,     // without
		"unseen":   59 + 170, // without the day in which nothing was scraped
		"rebooted": 419 + 60 + 1170,
		"twice":    419 + 1155, // without the 15 minutes between two restarts, the first of which was not seen
		"renamed":  239 + 1500,
		"young":    59 + 1500,
	}
	namespaces, hour := make(map[string]float64), make(map[string]float64)
	for name, m := range minutes {
		namespaces[series("", map[string]string{"namespace": name})] = m
		hour[series("", map[string]string{"namespace": name})] = 60
	}
	hour[`{namespace="unseen"}`] = 50
	boards := map[string]float64{
		`{UUID="GPU-new",serial="S1"}`: minutes["new"], `{UUID="GPU-joined",serial="S2"}`: minutes["joined"],
		`{UUID="GPU-unseen",serial="S3"}`: minutes["unseen"], `{UUID="GPU-rebooted",serial="S4"}`: minutes["rebooted"],
		`{UUID="GPU-twice",serial="S7"}`: minutes["twice"],
		`{UUID="GPU-renamed"}`:           239, `{UUID="GPU-renamed",serial="S5"}`: 1500,
		`{UUID="GPU-young"}`: 59, `{UUID="GPU-young",serial="S6"}`: 1500,
	}
	several := make(map[string]float64)
	for _, name := range []string{"renamed", "young"} {
		several[series("", map[string]string{"UUID": "GPU-" + name, "namespace": name, "pod": name, "pod_uid": "u-" + name})] = 2
	}
	return []question{
		ask("Energy of each namespace", 28*time.Hour, "1h", hour),
		ask("Energy of each namespace", until, "29h", namespaces),
		ask("Energy of each board", until, "29h", boards),
		{"Pods with several series on a GPU", until, map[string]string{"window": "29h"}, several},
		{"Hours that the rules have", until, map[string]string{"window": "29h"}, everyRule(29)},
	}
}

// everyRule returns the number of hours for which each energy rule has joules.
func everyRule(hours float64) map[string]float64 {
	want := make(map[string]float64)
	for _, of := range []string{"fleet", "namespace"} {
		want[`{rule="gpuledger:`+of+`_energy_joules:increase1h"}`] = hours
	}
	return want
}
