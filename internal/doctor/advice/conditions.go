package advice

import (
	"regexp"
	"slices"
	"strings"
)

// pluginContainers contains the names of device plugin containers. The policy adds the exporter to
// pods with one of these containers.
var pluginContainers = []string{"nvidia-device-plugin-ctr", "nvidia-device-plugin", "amdgpu-dp-cntr", "amdgpu-dp-cntr-health", "amd-gpu-dp-cntr"}

// hostConditions contains the policy's conditions that select a program by the containers in its pods. Each policy has
// exactly one of these conditions.
var hostConditions = map[string]func(s *podSpec) bool{
	"is-a-device-plugin": func(s *podSpec) bool { return slices.ContainsFunc(pluginContainers, s.has) },
	"is-dcgm-exporter": func(s *podSpec) bool {
		return s.has("nvidia-dcgm-exporter") || s.has("dcgm-exporter") ||
			slices.ContainsFunc(s.Containers, func(c container) bool { return c.Name == "exporter" && strings.Contains(c.Image, "dcgm-exporter") })
	},
	"is-an-mps-control-daemon": func(s *podSpec) bool { return s.has("mps-control-daemon-ctr") },
}

// otherHost reports whether the exporter can be added to the pods although their program is no device plugin.
func otherHost(s *podSpec) bool {
	return hostConditions["is-dcgm-exporter"](s) || hostConditions["is-an-mps-control-daemon"](s)
}

// takes reports whether the policy or webhook selects the pods of a DaemonSet.
func (i *injector) takes(h *host) bool {
	if !slices.Contains(i.namespaces(), h.set.Metadata.Namespace) {
		return false
	}
	for _, name := range i.conditions {
		if is := hostConditions[name]; is != nil && !is(&h.set.Spec.Template.Spec) {
			return false
		}
	}
	return true
}

// check evaluates a condition of the policy. The report shows reason if the condition does not hold for a pod.
type check struct {
	holds  func(p *pod, i *injector) bool
	reason string
	// permanent means that the policy can never add the exporter to these pods.
	permanent bool
	fix       fixKind
}

// checks contains the policy's conditions by name. Tests compare the names with the names in the policy. They also
// compare the results for pods with the decisions of a real API server about these pods.
var checks = map[string]check{
	// A pod does not show which user created it, so its owner is checked instead.
	"created-by-the-daemonset-controller": {holds: ofDaemonSet, reason: "the DaemonSet controller did not create the pod"},
	"owned-by-a-daemonset":                {holds: ofDaemonSet, reason: "the pod has no DaemonSet"},
	"is-a-device-plugin":                  hostCheck("is-a-device-plugin"),
	"is-dcgm-exporter":                    hostCheck("is-dcgm-exporter"),
	"is-an-mps-control-daemon":            hostCheck("is-an-mps-control-daemon"),
	"runs-linux": {holds: func(p *pod, _ *injector) bool {
		os, selected := p.Spec.NodeSelector["kubernetes.io/os"]
		return (p.Spec.OS.Name == "" || p.Spec.OS.Name == "linux") && (!selected || os == "linux")
	}, reason: "the exporter runs only on Linux"},
	"shares-no-processes": {holds: func(p *pod, _ *injector) bool {
		return !p.Spec.ShareProcessNamespace
	}, reason: "the pod sets shareProcessNamespace (time-slicing, MPS or another configuration file)", permanent: true},
	"has-a-network-of-its-own": {holds: func(p *pod, _ *injector) bool {
		return !p.Spec.HostNetwork
	}, reason: "the pod sets hostNetwork", permanent: true},
	"has-users-of-the-host": {holds: func(p *pod, _ *injector) bool {
		return p.Spec.HostUsers == nil || *p.Spec.HostUsers
	}, reason: "the pod sets hostUsers: false", permanent: true},
	"has-no-resources-of-its-own": {holds: func(p *pod, _ *injector) bool {
		return len(p.Spec.Resources) == 0 || string(p.Spec.Resources) == "null"
	}, reason: "the pod sets resources at the pod level", permanent: true},
	"not-yet": {holds: func(p *pod, _ *injector) bool {
		return !p.Spec.has(containerName) && !slices.ContainsFunc(p.Spec.InitContainers, func(c container) bool { return c.Name == containerName }) &&
			!slices.ContainsFunc(p.Spec.Volumes, func(v volume) bool { return strings.HasPrefix(v.Name, "gpuledger-") })
	}, reason: "the pod already has a volume or an init container with one of gpuledger's names"},
	"has-an-image": {holds: func(_ *pod, i *injector) bool {
		return imageName.MatchString(i.trimmed("image"))
	}, reason: "the parameter image is missing or invalid"},
	"names-secrets": {holds: func(_ *pod, i *injector) bool {
		web := i.trimmed("webSecret")
		return (web == "" || secretName.MatchString(web)) && !slices.ContainsFunc(i.words("pullSecrets"), func(s string) bool { return !secretName.MatchString(s) })
	}, reason: "the parameter webSecret or pullSecrets is not the name of a Secret"},
	"is-on-a-chosen-node": {holds: func(p *pod, i *injector) bool {
		nodes := i.words("nodes")
		return slices.Contains(nodes, "*") || slices.ContainsFunc(p.Spec.nodes(), func(n string) bool { return slices.Contains(nodes, n) })
	}, reason: "the parameter nodes does not select the Node", fix: fixNodes},
}

func hostCheck(name string) check {
	return check{holds: func(p *pod, _ *injector) bool { return hostConditions[name](&p.Spec) }, reason: "the policy is for pods with other containers", permanent: true}
}

var (
	imageName  = regexp.MustCompile(`^[!-~]+$`)
	secretName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
)

func ofDaemonSet(p *pod, _ *injector) bool {
	return slices.ContainsFunc(p.Metadata.OwnerReferences, func(o owner) bool { return o.Kind == "DaemonSet" && o.Controller })
}

func (i *injector) trimmed(key string) string { return strings.TrimSpace(i.parameters.Data[key]) }

// words splits a parameter into a list in the same way as the policy.
func (i *injector) words(key string) []string {
	return slices.DeleteFunc(strings.Split(strings.NewReplacer(",", " ", "\n", " ").Replace(i.parameters.Data[key]), " "), func(w string) bool { return w == "" })
}

// leaves returns true if the current policy or webhook does not add the container to a pod. The returned check contains
// the reason.
func (i *injector) leaves(p *pod) (check, bool) {
	switch {
	case i.unbound != "":
		return check{reason: i.unbound}, true
	case i.parameters == nil:
		return check{reason: "the ConfigMap " + i.namespace + "/" + i.name + " is missing: install again"}, true
	case !slices.Contains(i.namespaces(), p.Metadata.Namespace):
		return check{reason: "the exporter is added only to pods in " + strings.Join(i.namespaces(), ", ")}, true
	}
	for _, name := range i.conditions {
		c, known := checks[name]
		if !known {
			return check{reason: "this version of the program does not support the condition " + name}, true
		}
		if !c.holds(p, i) {
			if c.permanent {
				c.reason = "the exporter cannot be added to the pod: " + c.reason + ". Use the pods of another program, or the exporter's own DaemonSet"
			}
			return c, true
		}
	}
	return check{}, false
}
