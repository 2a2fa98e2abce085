package worlds

import (
	"maps"
	"math/rand/v2"
	"sync"
	"time"
)

// Day contains 24 hours, from one hour after the start of a history.
var Day = Span{time.Hour, 25 * time.Hour}

// Statements returns a day with all events that make counters difficult to add up.
var Statements = sync.OnceValue(func() *Fleet {
	hm := func(hours, minutes int) time.Duration {
		return time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	}
	all := Span{0, hm(48, 0)}
	f := &Fleet{
		History: New(15 * time.Second),
		boards: []board{
			{uuid: "GPU-1", serial: "S1", watts: 500, stays: map[string]Span{"a": all}},
			// This board moves from one node to the other.
			{uuid: "GPU-2", serial: "S2", watts: 600, stays: map[string]Span{"a": {0, hm(10, 10)}, "b": {hm(13, 5), hm(48, 0)}}},
			{uuid: "GPU-3", serial: "S3", watts: 300, stays: map[string]Span{"b": all}},
		},
		pods: []pod{
			// This pod ends before the hour ends.
			{"alpha", "train", "u1", "GPU-1", Span{hm(0, 5), hm(3, 20)}, 1, 0, false, ""},
			// This pod continues after reboots of its node.
			{"beta", "serve", "u2", "GPU-1", Span{hm(4, 0), hm(48, 0)}, 0.75, 0, false, ""},
			{"alpha", "half", "u3", "GPU-2", Span{hm(1, 0), hm(10, 10)}, 0.5, 0, false, ""},
			{"gamma", "other-half", "u4", "GPU-2", Span{hm(1, 30), hm(10, 10)}, 0.5, 0, false, ""},
			{"delta", "unknown", "u5", "GPU-2", Span{hm(14, 0), hm(20, 0)}, 0.75, 0, false, ""},
			// These pods run for less than a scrape interval.
			{"alpha", "spark", "u6", "GPU-3", Span{hm(12, 30) + 35*time.Second, hm(12, 31) + 5*time.Second}, 1, 0, false, ""},
			{"gamma", "flash", "u7", "GPU-3", Span{hm(16, 0) + 31*time.Second, hm(16, 1) + 10*time.Second}, 1, 0, false, ""},
			// This pod is scraped only in its last minutes.
			{"beta", "unseen", "u8", "GPU-3", Span{hm(6, 55), hm(7, 22)}, 0.25, 0, false, ""},
			// a job on the node that reboots, and a container that uses a second board for three hours
			{"", "4711", "j1", "GPU-1", Span{hm(4, 10), hm(23, 10)}, 0.125, 0, false, "slurm"},
			{"", "vision", "c1", "GPU-3", Span{hm(2, 0), hm(19, 0)}, 0.25, 0, false, "docker"},
			{"", "vision", "c2", "GPU-2", Span{hm(15, 0), hm(18, 0)}, 0.25, 0, false, "docker"},
		},
		// There are two reboots within an hour. At the second reboot, the counters are still low.
		off:    map[string][]Span{"a": {{hm(14, 20), hm(14, 27)}, {hm(14, 48), hm(14, 52)}}},
		silent: map[string][]Span{"a": {{hm(11, 0), hm(11, 2)}}, "b": {{hm(17, 58), hm(18, 1)}}},
		blind:  []Span{{hm(6, 50), hm(7, 25)}, {hm(21, 3), hm(23, 40)}},
		second: []Span{{hm(9, 10), hm(9, 30)}, {hm(19, 55), hm(22, 0)}},
	}
	f.simulate(hm(27, 0), Day, rand.New(rand.NewPCG(1, 2)))
	// Prometheus adds a sample with the value 0 at the created timestamp of this counter.
	f.Add(Series(AllocationEnergy, map[string]string{
		"node": "b", "UUID": "GPU-3", "serial": "S3", "namespace": "gamma", "pod": "flash", "pod_uid": "u7",
	}), hm(16, 0)+30*time.Second, 0)
	f.people()
	return f
})

func (f *Fleet) people() {
	const until = 27 * time.Hour
	for _, p := range f.pods {
		uid, workload := p.uid, WorkloadOfPod[p.uid]
		if workload == "" {
			continue
		}
		who := map[string]string{
			"namespace": p.namespace, "pod": p.name, "pod_uid": uid,
			"workload_kind": "Job", "workload_name": workload, "workload_uid": "w-" + workload,
		}
		from, to := p.From.Truncate(f.Interval), min(p.To.Truncate(f.Interval)+retention, until)
		// The root of the owner chain becomes known after a minute. Then two replicas of the reconciler serve it.
		early := maps.Clone(who)
		early["workload_kind"], early["workload_name"], early["workload_uid"] = "ReplicaSet", "x", "w-x"
		f.Constant(Series("gpuledger_pod_info", early), from, from+time.Minute, 1)
		for _, replica := range []string{"1", "2"} {
			who["instance"] = replica
			f.Constant(Series("gpuledger_pod_info", who), from+time.Minute, to, 1)
		}
		f.Constant(Series("gpuledger_pod_labels", map[string]string{
			"namespace": p.namespace, "pod": p.name, "pod_uid": uid, "label_team": TeamOfPod[uid],
		}), from, to, 1)
	}
	const retired = 23*time.Hour + 10*time.Minute
	// The user of the job becomes known late.
	job := map[string]string{"node": "a", "manager": "slurm", "unit": "4711"}
	f.Constant(Series("gpuledger_unit_info", job), 4*time.Hour+10*time.Minute, 5*time.Hour+20*time.Minute, 1)
	f.Constant(Series("gpuledger_unit_info", With(job, "account", "physics", "uid", "1000", "user", "alice")), 5*time.Hour+20*time.Minute, retired, 1)
	f.Constant(Series("gpuledger_unit_info", map[string]string{"node": "b", "manager": "docker", "unit": "vision", "uid": "1001"}), 2*time.Hour, 19*time.Hour, 1)
	for namespace, team := range TeamOfNamespace {
		f.Constant(Series("kube_namespace_labels", map[string]string{"namespace": namespace, "label_team": team}), 90*time.Minute, until, 1)
	}
	// At first, the namespace alpha belongs to another team.
	f.Constant(Series("kube_namespace_labels", map[string]string{"namespace": "alpha", "label_team": "old"}), 0, 90*time.Minute, 1)
}

// The namespace delta has no series from kube-state-metrics, and its pod has no series from the reconciler.
var (
	TeamOfNamespace = map[string]string{"alpha": "red", "beta": "blue", "gamma": ""}
	WorkloadOfPod   = map[string]string{"u1": "train", "u2": "serve", "u3": "train", "u4": "other", "u6": "train", "u7": "other", "u8": "serve"}
	TeamOfPod       = map[string]string{"u1": "red", "u2": "blue", "u3": "red", "u4": "green", "u6": "red", "u7": "green", "u8": "blue"}
)
