package table

// Pod is a pod that requested GPUs. The owner is its controller. The workload is the root of its owner chain.
type Pod struct {
	Namespace, Pod, PodUID, Node            string
	OwnerKind, OwnerName                    string
	WorkloadKind, WorkloadName, WorkloadUID string
	Team                                    string
	Requests                                Counts // number of requested GPUs by resource
	Queue, ClusterQueue                     string
	Labels                                  string // see [JoinLabels]
}

// PodID identifies a pod.
type PodID struct{ Namespace, Pod, UID string }

// Workload is an owner of GPU pods, at any level of the owner chain.
type Workload struct{ Kind, Namespace, Name, UID, ParentUID string }

// Pods contains a row for each hour and each pod that requested GPUs.
var Pods = build("pods", "one pod that requested GPUs in an hour, with its owners", []string{"pod_uid"},
	func(h *Hour) []Pod { return h.Pods },
	text("namespace", "namespace", func(p *Pod) *string { return &p.Namespace }),
	text("pod", "name of the pod", func(p *Pod) *string { return &p.Pod }),
	text("pod_uid", "UID of the pod", func(p *Pod) *string { return &p.PodUID }),
	text("node", "node, empty while the pod is pending", func(p *Pod) *string { return &p.Node }),
	text("owner_kind", "kind of the pod's controller", func(p *Pod) *string { return &p.OwnerKind }),
	text("owner_name", "name of the controller", func(p *Pod) *string { return &p.OwnerName }),
	text("workload_kind", "kind of the workload at the root of the owner chain", func(p *Pod) *string { return &p.WorkloadKind }),
	text("workload_name", "name of the workload", func(p *Pod) *string { return &p.WorkloadName }),
	text("workload_uid", "UID of the workload", func(p *Pod) *string { return &p.WorkloadUID }),
	text("team", "team, from a label of the pod or its namespace", func(p *Pod) *string { return &p.Team }),
	counts("requests", "requested GPUs as resource=count, separated by spaces", func(p *Pod) *Counts { return &p.Requests }),
	text("queue", "queue in Kueue (LocalQueue), Volcano or YuniKorn", func(p *Pod) *string { return &p.Queue }).addedIn(15),
	text("cluster_queue", "ClusterQueue in Kueue", func(p *Pod) *string { return &p.ClusterQueue }).addedIn(15),
	long("labels", labelsHelp, func(p *Pod) *string { return &p.Labels }).addedIn(16),
)

// Workloads contains a row for each hour and each owner of GPU pods.
var Workloads = build("workloads", "one owner of GPU pods in an hour, at any level of the owner chain", []string{"uid"},
	func(h *Hour) []Workload { return h.Workloads },
	text("kind", "kind", func(w *Workload) *string { return &w.Kind }),
	text("namespace", "namespace, empty for a workload without one", func(w *Workload) *string { return &w.Namespace }),
	text("name", "name", func(w *Workload) *string { return &w.Name }),
	text("uid", "UID", func(w *Workload) *string { return &w.UID }),
	text("parent_uid", "UID of the workload's controller, empty if there is no controller or if it is unknown", func(w *Workload) *string { return &w.ParentUID }),
)
