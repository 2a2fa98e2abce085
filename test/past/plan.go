package past

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/exposition"
)

// Teams contains the team of each namespace.
var Teams = map[string]string{"research": "models", "serving": "products", "speech": "assistants", "vision": "robotics"}

// PodName matches the name of a pod. Its first group is the name of the workload. Pods of Services belong to
// Deployments.
const (
	PodName  = `(.+?)(-[0-9]+)?(-[0-9a-f]{5})?(-[0-9]+)?`
	Services = `infer|chat|embed`
)

var podName, services = regexp.MustCompile(`^` + PodName + `$`), regexp.MustCompile(`^(` + Services + `)$`)

// Workload returns the kind and the name of a pod's workload.
func Workload(pod string) (kind, name string) {
	if name = podName.FindStringSubmatch(pod)[1]; services.MatchString(name) {
		return "Deployment", name
	}
	return "Job", name
}

// work lists the workloads. load is the percentage of the time in which a workload works.
var work = []struct {
	namespace, name string
	load            int64
}{
	{"research", "pretrain", 94},
	{"research", "ablation", 88},
	{"speech", "asr-train", 91},
	{"vision", "detector", 79},
	{"serving", "chat", 45},
	{"serving", "embed", 30},
	{"vision", "notebook", 3},
}

// users contains users with their accounts.
var users = [][2]string{{"user1001", "physics"}, {"user1002", "physics"}, {"user1003", "chemistry"}}

// The labels of an owner are the labels of its counters.
type owner struct {
	unit   bool
	labels map[string]string
}

func (o owner) prefix() string {
	if o.unit {
		return "gpuledger_unit_allocation_"
	}
	return "gpuledger_allocation_"
}

// A hold includes the minute to.
type hold struct {
	from, to int64
	owners   []owner
	base     int64
}

// load returns how busy the owners are in the hour of a minute, in percent. Services are less busy at night.
func (h hold) load(minute int64, random *rand.Rand) int64 {
	load := h.base + random.Int64N(9) - 4
	if hour := minute / 60 % 24; h.base < 60 && h.base > 10 && (hour < 7 || hour > 20) {
		load /= 3
	}
	return min(max(load, 0), 99)
}

// plan assigns owners to the GPUs of a node, for its whole past.
type plan struct {
	*Node
	*builder
	random  *rand.Rand
	groups  [][]int         // groups of positions that are held together
	now     map[int][]owner // current owners by position
	chassis string
	node    string
	units   bool
	last    int // number of the last pod or unit
}

func newPlan(n *Node, now simnode.Scenario, b *builder, seed uint64) *plan {
	p := &plan{Node: n, builder: b, random: rand.New(rand.NewPCG(seed, 1)), now: make(map[int][]owner), node: now.Node, units: now.NoKubelet, last: int(seed) * 1000}
	if place := now.GPUs[0].Place; place != nil {
		p.chassis = place.Chassis
	}
	together := make(map[string]int)
	for position, g := range now.GPUs {
		var names []string
		for _, of := range []owner{{}, {unit: true}} {
			for _, m := range n.Record.Matches(of.prefix()+"gpu_seconds_total", map[string]string{"UUID": g.UUID}) {
				labels := exposition.Labels(m)
				names = append(names, labels["pod_uid"]+labels["unit"])
				p.now[position] = append(p.now[position], owner{of.unit, labels})
			}
		}
		key := strings.Join(names, " ")
		if i, ok := together[key]; ok && key != "" {
			p.groups[i] = append(p.groups[i], position)
			continue
		}
		together[key] = len(p.groups)
		p.groups = append(p.groups, []int{position})
	}
	return p
}

// At the end of the last era, the owners of the GPUs are the current owners.
func (p *plan) era(s span, last bool) map[int][]hold {
	held := make(map[int][]hold)
	for _, group := range p.groups {
		end, present := s.to, last && p.now[group[0]] != nil
		switch {
		case present:
			end = max(s.from, ticks(s.to-180-p.random.Int64N(900)))
		case last:
			end = max(s.from, s.to-90)
		}
		for at := s.from + tick; at+30 < end; {
			h := hold{from: at, to: min(ticks(at+120+p.random.Int64N(40*60)), end)}
			p.lend(&h)
			for _, position := range group {
				held[position] = append(held[position], h)
			}
			at = ticks(h.to + tick + p.random.Int64N(5*60))
		}
		if !present {
			continue
		}
		h := hold{from: end + tick, to: s.to, owners: p.now[group[0]]}
		for _, o := range h.owners {
			h.base += p.busy(o)
			p.own(o, h)
		}
		for _, position := range group {
			held[position] = append(held[position], h)
		}
	}
	return held
}

// busy returns the percentage of the time in which a current owner has worked.
func (p *plan) busy(o owner) int64 {
	of := map[string]string{"UUID": o.labels["UUID"]}
	for _, name := range []string{"pod_uid", "unit"} {
		if value := o.labels[name]; value != "" {
			of[name] = value
		}
	}
	return int64(100 * p.Record.Sum(o.prefix()+"active_seconds_total", of) / max(1, p.Record.Sum(o.prefix()+"gpu_seconds_total", of)))
}

func (p *plan) lend(h *hold) {
	p.last++
	o := owner{unit: p.units}
	if p.units {
		h.base = 40 + p.random.Int64N(58)
		o.labels = map[string]string{"manager": "slurm", "unit": fmt.Sprint(p.last), "chassis_serial": p.chassis}
	} else {
		w := work[p.random.IntN(len(work))]
		h.base = w.load
		o.labels = map[string]string{
			"namespace": w.namespace, "pod": fmt.Sprintf("%s-%d", w.name, p.last), "pod_uid": fmt.Sprintf("%08x-5d1c-4000-a000-%012x", p.last*2654435761%(1<<32), p.last),
			"chassis_serial": p.chassis,
		}
	}
	h.owners = []owner{o}
	p.own(o, *h)
}

// own stores a pod, or adds the info series of a unit.
func (p *plan) own(o owner, h hold) {
	if !o.unit {
		of := pod{p.Cluster, o.labels["namespace"], o.labels["pod"], o.labels["pod_uid"]}
		if p.pods == nil {
			p.pods = make(map[pod]*span)
		}
		p.pods[of] = &span{h.from, h.to}
		return
	}
	for _, m := range p.Metrics["gpuledger_unit_info"].GetMetric() {
		labels := exposition.Labels(m)
		if labels["unit"] != o.labels["unit"] {
			if p.now[0][0].labels["unit"] != labels["unit"] || p.present(o) {
				continue
			}
			// In the past, a unit has the labels of a current unit.
			u := users[p.last%len(users)]
			labels["unit"], labels["user"], labels["account"] = o.labels["unit"], u[0], u[1]
			labels["uid"] = strings.TrimPrefix(u[0], "user")
			delete(labels, "sluid")
		}
		maps.Copy(labels, map[string]string{"cluster": p.Cluster, "job": "gpuledger", "node": p.node, "instance": p.node})
		p.constant("gpuledger_unit_info", labels, span{h.from, h.to}, 1000)
	}
}

// present reports whether an owner has GPUs now.
func (p *plan) present(o owner) bool {
	for _, owners := range p.now {
		if slices.ContainsFunc(owners, func(of owner) bool { return of.labels["unit"] == o.labels["unit"] }) {
			return true
		}
	}
	return false
}
