//go:build e2e

package rules_test

import (
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/test/worlds"
)

// statement contains questions about each hour of the day, and about the whole day.
func statement() world {
	f := worlds.Statements()
	w := world{name: "hours", history: f.History, evaluate: 15 * time.Minute, questions: totals(f)}
	for to := worlds.Day.From + time.Hour; to <= worlds.Day.To; to += time.Hour {
		w.questions = append(w.questions, energyOf(f, "1h", worlds.Span{From: to - time.Hour, To: to})...)
	}
	return w
}

// statementAtPhases evaluates the rules at different times of the hour. It omits the phase 0, because promtool would
// evaluate the previous hour again at the end of that hour.
func statementAtPhases() []world {
	f := worlds.Statements()
	var all []world
	for _, phase := range []time.Duration{30 * time.Second, time.Minute, 90 * time.Second, 8 * time.Minute, 14*time.Minute + 30*time.Second} {
		all = append(all, world{
			name: fmt.Sprint("hours at ", phase), history: f.History, phase: phase, evaluate: 15 * time.Minute, questions: totals(f),
		})
	}
	return all
}

func energyOf(f *worlds.Fleet, window string, counted worlds.Span) []question {
	ask := func(title string, want map[string]float64) question {
		return question{title, counted.To, map[string]string{"window": window, "cluster": ".*", "price": "0.5", "namespace": "alpha", "serial": "S1"}, want}
	}
	cost := func(joules map[string]float64) map[string]float64 {
		for team := range joules {
			joules[team] *= 0.5 / 3.6e6
		}
		return joules
	}
	ofWorkload := workload("namespace", "workload_kind", "workload_name")
	return []question{
		ask("Energy of each namespace", f.Sum(worlds.AllocationEnergy, counted, worlds.By("namespace"))),
		ask("Energy of each workload", f.Sum(worlds.AllocationEnergy, counted, ofWorkload)),
		ask("GPU hours of each namespace", hours(f.Sum(worlds.AllocationGPU, counted, worlds.By("namespace")))),
		ask("GPU hours of each workload", hours(f.Sum(worlds.AllocationGPU, counted, ofWorkload))),
		ask("GPU hours of each namespace and model", hours(f.Sum(worlds.AllocationGPU, counted, func(labels map[string]string) string {
			return worlds.Series("", map[string]string{"namespace": labels["namespace"], "model": worlds.Model(labels["UUID"])})
		}))),
		ask("Idle energy of each namespace", f.Sum(worlds.AllocationIdle, counted, worlds.By("namespace"))),
		ask("Idle energy of each workload", f.Sum(worlds.AllocationIdle, counted, ofWorkload)),
		ask("Active GPU hours of each namespace", hours(f.Sum(worlds.AllocationActive, counted, worlds.By("namespace")))),
		ask("Active GPU hours of each workload", hours(f.Sum(worlds.AllocationActive, counted, ofWorkload))),
		ask("Energy and cost of each team, by the label of its namespaces", cost(f.Sum(worlds.AllocationEnergy, counted, namespaceTeam))),
		ask("Energy of each unit", f.Sum(worlds.UnitEnergy, counted, worlds.By("manager", "unit"))),
		ask("Idle energy of each unit", f.Sum(worlds.UnitIdle, counted, worlds.By("manager", "unit"))),
		ask("GPU hours of each unit", hours(f.Sum(worlds.UnitGPU, counted, worlds.By("manager", "unit")))),
		ask("Active GPU hours of each unit", hours(f.Sum(worlds.UnitActive, counted, worlds.By("manager", "unit")))),
		ask("Energy of each board", f.Sum(worlds.BoardEnergy, counted, worlds.By("UUID", "serial"))),
		ask("Energy of each board that no pod or unit was charged for", f.Uncharged(counted, worlds.By("UUID", "serial"))),
		ask("Energy that no pod or unit was charged for", f.Uncharged(counted, worlds.By())),
		ask("Pods of a board and their energy", f.Sum(worlds.AllocationEnergy, counted, func(labels map[string]string) string {
			if labels["serial"] != "S1" {
				return ""
			}
			return worlds.By("serial", "namespace", "pod", "pod_uid")(labels)
		})),
	}
}

func hours(seconds map[string]float64) map[string]float64 {
	for of := range seconds {
		seconds[of] /= 3600
	}
	return seconds
}

// workload is like [worlds.By], but first adds the labels that the reconciler has for a pod.
func workload(names ...string) func(map[string]string) string {
	return func(labels map[string]string) string {
		all := maps.Clone(labels)
		if name := worlds.WorkloadOfPod[labels["pod_uid"]]; name != "" {
			all["workload_kind"], all["workload_name"] = "Job", name
		}
		return worlds.By(names...)(all)
	}
}

func totals(f *worlds.Fleet) []question {
	at, variables := worlds.Day.To, map[string]string{"window": "1d", "price": "0.5", "workload_uid": "w-train"}
	train := f.Sum(worlds.AllocationGPU, worlds.Day, func(labels map[string]string) string {
		if worlds.WorkloadOfPod[labels["pod_uid"]] != "train" {
			return ""
		}
		return workload("namespace", "workload_kind", "workload_name")(labels)
	})
	for of := range train {
		train[of] /= 86400
	}
	teams := f.Sum(worlds.AllocationEnergy, worlds.Day, podTeam)
	for team := range teams {
		teams[team] *= 0.5 / 3.6e6
	}
	return append(energyOf(f, "1d", worlds.Day),
		question{"Energy and cost of each team, by the label of its pods", at, variables, teams},
		question{"How many GPUs did a workload use on average over the day", at, variables, train},
		// The missing hour was not scraped.
		question{"Hours for which the rules have results", at, variables, everyRule(23)},
		// The rules have no result for the hour before the day, because it is the first hour of this Prometheus.
		question{"Energy that no pod or unit was charged for", at, map[string]string{"window": "2d"}, f.Uncharged(worlds.Day, worlds.By())},
	)
}

func namespaceTeam(labels map[string]string) string {
	return worlds.Series("", map[string]string{"label_team": worlds.TeamOfNamespace[labels["namespace"]]})
}

func podTeam(labels map[string]string) string {
	return worlds.Series("", map[string]string{"label_team": worlds.TeamOfPod[labels["pod_uid"]]})
}

// TestStatementIsComplete checks that the hours add up to the day. The day must contain all energy that was drawn.
func TestStatementIsComplete(t *testing.T) {
	f := worlds.Statements()
	everything := func(map[string]string) string { return "all" }
	board := f.Sum(worlds.BoardEnergy, worlds.Day, everything)["all"]
	near(t, "boards", board, f.Truth.Board, 1e-3)
	namespaces := f.Sum(worlds.AllocationEnergy, worlds.Day, func(labels map[string]string) string { return labels["namespace"] })
	// The day begins and ends between two scrapes, so there is a small difference. The namespace beta also lacks the
	// energy during two reboots.
	for namespace, joules := range namespaces {
		near(t, namespace, joules, f.Truth.Namespaces[namespace], 2e-3)
	}
	hours := 0.0
	for at := worlds.Day.From; at < worlds.Day.To; at += time.Hour {
		hours += f.Sum(worlds.BoardEnergy, worlds.Span{From: at, To: at + time.Hour}, everything)["all"]
	}
	near(t, "24 hours", hours, board, 1e-12)
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	t.Logf("%s: %.0f J, %.0f J were drawn (%+.4f %%)", what, got, want, 100*(got/want-1))
	if math.Abs(got-want) > tolerance*want {
		t.Errorf("%s: %.0f J, want %.0f J", what, got, want)
	}
}
