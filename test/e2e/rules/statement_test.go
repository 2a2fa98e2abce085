//go:build e2e

package rules_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// The day of the statements: the 24 hours after the first one.
var day = span{time.Hour, 25 * time.Hour}

// statements returns a day with all events that make counters hard to add up.
var statements = sync.OnceValue(func() *fleet {
	hm := func(hours, minutes int) time.Duration {
		return time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	}
	all := span{0, hm(48, 0)}
	f := &fleet{
		history: newHistory(15 * time.Second),
		boards: []board{
			{uuid: "GPU-1", serial: "S1", watts: 500, stays: map[string]span{"a": all}},
			// This board moves from one node to the other.
			{uuid: "GPU-2", serial: "S2", watts: 600, stays: map[string]span{"a": {0, hm(10, 10)}, "b": {hm(13, 5), hm(48, 0)}}},
			{uuid: "GPU-3", serial: "S3", watts: 300, stays: map[string]span{"b": all}},
		},
		pods: []pod{
			// This pod ends before its hour.
			{"alpha", "train", "u1", "GPU-1", span{hm(0, 5), hm(3, 20)}, 1, 0, false, ""},
			// This pod continues after reboots of its node.
			{"beta", "serve", "u2", "GPU-1", span{hm(4, 0), hm(48, 0)}, 0.75, 0, false, ""},
			{"alpha", "half", "u3", "GPU-2", span{hm(1, 0), hm(10, 10)}, 0.5, 0, false, ""},
			{"gamma", "other-half", "u4", "GPU-2", span{hm(1, 30), hm(10, 10)}, 0.5, 0, false, ""},
			{"delta", "unknown", "u5", "GPU-2", span{hm(14, 0), hm(20, 0)}, 0.75, 0, false, ""},
			// These pods run for less than a scrape interval.
			{"alpha", "spark", "u6", "GPU-3", span{hm(12, 30) + 35*time.Second, hm(12, 31) + 5*time.Second}, 1, 0, false, ""},
			{"gamma", "flash", "u7", "GPU-3", span{hm(16, 0) + 31*time.Second, hm(16, 1) + 10*time.Second}, 1, 0, false, ""},
			// This pod begins and runs without scrapes, except in its last minutes.
			{"beta", "unseen", "u8", "GPU-3", span{hm(6, 55), hm(7, 22)}, 0.25, 0, false, ""},
			// A job on the node that reboots, and a container that also uses a second board for three hours.
			{"", "4711", "j1", "GPU-1", span{hm(4, 10), hm(23, 10)}, 0.125, 0, false, "slurm"},
			{"", "vision", "c1", "GPU-3", span{hm(2, 0), hm(19, 0)}, 0.25, 0, false, "docker"},
			{"", "vision", "c2", "GPU-2", span{hm(15, 0), hm(18, 0)}, 0.25, 0, false, "docker"},
		},
		// Two reboots within an hour: at the second one the counters are young.
		off:    map[string][]span{"a": {{hm(14, 20), hm(14, 27)}, {hm(14, 48), hm(14, 52)}}},
		silent: map[string][]span{"a": {{hm(11, 0), hm(11, 2)}}, "b": {{hm(17, 58), hm(18, 1)}}},
		blind:  []span{{hm(6, 50), hm(7, 25)}, {hm(21, 3), hm(23, 40)}},
		second: []span{{hm(9, 10), hm(9, 30)}, {hm(19, 55), hm(22, 0)}},
	}
	f.simulate(hm(27, 0), day, rand.New(rand.NewPCG(1, 2)))
	// Prometheus has the created timestamp of this counter.
	f.add(series(allocationEnergy, map[string]string{
		"node": "b", "UUID": "GPU-3", "serial": "S3", "namespace": "gamma", "pod": "flash", "pod_uid": "u7",
	}), hm(16, 0)+30*time.Second, 0)
	f.people()
	return f
})

// people adds the teams of pods and namespaces.
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
		// The root of its owner chain becomes known after a minute, and two replicas of the
		// reconciler serve it.
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
	const retired = 23*time.Hour + 10*time.Minute
	// The user of the job becomes known late.
	job := map[string]string{"node": "a", "manager": "slurm", "unit": "4711"}
	f.constant(series("gpuledger_unit_info", job), 4*time.Hour+10*time.Minute, 5*time.Hour+20*time.Minute, 1)
	f.constant(series("gpuledger_unit_info", with(job, "account", "physics", "uid", "1000", "user", "alice")), 5*time.Hour+20*time.Minute, retired, 1)
	f.constant(series("gpuledger_unit_info", map[string]string{"node": "b", "manager": "docker", "unit": "vision", "uid": "1001"}), 2*time.Hour, 19*time.Hour, 1)
	for namespace, team := range teamOfNamespace {
		f.constant(series("kube_namespace_labels", map[string]string{"namespace": namespace, "label_team": team}), 90*time.Minute, until, 1)
	}
	// Before that, alpha belonged to another team.
	f.constant(series("kube_namespace_labels", map[string]string{"namespace": "alpha", "label_team": "old"}), 0, 90*time.Minute, 1)
}

// delta has no series in kube-state-metrics, and its pod none in the reconciler.
var (
	teamOfNamespace = map[string]string{"alpha": "red", "beta": "blue", "gamma": ""}
	workloadOfPod   = map[string]string{"u1": "train", "u2": "serve", "u3": "train", "u4": "other", "u6": "train", "u7": "other", "u8": "serve"}
	teamOfPod       = map[string]string{"u1": "red", "u2": "blue", "u3": "red", "u4": "green", "u6": "red", "u7": "green", "u8": "blue"}
)

// sum walks through the samples of a counter: each adds the growth since the sample before, or its
// whole value if the counter restarted. A series without a sample in the day before adds its first
// value if it was created in that day. The key of a series is its group; "" omits the series.
func (h *history) sum(metric string, window span, key func(labels map[string]string) string) map[string]float64 {
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

// young reports whether a counter was created in the day before the hour of a sample.
func (h *history) young(labels map[string]string, slot int) bool {
	of := maps.Clone(labels)
	delete(of, "__name__")
	created, err := strconv.ParseFloat(h.series[series(createdOf(labels["__name__"]), of)][slot], 64)
	hour := (time.Duration(slot)*h.interval - 1).Truncate(time.Hour)
	return err == nil && created >= (hour-daily).Seconds()
}

var (
	word = regexp.MustCompile(`^\w+`)
	pair = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// parse is the inverse of series.
func parse(text string) map[string]string {
	labels := map[string]string{"__name__": word.FindString(text)}
	for _, p := range pair.FindAllStringSubmatch(text, -1) {
		labels[p[1]] = p[2]
	}
	return labels
}

// by returns a key of labels as promtool writes them.
func by(names ...string) func(map[string]string) string {
	return func(labels map[string]string) string {
		some := make(map[string]string)
		for _, n := range names {
			some[n] = labels[n]
		}
		return series("", some)
	}
}

// statement evaluates the hours of the day, and the day.
func statement() world {
	f := statements()
	w := world{name: "hours", history: f.history, evaluate: 15 * time.Minute, questions: f.totals()}
	for to := day.from + time.Hour; to <= day.to; to += time.Hour {
		w.questions = append(w.questions, f.energy("1h", span{to - time.Hour, to})...)
	}
	return w
}

// statementAtPhases evaluates the rules at several moments of the hour. At 0, promtool evaluates
// the previous hour again at its end.
func statementAtPhases() []world {
	f := statements()
	var all []world
	for _, phase := range []time.Duration{30 * time.Second, time.Minute, 90 * time.Second, 8 * time.Minute, 14*time.Minute + 30*time.Second} {
		all = append(all, world{
			name: fmt.Sprint("hours at ", phase), history: f.history, phase: phase, evaluate: 15 * time.Minute, questions: f.totals(),
		})
	}
	return all
}

// energy returns the statements of full hours.
func (f *fleet) energy(window string, counted span) []question {
	ask := func(title string, want map[string]float64) question {
		return question{title, counted.to, map[string]string{"window": window, "cluster": ".*", "price": "0.5", "namespace": "alpha", "serial": "S1"}, want}
	}
	cost := func(joules map[string]float64) map[string]float64 {
		for team := range joules {
			joules[team] *= 0.5 / 3.6e6
		}
		return joules
	}
	ofWorkload := workload("namespace", "workload_kind", "workload_name")
	return []question{
		ask("Energy of each namespace", f.sum(allocationEnergy, counted, by("namespace"))),
		ask("Energy of each workload", f.sum(allocationEnergy, counted, ofWorkload)),
		ask("GPU hours of each namespace", hours(f.sum(allocationGPU, counted, by("namespace")))),
		ask("GPU hours of each workload", hours(f.sum(allocationGPU, counted, ofWorkload))),
		ask("GPU hours of each namespace and model", hours(f.sum(allocationGPU, counted, func(labels map[string]string) string {
			return series("", map[string]string{"namespace": labels["namespace"], "model": model(labels["UUID"])})
		}))),
		ask("Idle energy of each namespace", f.sum(allocationIdle, counted, by("namespace"))),
		ask("Idle energy of each workload", f.sum(allocationIdle, counted, ofWorkload)),
		ask("Active GPU hours of each namespace", hours(f.sum(allocationActive, counted, by("namespace")))),
		ask("Active GPU hours of each workload", hours(f.sum(allocationActive, counted, ofWorkload))),
		ask("Energy and cost of each team, by the label of its namespaces", cost(f.sum(allocationEnergy, counted, namespaceTeam))),
		ask("Energy of each unit", f.sum(unitEnergy, counted, by("manager", "unit"))),
		ask("Idle energy of each unit", f.sum(unitIdle, counted, by("manager", "unit"))),
		ask("GPU hours of each unit", hours(f.sum(unitGPU, counted, by("manager", "unit")))),
		ask("Active GPU hours of each unit", hours(f.sum(unitActive, counted, by("manager", "unit")))),
		ask("Energy of each board", f.sum(boardEnergy, counted, by("UUID", "serial"))),
		ask("Energy of each board that no pod or unit was charged for", f.uncharged(counted, by("UUID", "serial"))),
		ask("Energy that no pod or unit was charged for", f.uncharged(counted, by())),
		ask("Pods of a board and their energy", f.sum(allocationEnergy, counted, func(labels map[string]string) string {
			if labels["serial"] != "S1" {
				return ""
			}
			return by("serial", "namespace", "pod", "pod_uid")(labels)
		})),
	}
}

// hours converts seconds.
func hours(seconds map[string]float64) map[string]float64 {
	for of := range seconds {
		seconds[of] /= 3600
	}
	return seconds
}

// uncharged returns the energy of boards minus that of their pods and units.
func (f *fleet) uncharged(counted span, key func(map[string]string) string) map[string]float64 {
	rest := f.sum(boardEnergy, counted, key)
	for _, metric := range []string{allocationEnergy, unitEnergy} {
		for of, joules := range f.sum(metric, counted, key) {
			rest[of] -= joules
		}
	}
	return rest
}

// workload is like by, with the reconciler's labels of a pod.
func workload(names ...string) func(map[string]string) string {
	return func(labels map[string]string) string {
		all := maps.Clone(labels)
		if name := workloadOfPod[labels["pod_uid"]]; name != "" {
			all["workload_kind"], all["workload_name"] = "Job", name
		}
		return by(names...)(all)
	}
}

// totals returns the statements of the day.
func (f *fleet) totals() []question {
	at, variables := day.to, map[string]string{"window": "1d", "price": "0.5", "workload_uid": "w-train"}
	train := f.sum(allocationGPU, day, func(labels map[string]string) string {
		if workloadOfPod[labels["pod_uid"]] != "train" {
			return ""
		}
		return workload("namespace", "workload_kind", "workload_name")(labels)
	})
	for of := range train {
		train[of] /= 86400
	}
	teams := f.sum(allocationEnergy, day, podTeam)
	for team := range teams {
		teams[team] *= 0.5 / 3.6e6
	}
	return append(f.energy("1d", day),
		question{"Energy and cost of each team, by the label of its pods", at, variables, teams},
		question{"How many GPUs did a workload use on average over the day", at, variables, train},
		// In one hour nothing was scraped.
		question{"Hours that the rules have", at, variables, everyRule(23)},
		// The hour before the day is the first one of this Prometheus, so no rule has it.
		question{"Energy that no pod or unit was charged for", at, map[string]string{"window": "2d"}, f.uncharged(day, by())},
	)
}

func namespaceTeam(labels map[string]string) string {
	return series("", map[string]string{"label_team": teamOfNamespace[labels["namespace"]]})
}

func podTeam(labels map[string]string) string {
	return series("", map[string]string{"label_team": teamOfPod[labels["pod_uid"]]})
}

// TestStatementIsComplete checks that the hours add up to the day, and that the day has all drawn
// energy.
func TestStatementIsComplete(t *testing.T) {
	f := statements()
	everything := func(map[string]string) string { return "all" }
	board := f.sum(boardEnergy, day, everything)["all"]
	near(t, "boards", board, f.truth.board, 1e-3)
	namespaces := f.sum(allocationEnergy, day, func(labels map[string]string) string { return labels["namespace"] })
	// The bounds of the day are between two scrapes, and the energy of beta is off by that of two
	// reboots.
	for namespace, joules := range namespaces {
		near(t, namespace, joules, f.truth.namespaces[namespace], 2e-3)
	}
	hours := 0.0
	for at := day.from; at < day.to; at += time.Hour {
		hours += f.sum(boardEnergy, span{at, at + time.Hour}, everything)["all"]
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
