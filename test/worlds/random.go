package worlds

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// RandomHours is the length of a random fleet's history, in hours.
const RandomHours = 6

// RandomFleet returns a fleet with random events. If cluster is set, the series have it as a label.
func RandomFleet(random *rand.Rand, cluster string) *Fleet {
	const end = (RandomHours + 2) * time.Hour
	f := &Fleet{History: New(15 * time.Second), cluster: cluster, off: make(map[string][]Span), silent: make(map[string][]Span), owners: make(map[string]string), thousandths: true}
	moment := func() time.Duration {
		return time.Duration(random.IntN(int(RandomHours*time.Hour/time.Second))) * time.Second
	}
	spell := func(most time.Duration) Span {
		from := moment()
		return Span{from, from + time.Duration(1+random.IntN(int(most/time.Second)))*time.Second}
	}
	nodes := []string{"a", "b", "c"}
	for i := range 4 {
		b := board{uuid: fmt.Sprint("GPU-", i), serial: fmt.Sprint("S", i), watts: 100 + random.IntN(600)}
		from, to := nodes[random.IntN(3)], nodes[random.IntN(3)]
		if moved := moment(); from != to {
			b.stays = map[string]Span{from: {0, moved}, to: {moved + 10*time.Minute, end}}
		} else {
			b.stays = map[string]Span{from: {0, end}}
		}
		f.boards = append(f.boards, b)
	}
	for i := range 16 {
		p := pod{
			namespace: fmt.Sprint("team-", random.IntN(3)), name: fmt.Sprint("pod-", i), uid: fmt.Sprint("u", i),
			board: f.boards[random.IntN(4)].uuid, Span: spell(4 * time.Hour), share: 0.0625, bare: random.IntN(4) == 0,
		}
		if i >= 12 {
			p.manager, p.namespace = []string{"slurm", "docker"}[i%2], ""
		}
		if i%4 == 0 {
			p.From, p.age = 0, time.Duration(random.IntN(20*24))*time.Hour
		}
		f.own(p, random.IntN(3), random)
		f.pods = append(f.pods, p)
	}
	for _, node := range nodes {
		for range random.IntN(3) {
			f.off[node] = append(f.off[node], spell(15*time.Minute))
		}
		for range random.IntN(3) {
			f.silent[node] = append(f.silent[node], spell(50*time.Minute))
		}
	}
	// This node reboots soon after the scrapes stop. When the scrapes continue, its counters may already exceed the
	// last scraped values.
	away, node := spell(3*time.Hour), nodes[random.IntN(3)]
	f.silent[node] = append(f.silent[node], away)
	f.off[node] = append(f.off[node], Span{away.From + time.Minute, away.From + 2*time.Minute})
	f.blind = append(f.blind, spell(40*time.Minute))
	f.second = append(f.second, spell(time.Hour))
	f.simulate(end, Span{}, random)
	return f
}

// Owner 0 means that the owner is unknown.
func (f *Fleet) own(p pod, owner int, random *rand.Rand) {
	if owner == 0 {
		return
	}
	f.owners[p.uid] = fmt.Sprint("owner-", owner)
	from, until := p.From.Truncate(f.Interval), min((p.To+retention).Truncate(scrape)+scrape+f.Interval, RandomHours*time.Hour)
	if p.manager == "" {
		f.Constant(Series("gpuledger_pod_info", map[string]string{
			"cluster": f.cluster, "namespace": p.namespace, "pod": p.name, "pod_uid": p.uid,
			"workload_kind": "Job", "workload_name": f.owners[p.uid], "workload_uid": p.namespace + f.owners[p.uid],
		}), from, until, 1)
		return
	}
	for _, node := range []string{"a", "b", "c"} {
		f.describe(map[string]string{"cluster": f.cluster, "node": node, "manager": p.manager, "unit": p.name}, f.owners[p.uid], Span{from, until}, random)
	}
}

// describe adds gpuledger_unit_info. In each hour, the unit first has another owner or no owner. Then it has the given
// owner, and at the end no owner.
func (f *Fleet) describe(unit map[string]string, owner string, of Span, random *rand.Rand) {
	const least = 2 * time.Minute // minimum time with the owner; longer than the step of the rules
	owned := Series("gpuledger_unit_info", With(unit, "account", owner, "user", owner))
	for begin := of.From.Truncate(time.Hour); begin < of.To; begin += time.Hour {
		// An hour includes the sample at its end, but not the sample at its start.
		from, until := max(begin+f.Interval, of.From), min(begin+time.Hour+f.Interval, of.To)
		spare := until - from - least
		if spare <= 0 {
			f.Constant(owned, from, until, 1)
			continue
		}
		known := from + time.Duration(random.Int64N(int64(spare))).Truncate(f.Interval)
		lost := known + least + time.Duration(random.Int64N(int64(until-known-least)+1)).Truncate(f.Interval)
		before := []map[string]string{
			With(unit, "uid", "1000"), With(unit, "sluid", "s8FXKTA79XAR00"), With(unit, "account", "other"),
			With(unit, "account", "other", "user", "other", "uid", "1000", "partition", "gpu"),
		}[random.IntN(4)]
		f.Constant(Series("gpuledger_unit_info", before), from, known, 1)
		f.Constant(owned, known, lost, 1)
		f.Constant(Series("gpuledger_unit_info", With(unit, "uid", "1001")), lost, until, 1)
	}
}

// By returns a key function that formats the named labels, including the owner of a pod or unit.
func (f *Fleet) By(names ...string) func(labels map[string]string) string {
	return func(labels map[string]string) string {
		for _, p := range f.pods {
			switch owner := f.owners[p.uid]; {
			case owner == "":
			case p.manager != "" && p.manager == labels["manager"] && p.name == labels["unit"]:
				labels = With(labels, "user", owner, "account", owner)
			case p.manager == "" && p.uid == labels["pod_uid"]:
				labels = With(labels, "workload_kind", "Job", "workload_name", owner)
			}
		}
		return By(names...)(labels)
	}
}
