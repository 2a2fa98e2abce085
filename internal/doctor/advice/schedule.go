package advice

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The GPU Operator sets a label on a Node to start or pause the programs that use the driver. While the operator
// replaces the driver or changes MIG, the label's value begins with the prefix paused.
const (
	deployLabel = "nvidia.com/gpu.deploy.device-plugin"
	paused      = "paused-for-"
)

const nodeName = "metadata.name"

// refusal is the reason why the DaemonSet controller creates no pod on a Node.
type refusal struct {
	reason string
	labels string // arguments of kubectl label that make the DaemonSet select the Node; empty if labels do not suffice
}

// refuses returns the reason why a DaemonSet's pod is not created on a Node, or an empty refusal.
// Like the DaemonSet controller, it checks the node selector, the required affinity and the taints.
func (s *podSpec) refuses(n *node) refusal {
	labels := n.Metadata.Labels
	if value := labels[deployLabel]; strings.HasPrefix(value, paused) && !s.selects(n, labels) {
		return refusal{reason: "the GPU Operator has paused the driver's clients (" + deployLabel + "=" + value + "): wait until the operator has finished"}
	}
	if !s.selects(n, labels) {
		return s.unselected(n)
	}
	for _, t := range n.Spec.Taints {
		if t.Effect != "NoSchedule" && t.Effect != "NoExecute" || t.ofDaemon() || s.tolerates(t) {
			continue
		}
		text := t.Key + ":" + t.Effect
		if t.Value != "" {
			text = t.Key + "=" + t.Value + ":" + t.Effect
		}
		return refusal{reason: "the DaemonSet does not tolerate the taint " + text + ": add a toleration (the chart's value tolerations, or a patch)"}
	}
	return refusal{}
}

// unselected is called if the Node's labels do not match the DaemonSet. It returns the reason, and the labels that the
// Node lacks.
func (s *podSpec) unselected(n *node) refusal {
	var missing []string
	more := maps.Clone(n.Metadata.Labels)
	if more == nil {
		more = make(map[string]string)
	}
	for _, key := range slices.Sorted(maps.Keys(s.NodeSelector)) {
		value, ok := more[key]
		switch want := s.NodeSelector[key]; {
		case value == want && ok:
		case key == deployLabel:
			return refusal{reason: fmt.Sprintf("the DaemonSet needs the label %s=%s, which the GPU Operator sets, and the Node has %s", key, want, cmp.Or(value, "none"))}
		case key == "kubernetes.io/os":
			return refusal{reason: "the exporter runs only on Linux"}
		default:
			missing = append(missing, key+"="+want)
			more[key] = want
		}
	}
	for _, label := range []string{"nvidia.com/gpu.present=true", "feature.node.kubernetes.io/amd-gpu=true"} {
		key, value, _ := strings.Cut(label, "=")
		if s.selects(n, more) || !s.mentions(key) {
			continue
		}
		with := maps.Clone(more)
		with[key] = value
		if s.selects(n, with) {
			missing, more = append(missing, label), with
		}
	}
	if !s.selects(n, more) {
		return refusal{reason: "no label of the Node matches the DaemonSet's node affinity: " + s.keys()}
	}
	return refusal{reason: "the Node has no label that the DaemonSet selects", labels: strings.Join(missing, " ")}
}

func (s *podSpec) terms() []term {
	if s.Affinity.NodeAffinity.Required == nil {
		return nil
	}
	return s.Affinity.NodeAffinity.Required.NodeSelectorTerms
}

// nodes returns the Node names in the pod's affinity. The DaemonSet controller writes the name of the pod's Node there.
func (s *podSpec) nodes() (names []string) {
	for _, t := range s.terms() {
		for _, r := range t.MatchFields {
			if r.Key == nodeName {
				names = append(names, r.Values...)
			}
		}
	}
	return names
}

func (s *podSpec) mentions(key string) bool {
	return slices.ContainsFunc(s.terms(), func(t term) bool {
		return slices.ContainsFunc(t.MatchExpressions, func(r requirement) bool { return r.Key == key })
	})
}

func (s *podSpec) keys() string {
	var keys []string
	for _, t := range s.terms() {
		for _, r := range t.MatchExpressions {
			if (r.Operator == "In" || r.Operator == "Exists") && !slices.Contains(keys, r.Key) {
				keys = append(keys, r.Key)
			}
		}
	}
	return strings.Join(keys, ", ")
}

func (s *podSpec) selects(n *node, labels map[string]string) bool {
	for key, want := range s.NodeSelector {
		if value, ok := labels[key]; !ok || value != want {
			return false
		}
	}
	if s.Affinity.NodeAffinity.Required == nil {
		return true
	}
	fields := map[string]string{nodeName: n.Metadata.Name}
	return slices.ContainsFunc(s.terms(), func(t term) bool {
		return len(t.MatchExpressions)+len(t.MatchFields) > 0 &&
			!slices.ContainsFunc(t.MatchExpressions, func(r requirement) bool { return !r.matches(labels) }) &&
			!slices.ContainsFunc(t.MatchFields, func(r requirement) bool { return !r.matches(fields) })
	})
}

func (r *requirement) matches(labels map[string]string) bool {
	value, ok := labels[r.Key]
	switch r.Operator {
	case "In":
		return ok && slices.Contains(r.Values, value)
	case "NotIn":
		return !ok || !slices.Contains(r.Values, value)
	case "Exists":
		return ok
	case "DoesNotExist":
		return !ok
	case "Gt", "Lt":
		if len(r.Values) != 1 {
			return false
		}
		a, errA := strconv.ParseInt(value, 10, 64)
		b, errB := strconv.ParseInt(r.Values[0], 10, 64)
		return ok && errA == nil && errB == nil && (r.Operator == "Gt" && a > b || r.Operator == "Lt" && a < b)
	}
	return false
}

// ofDaemon reports whether the DaemonSet controller adds a toleration for the taint to every pod.
func (t taint) ofDaemon() bool {
	return slices.Contains([]string{
		"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/disk-pressure",
		"node.kubernetes.io/memory-pressure", "node.kubernetes.io/pid-pressure", "node.kubernetes.io/unschedulable",
	}, t.Key)
}

func (s *podSpec) tolerates(t taint) bool {
	return slices.ContainsFunc(s.Tolerations, func(o toleration) bool {
		switch {
		case o.Effect != "" && o.Effect != t.Effect, o.Key != "" && o.Key != t.Key:
			return false
		case o.Operator == "Exists":
			return true
		}
		return o.Key != "" && (o.Operator == "" || o.Operator == "Equal") && o.Value == t.Value
	})
}
