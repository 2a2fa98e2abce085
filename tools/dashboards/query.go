package main

import "strings"

// Several panels use the expressions in this file. Every join is on (cluster, node, UUID). In the Prometheus of a
// single cluster, the label cluster is empty.

// These label selectors contain the dashboards' variables.
const (
	inCluster = `cluster=~"$cluster"`
	onNode    = inCluster + `, node=~"$node"`
	inPod     = `namespace=~"$namespace", pod=~"$pod"`
)

// remembered returns the series gpuledger_gpu_info of the selected GPUs. If a series is missing now, it returns the
// last sample in the last hour.
func remembered(selector string) string {
	return fill(`(gpuledger_gpu_info{SELECTOR}
  or on (cluster, node, UUID) topk by (cluster, node, UUID) (1, last_over_time(gpuledger_gpu_info{SELECTOR}[1h])))`, "SELECTOR", selector)
}

// unlessGone omits GPUs that are missing although their node is still scraped.
func unlessGone(gpus string) string {
	return fill(`(GPUS unless on (cluster, node, UUID)
    (GPUS and on (cluster, node) gpuledger_gpu_present{cluster=~"$cluster"} unless on (cluster, node, UUID) gpuledger_gpu_present{cluster=~"$cluster"}))`, "GPUS", gpus)
}

// states returns an expression with the labels that identify a GPU. Its value is 1 for a present GPU and 0 for a lost
// GPU. It is -1 if the node is not scraped. It is -2 if the node is scraped without the GPU, because the board was
// removed.
func states(gpus string) string {
	return fill(`((gpuledger_gpu_present{cluster=~"$cluster"} * on (cluster, node, UUID) group_right () GPUS)
  or on (cluster, node, UUID) (0 * GPUS - 2 and on (cluster, node) gpuledger_gpu_present{cluster=~"$cluster"})
  or on (cluster, node, UUID) (0 * GPUS - 1))`, "GPUS", gpus)
}

// holders returns one series for every selected GPU. The label holder contains the pod or unit that holds or uses the
// GPU, or "several" or "free". It is "none" if the GPU is lost, and "unknown" if the node is not scraped.
func holders(selector string) string {
	owners := `group by (cluster, node, UUID, namespace, pod) (gpuledger_container_gpu_info{SELECTOR}
    or label_replace(label_replace(gpuledger_unit_gpu_info{SELECTOR}, "namespace", "$1", "manager", "(.+)"), "pod", "$1", "unit", "(.+)"))`
	return fill(`(label_join(OWNERS and on (cluster, node, UUID) (count by (cluster, node, UUID) (OWNERS) == 1), "holder", "/", "namespace", "pod")
  or on (cluster, node, UUID) label_replace(count by (cluster, node, UUID) (OWNERS), "holder", "several", "", "")
  or on (cluster, node, UUID) label_replace(group by (cluster, node, UUID) (gpuledger_gpu_present{SELECTOR} == 1), "holder", "free", "", "")
  or on (cluster, node, UUID) label_replace(group by (cluster, node, UUID) (gpuledger_gpu_present{SELECTOR}), "holder", "none", "", "")
  or on (cluster, node, UUID) label_replace(group by (cluster, node, UUID) (last_over_time(gpuledger_gpu_present{SELECTOR}[1h])), "holder", "unknown", "", "")) ^ 0`,
		"OWNERS", owners, "SELECTOR", selector)
}

// workloads adds workload_kind and workload_name to series that have the label pod_uid. Without the reconciler, the
// workload is the pod itself.
func workloads(series string) string {
	return fill(`(SERIES * on (cluster, pod_uid) group_left (workload_kind, workload_name)
    topk by (cluster, pod_uid) (1, max by (cluster, pod_uid, workload_kind, workload_name) (
      timestamp(INFO) or count_over_time(INFO[$__range]))) ^ 0)
  or on (cluster, namespace, pod_uid)
    label_replace(label_replace(SERIES, "workload_name", "$1", "pod", "(.+)"), "workload_kind", "Pod", "", "")`,
		"SERIES", series, "INFO", `gpuledger_pod_info{cluster=~"$cluster"}`)
}

// described adds the known labels user, uid and account to series of units.
func described(series string) string {
	return fill(`SERIES * on (cluster, node, manager, unit) group_left (user, uid, account)
    topk by (cluster, node, manager, unit) (1, group by (cluster, node, manager, unit, user, uid, account) (gpuledger_unit_info{cluster=~"$cluster"}))
  or on (cluster, node, manager, unit) SERIES`, "SERIES", series)
}

// describedOver adds the known user and account to series of units. If the time range contains several descriptions of
// a unit, it uses the description that the rule gpuledger:unit_owner:present1h prefers.
func describedOver(series string) string {
	return fill(`(SERIES * on (cluster, node, manager, unit) group_left (user, account)
    topk by (cluster, node, manager, unit) (1, max by (cluster, node, manager, unit, user, account) (label_replace(label_join(
      (8e9 * KNOWN_ACCOUNT or 0 * KNOWN) + (4e9 * KNOWN_USER or 4e9 * KNOWN_UID or 0 * KNOWN)
      + (max_over_time(timestamp(INFO{cluster=~"$cluster"})[$__range:1m]) or 0 * KNOWN)
    , "user_uid", ";", "user", "uid"), "user", "$1", "user_uid", ";([0-9]*)"))) ^ 0)
  or on (cluster, node, manager, unit) SERIES`, "SERIES", series,
		"KNOWN_ACCOUNT", `last_over_time(INFO{cluster=~"$cluster", account!=""}[$__range])`,
		"KNOWN_USER", `last_over_time(INFO{cluster=~"$cluster", user!=""}[$__range])`,
		"KNOWN_UID", `last_over_time(INFO{cluster=~"$cluster", uid!=""}[$__range])`,
		"KNOWN", `last_over_time(INFO{cluster=~"$cluster"}[$__range])`,
		"INFO", `gpuledger_unit_info`)
}

// seen returns a query for the first sample of the record's series in the time range, and a query for the last one. The
// results are times in milliseconds, which Grafana formats as dates. seen appends only, an expression that restricts
// the result, to each query. The step equals the record's interval, so that short periods are not missed.
func seen(series, labels, only string) []string {
	both := make([]string, 2)
	for i, f := range []string{"min", "max"} {
		both[i] = fill(`1000 * F by (LABELS) (F_over_time(timestamp(SERIES)[$__range:1m]))ONLY`,
			"F", f, "LABELS", labels, "SERIES", series, "ONLY", only)
	}
	return both
}

const (
	allocationEnergy = `gpuledger_allocation_energy_joules_total`
	allocationGPU    = `gpuledger_allocation_gpu_seconds_total`
)

// counted returns the exact increase of each counter of the record in the time range: the value at the end of the
// range, minus the value before the range, plus the value before each restart.
//
// A counter may have no sample in the day before the range. If it was created within this day, the increase begins at
// 0. Otherwise the increase begins at the counter's first sample. PromQL's increase would extrapolate, and would omit
// the value of the first scrape.
func counted(counter, created string) string {
	return fill(`(LAST - (BEFORE or FIRST)
    + sum_over_time((last_over_time(COUNTER[1d] offset 1m) > min_over_time(COUNTER[1m]))[$__range:1m])
  or LAST - ((BEFORE or FIRST) <= min_over_time(COUNTER[$__range]) or 0 * LAST))`,
		"FIRST", `0 * (min_over_time(CREATED[$__range]) >= time() - $__range_s - 86400) or min_over_time((min_over_time(COUNTER[1m]) unless last_over_time(COUNTER[1d] offset 1m))[$__range:1m]) or LAST`,
		"LAST", `last_over_time(COUNTER[$__range])`, "BEFORE", `last_over_time(COUNTER[1d] offset $__range)`, "COUNTER", counter, "CREATED", created)
}

func reported(gpus string) string {
	return fill(`sum(gpuledger_gpu_xid_last_timestamp_seconds{cluster=~"$cluster"} > bool (time() - $__range_s) and on (cluster, node, UUID) GPUS)
  or 0 * count(gpuledger_gpu_xid_errors_total{cluster=~"$cluster"} and on (cluster, node, UUID) GPUS)`, "GPUS", gpus)
}

// named replaces empty labels with the text of an empty cell. Otherwise Grafana would merge a row with an empty label
// into all other rows.
func named(expr string, labels ...string) string {
	for _, label := range labels {
		expr = fill(`label_replace(EXPR, "LABEL", "EMPTY", "LABEL", "")`, "EMPTY", emptyCell, "LABEL", label, "EXPR", expr)
	}
	return expr
}

// rose selects the series of a counter in the record that counted a failure in the time range. If the counter was above
// 0 for less than a step, only the results of the hourly rule show the failure, so rose also reads these results. No
// rule has recorded the last two hours yet, so rose reads all samples of them. A counter of failures is mostly 0, so
// long ranges are cheap.
func rose(counter, hours string) string {
	return fill(`((NOW > BEFORE) or (NOW unless BEFORE) or present_over_time(HOURS{cluster=~"$cluster"}[$__range]) or increase(COUNTER{cluster=~"$cluster"}[2h]) > 0 or (LATE unless EARLY))`,
		"LATE", `last_over_time(COUNTER{cluster=~"$cluster"}[2h]) > 0`, "EARLY", `last_over_time(COUNTER{cluster=~"$cluster"}[1d] offset 2h)`,
		"NOW", `max_over_time((COUNTER{cluster=~"$cluster"} > 0)[$__range:$__interval])`, "BEFORE", `COUNTER{cluster=~"$cluster"} offset $__range`, "COUNTER", counter, "HOURS", hours)
}

// A value in pairs may contain names that come later in pairs.
func fill(expr string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		expr = strings.ReplaceAll(expr, pairs[i], pairs[i+1])
	}
	return expr
}
