//go:build e2e

package rules_test

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// The day that statements are made of: the 24 hours after the first one.
var day = span{time.Hour, 25 * time.Hour}

// statements is a day in which all happens that makes counters hard to add up.
var statements = sync.OnceValue(func() *fleet {
	hm := func(hours, minutes int) time.Duration {
		return time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	}
	all := span{0, hm(48, 0)}
	f := &fleet{
		history: newHistory(15 * time.Second),
		boards: []board{
			{uuid: "GPU-1", serial: "S1", watts: 500, stays: map[string]span{"a": all}},
			// It moves from one node to the other.
			{uuid: "GPU-2", serial: "S2", watts: 600, stays: map[string]span{"a": {0, hm(10, 10)}, "b": {hm(13, 5), hm(48, 0)}}},
			{uuid: "GPU-3", serial: "S3", watts: 300, stays: map[string]span{"b": all}},
		},
		pods: []pod{
			// It ends before its hour does.
			{"alpha", "train", "u1", "GPU-1", span{hm(0, 5), hm(3, 20)}, 1},
			// It goes on after its node's reboots.
			{"beta", "serve", "u2", "GPU-1", span{hm(4, 0), hm(48, 0)}, 1},
			{"alpha", "half", "u3", "GPU-2", span{hm(1, 0), hm(10, 10)}, 0.5},
			{"gamma", "other-half", "u4", "GPU-2", span{hm(1, 30), hm(10, 10)}, 0.5},
			{"delta", "unknown", "u5", "GPU-2", span{hm(14, 0), hm(20, 0)}, 1},
			// They live for less than the time between two scrapes.
			{"alpha", "spark", "u6", "GPU-3", span{hm(12, 30) + 35*time.Second, hm(12, 31) + 5*time.Second}, 1},
			{"gamma", "flash", "u7", "GPU-3", span{hm(16, 0) + 31*time.Second, hm(16, 1) + 10*time.Second}, 1},
			// It is born, lives and ends while nobody looks, but for its last minutes.
			{"beta", "unseen", "u8", "GPU-3", span{hm(6, 55), hm(7, 22)}, 0.25},
		},
		// Twice within an hour: the second time the counters are young.
		off:    map[string][]span{"a": {{hm(14, 20), hm(14, 27)}, {hm(14, 48), hm(14, 52)}}},
		silent: map[string][]span{"a": {{hm(11, 0), hm(11, 2)}}, "b": {{hm(17, 58), hm(18, 1)}}},
		blind:  []span{{hm(6, 50), hm(7, 25)}, {hm(21, 3), hm(23, 40)}},
		second: []span{{hm(9, 10), hm(9, 30)}, {hm(19, 55), hm(22, 0)}},
	}
	f.simulate(hm(27, 0), day)
	// Prometheus was told when this counter began.
	f.add(series(allocationEnergy, map[string]string{
		"node": "b", "UUID": "GPU-3", "serial": "S3", "namespace": "gamma", "pod": "flash", "pod_uid": "u7",
	}), hm(16, 0)+30*time.Second, 0)
	f.people()
	return f
})

// people adds who pods and namespaces belong to.
func (f *fleet) people() {
	const until = 27 * time.Hour
	for _, p := range f.pods {
		uid, workload := p.uid, workloadOfPod[p.uid]
		if workload == "" {
			continue
		}
		who := map[string]string{
			"namespace": p.namespace, "pod": p.name, "pod_uid": uid,
			"workload_kind": "Job", "workload_name": workload, "workload_uid": "w-" + workload,
		}
		from, to := p.from.Truncate(f.interval), min(p.to.Truncate(f.interval)+retention, until)
		// The root of its owners becomes known after a minute, and two replicas of the
		// reconciler say it.
		early := maps.Clone(who)
		early["workload_kind"], early["workload_name"], early["workload_uid"] = "ReplicaSet", "x", "w-x"
		f.constant(series("gpuledger_pod_info", early), from, from+time.Minute, 1)
		for _, replica := range []string{"1", "2"} {
			who["instance"] = replica
			f.constant(series("gpuledger_pod_info", who), from+time.Minute, to, 1)
		}
		f.constant(series("gpuledger_pod_labels", map[string]string{
			"namespace": p.namespace, "pod": p.name, "pod_uid": uid, "label_team": teamOfPod[uid],
		}), from, to, 1)
	}
	for namespace, team := range teamOfNamespace {
		f.constant(series("kube_namespace_labels", map[string]string{"namespace": namespace, "label_team": team}), 90*time.Minute, until, 1)
	}
	// Before that, alpha was another team's.
	f.constant(series("kube_namespace_labels", map[string]string{"namespace": "alpha", "label_team": "old"}), 0, 90*time.Minute, 1)
}

// delta is in no series of kube-state-metrics, and its pod in none of the reconciler.
var (
	teamOfNamespace = map[string]string{"alpha": "red", "beta": "blue", "gamma": ""}
	workloadOfPod   = map[string]string{"u1": "train", "u2": "serve", "u3": "train", "u4": "other", "u6": "train", "u7": "other", "u8": "serve"}
	teamOfPod       = map[string]string{"u1": "red", "u2": "blue", "u3": "red", "u4": "green", "u6": "red", "u7": "green", "u8": "blue"}
)

// joules walks through the samples: each adds what its counter grew since the sample
// before, or all it says if the counter began anew. Without a sample of the day before,
// a pod has all it says if it is younger than a day, and whatever else has nothing yet.
// The key of a series says what it belongs to; "" is nothing.
func (h *history) joules(metric string, window span, key func(labels map[string]string) string) map[string]float64 {
	sums := make(map[string]float64)
	for name, slots := range h.series {
		labels := parse(name)
		if labels["__name__"] != metric || key(labels) == "" {
			continue
		}
		var last float64
		seen := -daily - time.Second
		for _, slot := range slices.Sorted(maps.Keys(slots)) {
			value, err := strconv.ParseFloat(slots[slot], 64)
			if err != nil { // stale
				continue
			}
			at := time.Duration(slot) * h.interval
			if at-seen > daily && !h.young(labels, slot) {
				last = value
			}
			grown := value - last
			if grown < 0 {
				grown = value
			}
			last, seen = value, at
			if window.from < at && at <= window.to {
				sums[key(labels)] += grown
			}
		}
	}
	return sums
}

// young says whether a series is of a pod that is not older than a day.
func (h *history) young(labels map[string]string, slot int) bool {
	of := maps.Clone(labels)
	delete(of, "__name__")
	held, err := strconv.ParseFloat(h.series[series(allocationSeconds, of)][slot], 64)
	return err == nil && held <= daily.Seconds()
}

var (
	word = regexp.MustCompile(`^\w+`)
	pair = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// parse reads what series wrote.
func parse(text string) map[string]string {
	labels := map[string]string{"__name__": word.FindString(text)}
	for _, p := range pair.FindAllStringSubmatch(text, -1) {
		labels[p[1]] = p[2]
	}
	return labels
}

// by is a key of labels as promtool writes them.
func by(names ...string) func(map[string]string) string {
	return func(labels map[string]string) string {
		some := make(map[string]string)
		for _, n := range names {
			some[n] = labels[n]
		}
		return series("", some)
	}
}

// statement is the hours of the day.
func statement() world {
	f := statements()
	w := world{name: "hours", history: f.history, evaluate: 10 * time.Minute}
	for at := day.from + time.Hour; at <= day.to; at += time.Hour {
		w.questions = append(w.questions, f.window(at, "1h", span{at - time.Hour, at})...)
	}
	// promtool evaluates rules at full hours, too, where a server hardly ever does.
	w.questions = append(w.questions, f.months()[:2]...)
	return w
}

// statementOfDay is the day itself, and what the rules know of its hours.
func statementOfDay() world {
	f := statements()
	return world{
		name: "day", history: f.history,
		// The joules of namespaces are those of their workloads.
		rules:     []string{rules("energy.yaml"), rules("energy.yaml")},
		questions: append(f.window(day.to, "1d", day), f.months()...),
	}
}

// monthAtPhases is what the rules know when they are evaluated every 20 minutes, at
// several moments of the hour. At 0, the hour before is told once more as it ends.
func monthAtPhases() []world {
	f := statements()
	var all []world
	for _, phase := range []time.Duration{0, 30 * time.Second, time.Minute, 90 * time.Second} {
		all = append(all, world{
			name: fmt.Sprint("months at ", phase), history: f.history, phase: phase, evaluate: 20 * time.Minute, questions: f.months(),
		})
	}
	return all
}

// window is the statements of a window.
func (f *fleet) window(at time.Duration, window string, counted span) []question {
	ask := func(title, metric string, key func(map[string]string) string) question {
		return question{title, at, map[string]string{"window": window}, f.joules(metric, counted, key)}
	}
	questions := []question{
		ask("Joules of each namespace", allocationEnergy, by("namespace")),
		ask("Joules of each workload", allocationEnergy, workload("namespace", "workload_kind", "workload_name")),
		ask("Joules of each team, by the label of its namespaces", allocationEnergy, namespaceTeam),
		ask("Joules of each team, by the label of its pods", allocationEnergy, podTeam),
		ask("Joules of each board", boardEnergy, by("UUID", "serial")),
	}
	rest := f.uncharged(counted, by("UUID", "serial"))
	return append(questions, question{"Joules of each board that no pod was charged for", at, map[string]string{"window": window}, rest})
}

// uncharged is what boards used and no pod was charged for.
func (f *fleet) uncharged(counted span, key func(map[string]string) string) map[string]float64 {
	rest := f.joules(boardEnergy, counted, key)
	for of, joules := range f.joules(allocationEnergy, counted, key) {
		rest[of] -= joules
	}
	return rest
}

// workload is by, with the labels that the reconciler knows of a pod.
func workload(names ...string) func(map[string]string) string {
	return func(labels map[string]string) string {
		all := maps.Clone(labels)
		if name := workloadOfPod[labels["pod_uid"]]; name != "" {
			all["workload_kind"], all["workload_name"] = "Job", name
		}
		return by(names...)(all)
	}
}

// months is what the rules answer about the day, half an hour later.
func (f *fleet) months() []question {
	const at = 25*time.Hour + 30*time.Minute
	ask := func(title string, want map[string]float64) question {
		return question{title, at, map[string]string{"window": "1d", "price": "0.5", "namespace": "alpha", "workload": "train"}, want}
	}
	// The hour before the day is the first one of this Prometheus, and in no rule.
	nobody := by()
	rest := f.uncharged(day, nobody)
	cost := func(joules map[string]float64) map[string]float64 {
		for team := range joules {
			joules[team] *= 0.5 / 3.6e6
		}
		return joules
	}
	return []question{
		ask("Joules of each namespace over a month", f.joules(allocationEnergy, day, by("namespace"))),
		ask("Joules that no pod was charged for, over a month", rest),
		{"Joules that no pod was charged for, over a month", at, map[string]string{"window": "2d"}, rest},
		// In one hour nobody looked.
		ask("How many hours of the month are there", everyRule(23)),
		ask("Joules of each board over a day", f.joules(boardEnergy, day, by("UUID", "serial"))),
		ask("Joules of each board that no pod was charged for, over a day", f.uncharged(day, by("UUID", "serial"))),
		ask("Energy and cost of each team over a month, by the label of its namespaces",
			cost(f.joules(allocationEnergy, day, namespaceTeam))),
		ask("Energy and cost of each team over a month, by the label of its pods",
			cost(f.joules(allocationEnergy, day, podTeam))),
		ask("Joules of a workload over all its restarts", f.joules(allocationEnergy, day, func(labels map[string]string) string {
			if labels["namespace"] != "alpha" {
				return ""
			}
			return workload("namespace", "workload_kind", "workload_name")(labels)
		})),
	}
}

func namespaceTeam(labels map[string]string) string {
	return series("", map[string]string{"label_team": teamOfNamespace[labels["namespace"]]})
}

func podTeam(labels map[string]string) string {
	return series("", map[string]string{"label_team": teamOfPod[labels["pod_uid"]]})
}

// TestStatementIsComplete: the hours are the day, and the day is what was drawn.
func TestStatementIsComplete(t *testing.T) {
	f := statements()
	everything := func(map[string]string) string { return "all" }
	board := f.joules(boardEnergy, day, everything)["all"]
	near(t, "boards", board, f.truth.board, 1e-3)
	namespaces := f.joules(allocationEnergy, day, func(labels map[string]string) string { return labels["namespace"] })
	// The bounds of the day lie between two scrapes, and two reboots are all beta's.
	for namespace, joules := range namespaces {
		near(t, namespace, joules, f.truth.namespaces[namespace], 2e-3)
	}
	hours := 0.0
	for at := day.from; at < day.to; at += time.Hour {
		hours += f.joules(boardEnergy, span{at, at + time.Hour}, everything)["all"]
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
