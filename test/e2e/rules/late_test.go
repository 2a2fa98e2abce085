//go:build e2e

package rules_test

import (
	"time"

	"github.com/gpuledger/gpuledger/test/worlds"
)

// late contains counters that start while nothing is scraped.
func late() world {
	return world{name: "late", history: worlds.Late(), evaluate: 15 * time.Minute, questions: lateQuestions()}
}

// lateQuestions returns questions about the 29 hours after the first hour, and about single hours. The expected
// energies are written as numbers of minutes at 100 W.
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
		"new":      1 + 1610, // includes the energy before the first scrape
		"joined":   1610,     // excludes the energy before the first scrape
		"unseen":   59 + 170, // excludes the day in which nothing was scraped
		"rebooted": 419 + 60 + 1170,
		"twice":    419 + 15 + 1155, // two restarts; the first restart was not scraped
		"renamed":  239 + 1500,
		"young":    59 + 1500,
	}
	namespaces, hour := make(map[string]float64), make(map[string]float64)
	for name, m := range minutes {
		namespaces[worlds.Series("", map[string]string{"namespace": name})] = m
		hour[worlds.Series("", map[string]string{"namespace": name})] = 60
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
		several[worlds.Series("", map[string]string{"UUID": "GPU-" + name, "namespace": name, "pod": name, "pod_uid": "u-" + name})] = 2
	}
	return []question{
		ask("Energy of each namespace", 28*time.Hour, "1h", hour),
		ask("Energy of each namespace", until, "29h", namespaces),
		ask("Energy of each board", until, "29h", boards),
		{"Pods with several series on a GPU", until, map[string]string{"window": "29h"}, several},
		{"Hours for which the rules have results", until, map[string]string{"window": "29h"}, everyRule(29)},
	}
}

// everyRule expects results of each energy rule for the given number of hours.
func everyRule(hours float64) map[string]float64 {
	want := make(map[string]float64)
	for _, of := range []string{"fleet", "namespace"} {
		want[`{rule="gpuledger:`+of+`_energy_joules:increase1h"}`] = hours
	}
	return want
}
