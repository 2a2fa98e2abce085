package fold

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// These metrics contain the owners of pods, units and nodes. The reconciler, kube-state-metrics and the exporter export
// them.
const (
	podInfo         = "gpuledger_pod_info"
	podRequests     = "gpuledger_pod_gpu_requests"
	podLabelValues  = "gpuledger_pod_labels"
	workloadInfo    = "gpuledger_workload_info"
	machineInfo     = "gpuledger_node_machine_info"
	namespaceLabels = "kube_namespace_labels"
	// UnitInfo describes units. If several series describe the same unit, description.compare selects one of them.
	UnitInfo    = "gpuledger_unit_info"
	kubePodInfo = "kube_pod_info"
)

// Owners returns the metrics that contain the owners of pods, units and nodes. All of them are optional.
func Owners() []string {
	return []string{podInfo, podRequests, podLabelValues, workloadInfo, machineInfo, namespaceLabels, UnitInfo}
}

type owners struct {
	pods map[string]*table.Pod // pods by UID
	// known contains the UIDs and names of pods. A pod is known even if only kube-state-metrics reports it.
	known      map[table.PodID]bool
	workloads  map[string]table.Workload
	machines   map[string]string // machine by node
	namespaces map[string]string // team by namespace
	units      map[unitKey]unit
}

// unitKey identifies a unit. It includes the node, because containers and services on different nodes may have the same
// name.
type unitKey struct{ node, manager, unit string }

// unit contains the user of a unit, and its account, such as a Slurm account.
type unit struct{ account, user string }

// newOwners reads the owners from series. If a pod has several series, newOwners uses the series with the most known
// labels. This is the latest series, because the reconciler never removes a known owner. Replicas of the reconciler
// report the same pods.
func newOwners(series []Series, teamLabel string) *owners {
	o := &owners{make(map[string]*table.Pod), make(map[table.PodID]bool), make(map[string]table.Workload), make(map[string]string), make(map[string]string), make(map[unitKey]unit)}
	by := make(map[string][]map[string]string)
	var units []description
	for _, s := range series {
		l := s.Labels.asMap()
		by[s.Labels.Metric()] = append(by[s.Labels.Metric()], l)
		switch last, ok := s.Last(); {
		case !ok:
		case s.Labels.Metric() == podRequests:
			p := o.pod(l)
			p.Requests[l["resource"]] = max(p.Requests[l["resource"]], int64(last.Value))
		case s.Labels.Metric() == UnitInfo:
			units = append(units, description{l, last.Time})
		}
	}
	for _, all := range by {
		slices.SortFunc(all, func(a, b map[string]string) int {
			return cmp.Or(cmp.Compare(known(a), known(b)), slices.Compare(sorted(a), sorted(b)))
		})
	}
	o.addPods(by)
	o.addTeams(by, LabelName(teamLabel))
	slices.SortFunc(units, description.compare)
	for _, d := range units {
		o.units[unitKey{d.labels["node"], d.labels["manager"], d.labels["unit"]}] = unit{d.labels["account"], d.user()}
	}
	return o
}

func (o *owners) addPods(by map[string][]map[string]string) {
	for _, l := range by[podInfo] {
		p := o.pod(l)
		p.Node, p.OwnerKind, p.OwnerName = l["node"], l["owner_kind"], l["owner_name"]
		p.WorkloadKind, p.WorkloadName, p.WorkloadUID = l["workload_kind"], l["workload_name"], l["workload_uid"]
		p.Queue, p.ClusterQueue = l["queue"], l["cluster_queue"]
	}
	for _, l := range by[kubePodInfo] {
		o.know(l["namespace"], l["pod"], l["uid"])
	}
	for _, l := range by[workloadInfo] {
		o.workloads[l["uid"]] = table.Workload{Kind: l["kind"], Namespace: l["namespace"], Name: l["name"], UID: l["uid"], ParentUID: l["parent_uid"]}
	}
	for _, l := range by[machineInfo] {
		o.machines[l["node"]] = l["machine"]
	}
}

func (o *owners) addTeams(by map[string][]map[string]string, team string) {
	for _, l := range by[namespaceLabels] {
		o.namespaces[l["namespace"]] = cmp.Or(l[team], o.namespaces[l["namespace"]])
	}
	for _, p := range o.pods {
		p.Team = o.namespaces[p.Namespace]
	}
	for _, l := range by[podLabelValues] {
		p := o.pod(l)
		p.Team = cmp.Or(l[team], p.Team, o.namespaces[p.Namespace])
		p.Labels = table.JoinLabels(kubernetesLabels(l))
	}
}

type description struct {
	labels map[string]string
	last   int64
}

func (d description) user() string { return cmp.Or(d.labels["user"], d.labels["uid"]) }

// compare sorts descriptions like the rule gpuledger:unit_owner:present1h. The last description with an account is
// used. If none has an account, the last description with a user is used.
func (d description) compare(e description) int {
	first := func(a, b string) int { return min(len(a), 1) - min(len(b), 1) }
	return cmp.Or(
		first(d.labels["account"], e.labels["account"]), first(d.user(), e.user()), cmp.Compare(d.last, e.last),
		cmp.Compare(known(d.labels), known(e.labels)), slices.Compare(sorted(d.labels), sorted(e.labels)),
	)
}

func (o *owners) pod(labels map[string]string) *table.Pod {
	uid := labels["pod_uid"]
	if o.pods[uid] == nil {
		o.know(labels["namespace"], labels["pod"], uid)
		o.pods[uid] = &table.Pod{Namespace: labels["namespace"], Pod: labels["pod"], PodUID: uid, Requests: make(table.Counts)}
	}
	return o.pods[uid]
}

func (o *owners) know(namespace, pod, uid string) {
	o.known[table.PodID{UID: uid}] = true
	o.known[table.PodID{Namespace: namespace, Pod: pod}] = true
}

// unknown returns the charged pods without a series. A series may name a pod by its UID or by its name.
func (o *owners) unknown(charges []table.Charge) []table.PodID {
	all := make(map[table.PodID]bool)
	for i := range charges {
		id := table.PodID{Namespace: charges[i].Namespace, Pod: charges[i].Pod, UID: charges[i].PodUID}
		if id.UID != "" && !o.known[table.PodID{UID: id.UID}] && !o.known[table.PodID{Namespace: id.Namespace, Pod: id.Pod}] {
			all[id] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b table.PodID) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.UID, b.UID))
	})
}

// Unknown returns the charged pods without a series of the metrics in [Owners]. kube-state-metrics may have series of
// these pods.
func Unknown(h *table.Hour, series []Series) []table.PodID {
	return newOwners(series, "").unknown(h.Charges)
}

// Name adds the owners of pods, units and nodes to an hour. The argument series must contain all series of the metrics
// in [Owners] with a sample in the hour. It must also contain the series of kube_pod_info for the pods in [Unknown].
// teamLabel is the label of pods or namespaces with the name of the team, such as "team".
func Name(h *table.Hour, series []Series, teamLabel string) {
	o := newOwners(series, teamLabel)
	for i := range h.GPUs {
		h.GPUs[i].Machine = o.machines[h.GPUs[i].Node]
	}
	for i := range h.Charges {
		c := &h.Charges[i]
		if c.Unit != "" {
			u := o.units[unitKey{c.Node, c.Manager, c.Unit}]
			c.Team, c.Username = u.account, u.user
		}
		if c.PodUID == "" {
			continue
		}
		c.Team = o.namespaces[c.Namespace]
		if p := o.pods[c.PodUID]; p != nil {
			c.WorkloadKind, c.WorkloadName, c.WorkloadUID, c.Team = p.WorkloadKind, p.WorkloadName, p.WorkloadUID, p.Team
			c.Queue, c.ClusterQueue, c.Labels = p.Queue, p.ClusterQueue, p.Labels
		}
	}
	if h.UnknownPods = nil; len(o.known) > 0 {
		h.UnknownPods = o.unknown(h.Charges)
	}
	for _, p := range o.pods {
		h.Pods = append(h.Pods, *p)
	}
	slices.SortFunc(h.Pods, func(a, b table.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.PodUID, b.PodUID))
	})
	h.Workloads = slices.SortedFunc(maps.Values(o.workloads), func(a, b table.Workload) int { return cmp.Compare(a.UID, b.UID) })
}

func kubernetesLabels(all map[string]string) map[string]string {
	found := make(map[string]string)
	for name, value := range all {
		if name, ok := strings.CutPrefix(name, LabelPrefix); ok {
			found[name] = value
		}
	}
	return found
}

// LabelPrefix is the prefix of a Prometheus label that contains a Kubernetes label.
const LabelPrefix = "label_"

// LabelName converts the name of a Kubernetes label to the name of a Prometheus label. kube-state-metrics and the
// reconciler use the same rule.
func LabelName(label string) string {
	return LabelPrefix + strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '_'
	}, label)
}

func known(labels map[string]string) (n int) {
	for _, value := range labels {
		if value != "" {
			n++
		}
	}
	return n
}

func sorted(labels map[string]string) []string {
	all := make([]string, 0, len(labels))
	for name, value := range labels {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return all
}
