package main

import "strings"

// Expressions that several panels ask. Series of different clusters and nodes are
// never taken for one another, so every join is on (cluster, node, UUID); cluster is
// empty where only one cluster is asked.

// The selectors of the variables.
const (
	inCluster = `cluster=~"$cluster"`
	onNode    = inCluster + `, node=~"$node"`
	inPod     = `namespace=~"$namespace", pod=~"$pod"`
)

// remembered is gpuledger_gpu_info of the GPUs that the selector picks, and picked within
// the last hour.
func remembered(selector string) string {
	return fill(`(gpuledger_gpu_info{SELECTOR}
  or on (cluster, node, UUID) topk by (cluster, node, UUID) (1, last_over_time(gpuledger_gpu_info{SELECTOR}[1h])))`, "SELECTOR", selector)
}

// unlessGone leaves out GPUs that a node which answers knows no longer.
func unlessGone(gpus string) string {
	return fill(`(GPUS unless on (cluster, node, UUID)
    (GPUS and on (cluster, node) gpuledger_gpu_present{cluster=~"$cluster"} unless on (cluster, node, UUID) gpuledger_gpu_present{cluster=~"$cluster"}))`, "GPUS", gpus)
}

// states has the labels of the GPUs' identity. It is 1 for a GPU that is present, 0 for one
// that is lost, -1 for one whose node says nothing, and -2 for one that its node, which
// answers, knows no longer: the board was taken out.
func states(gpus string) string {
	return fill(`((gpuledger_gpu_present{cluster=~"$cluster"} * on (cluster, node, UUID) group_right () GPUS)
  or on (cluster, node, UUID) (0 * GPUS - 2 and on (cluster, node) gpuledger_gpu_present{cluster=~"$cluster"})
  or on (cluster, node, UUID) (0 * GPUS - 1))`, "GPUS", gpus)
}

// holders has one series for every GPU that the selector picks, with the label holder:
// the pod that holds or uses it, that there are several, that there is nobody, or that it is
// not known because nothing was scraped.
func holders(selector string) string {
	pods := `group by (cluster, node, UUID, namespace, pod) (gpuledger_container_gpu_info{SELECTOR})`
	return fill(`(label_join(PODS and on (cluster, node, UUID) (count by (cluster, node, UUID) (PODS) == 1), "holder", "/", "namespace", "pod")
  or on (cluster, node, UUID) label_replace(count by (cluster, node, UUID) (PODS), "holder", "several pods", "", "")
  or on (cluster, node, UUID) label_replace(group by (cluster, node, UUID) (gpuledger_gpu_present{SELECTOR}), "holder", "nobody", "", "")
  or on (cluster, node, UUID) label_replace(group by (cluster, node, UUID) (last_over_time(gpuledger_gpu_present{SELECTOR}[1h])), "holder", "not known", "", "")) ^ 0`,
		"PODS", pods, "SELECTOR", selector)
}

// workloads adds workload_kind and workload_name to series that have pod_uid; without
// the reconciler the pod itself stands for its workload.
func workloads(series string) string {
	return fill(`(SERIES * on (cluster, pod_uid) group_left (workload_kind, workload_name)
    topk by (cluster, pod_uid) (1, max by (cluster, pod_uid, workload_kind, workload_name) (
      timestamp(INFO) or count_over_time(INFO[$__range]))) ^ 0)
  or on (cluster, namespace, pod_uid)
    label_replace(label_replace(SERIES, "workload_name", "$1", "pod", "(.+)"), "workload_kind", "Pod", "", "")`,
		"SERIES", series, "INFO", `gpuledger_pod_info{cluster=~"$cluster"}`)
}

// seen asks when series of the record were first and when they were last there, in the
// time range; only restricts the answer. The step is the record's: with a longer one, a
// short stay would fall between two. Grafana's milliseconds make dates of them.
func seen(series, labels, only string) []string {
	both := make([]string, 2)
	for i, f := range []string{"min", "max"} {
		both[i] = fill(`1000 * F by (LABELS) (F_over_time(timestamp(SERIES)[$__range:1m]))ONLY`,
			"F", f, "LABELS", labels, "SERIES", series, "ONLY", only)
	}
	return both
}

// Counters of the record.
const (
	allocationEnergy = `gpuledger_allocation_energy_joules_total`
	allocationGPU    = `gpuledger_allocation_gpu_seconds_total`
)

// counted is the increase of each counter of the record in the time range, exactly: its value at the end, less its value
// before the range, plus its value before each restart. A counter without a sample in the day before the range begins at 0 if
// it was created within that day, else at its own first sample. increase would extrapolate, and miss what came before the
// first scrape of a short life.
func counted(counter, created string) string {
	return fill(`(LAST - (BEFORE or FIRST)
    + sum_over_time((last_over_time(COUNTER[1d] offset 1m) > min_over_time(COUNTER[1m]))[$__range:1m])
  or LAST - ((BEFORE or FIRST) <= min_over_time(COUNTER[$__range]) or 0 * LAST))`,
		"FIRST", `0 * (min_over_time(CREATED[$__range]) >= time() - $__range_s - 86400) or min_over_time((min_over_time(COUNTER[1m]) unless last_over_time(COUNTER[1d] offset 1m))[$__range:1m]) or LAST`,
		"LAST", `last_over_time(COUNTER[$__range])`, "BEFORE", `last_over_time(COUNTER[1d] offset $__range)`, "COUNTER", counter, "CREATED", created)
}

// reported counts the XIDs of the GPUs that were reported in the time range.
func reported(gpus string) string {
	return fill(`sum(gpuledger_gpu_xid_last_timestamp_seconds{cluster=~"$cluster"} > bool (time() - $__range_s) and on (cluster, node, UUID) GPUS)
  or 0 * count(gpuledger_gpu_xid_errors_total{cluster=~"$cluster"} and on (cluster, node, UUID) GPUS)`, "GPUS", gpus)
}

// fill puts the values in the place of their names; a value may hold later names.
func fill(expr string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		expr = strings.ReplaceAll(expr, pairs[i], pairs[i+1])
	}
	return expr
}
