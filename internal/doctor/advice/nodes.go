package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// fix identifies the commands that correct a state. Nodes with equal states and fixes form one
// group.
type fix struct {
	kind           fixKind
	labels         string // labels that fixLabel sets
	namespace, set string // DaemonSet that fixNodes and fixRestart restart
}

type fixKind int

const (
	fixNone    fixKind = iota
	fixLabel           // label the Nodes
	fixNodes           // select the Nodes by the policy's parameter, and restart the device plugin
	fixRestart         // restart the DaemonSet, or delete the pod
)

func (h *host) fix(kind fixKind) fix {
	if kind == fixNone {
		return fix{}
	}
	return fix{kind: kind, namespace: h.set.Metadata.Namespace, set: h.set.Metadata.Name}
}

// level is the severity of a state.
type level int

const (
	fine  level = iota
	other       // no exporter can run on the Node
	todo
)

type state struct {
	level level
	text  string
	fix   fix
	pod   string // name of the pod, for fixRestart
}

type group struct {
	state
	gpus  string
	nodes []string
	pods  []string
}

// states groups the Nodes with GPUs by state. Groups that need action come first.
func (c *Cluster) states() (groups []*group) {
	type key struct {
		level      level
		gpus, text string
		fix        fix
	}
	index := make(map[key]*group)
	for i := range c.nodes {
		n := &c.nodes[i]
		var evidence []string
		for _, v := range []vendor{nvidia, amd} {
			if text := c.gpus(n, v); text != "" {
				evidence = append(evidence, text)
			}
		}
		if len(evidence) == 0 {
			continue
		}
		s, gpus := c.state(n), strings.Join(evidence, ", ")
		k := key{s.level, gpus, s.text, s.fix}
		g := index[k]
		if g == nil {
			g = &group{state: s, gpus: gpus}
			index[k] = g
			groups = append(groups, g)
		}
		g.nodes = append(g.nodes, n.Metadata.Name)
		if s.pod != "" {
			g.pods = append(g.pods, s.pod)
		}
	}
	slices.SortStableFunc(groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.level, a.level), cmp.Compare(len(b.nodes), len(a.nodes)))
	})
	return groups
}

// on returns the Node to which the pod is bound. Before the pod is bound, it returns the Node for which the DaemonSet
// controller created the pod.
func (p *pod) on() string {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName
	}
	if names := p.Spec.nodes(); len(names) == 1 {
		return names[0]
	}
	return ""
}

// livesOn reports whether a pod is on a Node, has not ended (for example by eviction) and is not
// being deleted.
func (p *pod) livesOn(n *node) bool {
	return p.on() == n.Metadata.Name && p.Metadata.DeletionTimestamp == nil && p.Status.Phase != "Failed" && p.Status.Phase != "Succeeded"
}

func (c *Cluster) state(n *node) state {
	if n.Metadata.Labels["kubernetes.io/os"] == "windows" {
		return state{level: other, text: "no exporter: the Node runs Windows"}
	}
	present, absent := c.exporters(n)
	switch {
	case len(present) > 1:
		return state{level: todo, text: "two exporters (" + present[0].from + ", " + present[1].from + "): every series appears twice. Remove one of the two exporters"}
	case len(present) == 1:
		return present[0].state(n)
	case !c.installed():
		return state{level: todo, text: "no exporter: gpuledger is not installed"}
	}
	// DaemonSets that allow a pod on the Node come first.
	slices.SortStableFunc(absent, func(a, b *host) int { return cmp.Compare(a.refusals(n), b.refusals(n)) })
	for _, h := range absent {
		if s := c.missing(h, n); s.text != "" {
			return s
		}
	}
	return state{level: todo, text: "no exporter: no DaemonSet that runs the exporter has a pod on the Node"}
}

// refusals returns 0 if the DaemonSet's template allows a pod on the Node, and 1 otherwise.
func (h *host) refusals(n *node) int {
	if h.set.Spec.Template.Spec.refuses(n).reason != "" {
		return 1
	}
	return 0
}

type exporter struct {
	from string // the pod's DaemonSet
	pod  *pod
}

// exporters returns the exporters on a Node. It also returns the DaemonSets that could run an exporter on the Node
// but do not. If the exporter's own DaemonSet is among them, it comes first.
func (c *Cluster) exporters(n *node) (present []exporter, absent []*host) {
	for i := range c.hosts {
		h := &c.hosts[i]
		j := slices.IndexFunc(h.pods, func(p pod) bool {
			return p.livesOn(n) && p.Spec.has(containerName)
		})
		switch {
		case j >= 0:
			present = append(present, exporter{"DaemonSet " + h.set.Metadata.full(), &h.pods[j]})
		case h.own:
			absent = slices.Insert(absent, 0, h)
		default:
			absent = append(absent, h)
		}
	}
	return present, absent
}

func (c *Cluster) installed() bool {
	return c.injector != nil || slices.ContainsFunc(c.hosts, func(h host) bool {
		return h.set.Spec.Template.Spec.has(containerName) || slices.ContainsFunc(h.pods, func(p pod) bool { return p.Spec.has(containerName) })
	})
}

func (e exporter) state(n *node) state {
	p, text := e.pod, "exporter in the pods of "+e.from
	for _, s := range p.Status.ContainerStatuses {
		if s.Name != containerName {
			continue
		}
		if ready := n.ready(); s.Ready && ready != "" { // the container's state is stale
			return state{level: todo, text: text + ": " + ready}
		} else if s.Ready {
			return state{text: text}
		}
		return state{level: todo, text: text + ": " + s.problem() + last(s)}
	}
	if ready := n.ready(); ready != "" {
		return state{level: todo, text: text + ": the container has no state, and " + ready}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" {
			return state{level: todo, text: text + ": not scheduled: " + reason(c.Reason, c.Message)}
		}
	}
	return state{level: todo, text: text + ": the container has no state, the pod is " + reason(cmp.Or(p.Status.Phase, "none"), p.Status.Message)}
}

func (s *containerStatus) problem() string {
	switch {
	case s.State.Waiting != nil:
		return "the container waits: " + reason(s.State.Waiting.Reason, s.State.Waiting.Message)
	case s.State.Terminated != nil:
		return fmt.Sprintf("the container ended with exit code %d: %s", s.State.Terminated.ExitCode, reason(s.State.Terminated.Reason, s.State.Terminated.Message))
	}
	return "the container is not ready"
}

func last(s containerStatus) string {
	if s.LastState.Terminated == nil {
		return ""
	}
	return fmt.Sprintf(". Its last run ended with exit code %d (%s)", s.LastState.Terminated.ExitCode, s.LastState.Terminated.Reason)
}

// maxMessage is the maximum length of another program's message, in runes.
const maxMessage = 300

func reason(reason, message string) string {
	text := reason
	if message != "" {
		text += ": " + message
	}
	if runes := []rune(text); len(runes) > maxMessage {
		text = string(runes[:maxMessage]) + "…"
	}
	return text
}

func (n *node) ready() string {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" && c.Status != "True" {
			return "the Node is not ready: " + reason(c.Reason, c.Message)
		}
	}
	return ""
}

// If no exporter is expected in the DaemonSet, the text of the state is empty.
func (c *Cluster) missing(h *host, n *node) state {
	spec := &h.set.Spec.Template.Spec
	with := spec.has(containerName)
	if !with && (c.injector == nil || !c.injector.takes(h) && (c.injectable() || pluginOf(h.set) == nil)) {
		return state{} // there is no policy, or the policy is for another DaemonSet
	}
	i := slices.IndexFunc(h.pods, func(p pod) bool { return p.livesOn(n) })
	if i < 0 {
		return c.noPod(h, n)
	}
	p := &h.pods[i]
	s := state{level: todo, fix: h.fix(fixRestart), pod: p.Metadata.Name}
	if with {
		s.text = "no exporter: the pod was created before the exporter was added to the DaemonSet. Replace the pod"
	} else if left, is := c.injector.leaves(p); is {
		s.text, s.fix = "no exporter in the pods of DaemonSet "+h.set.Metadata.full()+": "+left.reason, h.fix(left.fix)
	} else if p.Metadata.CreationTimestamp.After(c.injector.changed()) {
		s.text = "no exporter, although the policy applies to the pod: see section \"If a container is missing\" in docs/install.md"
	} else {
		s.text = "no exporter: the pod was created before the policy, the webhook or the parameters last changed. Replace the pod"
	}
	return s
}

func (c *Cluster) injectable() bool {
	return slices.ContainsFunc(c.hosts, func(h host) bool { return c.injector.takes(&h) })
}

func (i *injector) changed() time.Time {
	last := i.metadata.changed()
	if i.parameters != nil && i.parameters.Metadata.changed().After(last) {
		last = i.parameters.Metadata.changed()
	}
	return last
}

func (c *Cluster) noPod(h *host, n *node) state {
	r := h.set.Spec.Template.Spec.refuses(n)
	s := state{level: todo}
	why := "the DaemonSet selects the Node. Read the events of the DaemonSet"
	if r.reason != "" {
		why = r.reason
		if r.labels != "" && h.own {
			s.fix = fix{kind: fixLabel, labels: r.labels}
		}
	} else if len(h.events) > 0 {
		last := slices.MaxFunc(h.events, func(a, b event) int { return a.LastTimestamp.Compare(b.LastTimestamp) })
		why = "the last warning of the DaemonSet is: " + reason(last.Message, "")
	} else if ready := n.ready(); ready != "" {
		why = ready
	}
	s.text = "no pod of DaemonSet " + h.set.Metadata.full() + ": " + why
	return s
}
