package advice

import (
	"regexp"
	"slices"
	"strings"
)

type vendor string

const (
	nvidia vendor = "nvidia"
	amd    vendor = "amd"
)

// plugin describes the device plugin that a certain installer creates.
type plugin struct {
	name    string
	vendor  vendor
	matches func(d *daemonSet) bool
}

// These are the known device plugins. A device plugin is identified by the containers, labels and owners
// that its installer sets.
var (
	operatorPlugin = &plugin{"the GPU Operator's device plugin", nvidia, func(d *daemonSet) bool {
		return d.Spec.Template.Spec.has("nvidia-device-plugin") && (d.Metadata.Labels["app"] == "nvidia-device-plugin-daemonset" || d.ownedBy("ClusterPolicy"))
	}}
	helmPlugin = &plugin{"NVIDIA's device plugin from its Helm chart", nvidia, func(d *daemonSet) bool {
		return d.Spec.Template.Spec.has("nvidia-device-plugin-ctr") &&
			(d.Metadata.Labels["app.kubernetes.io/name"] != "" || strings.HasPrefix(d.Metadata.Labels["helm.sh/chart"], "nvidia-device-plugin"))
	}}
	staticPlugin = &plugin{"NVIDIA's device plugin from its static manifest", nvidia, func(d *daemonSet) bool {
		return d.Spec.Template.Spec.has("nvidia-device-plugin-ctr") || d.Spec.Template.Spec.has("nvidia-device-plugin")
	}}
	hamiPlugin = &plugin{"HAMi's device plugin", nvidia, func(d *daemonSet) bool {
		return d.Spec.Template.Spec.has("device-plugin") && d.Metadata.Labels["app.kubernetes.io/component"] == "hami-device-plugin"
	}}
	// GKE has DaemonSets such as nvidia-gpu-device-plugin-small-cos. OKE's add-on has the same name without
	// a suffix, so GKE and OKE are distinguished by the platform of the Nodes.
	cloudPlugin = &plugin{"the cloud's device plugin", nvidia, func(d *daemonSet) bool {
		return d.Metadata.Namespace == "kube-system" && strings.HasPrefix(d.Metadata.Name, "nvidia-gpu-device-plugin")
	}}
	amdStaticPlugin = &plugin{"AMD's device plugin from its static manifest", amd, func(d *daemonSet) bool {
		return d.Spec.Template.Spec.has("amdgpu-dp-cntr")
	}}
	amdHealthPlugin = &plugin{"AMD's device plugin from its health manifest", amd, func(d *daemonSet) bool {
		return d.Spec.Template.Spec.has("amdgpu-dp-cntr-health")
	}}
	amdHelmPlugin = &plugin{"AMD's device plugin from its Helm chart", amd, func(d *daemonSet) bool {
		return d.Spec.Template.Spec.has("amd-gpu-dp-cntr")
	}}
	amdOperatorPlugin = &plugin{"the device plugin of AMD's GPU Operator", amd, func(d *daemonSet) bool {
		return d.Spec.Template.Spec.has("device-plugin") && d.ownedBy("DeviceConfig")
	}}
	// plugins is searched in order, and the first entry that matches a DaemonSet is used.
	plugins = []*plugin{cloudPlugin, operatorPlugin, helmPlugin, staticPlugin, hamiPlugin, amdStaticPlugin, amdHealthPlugin, amdHelmPlugin, amdOperatorPlugin}
)

func (d *daemonSet) ownedBy(kind string) bool {
	return slices.ContainsFunc(d.Metadata.OwnerReferences, func(o owner) bool { return o.Kind == kind })
}

// pluginOf returns the device plugin that a DaemonSet runs, or nil if it runs no known device
// plugin.
func pluginOf(d *daemonSet) *plugin {
	for _, p := range plugins {
		if p.matches(d) {
			return p
		}
	}
	return nil
}

type found struct {
	*plugin
	set *daemonSet
}

func (f *found) is(one ...*plugin) bool { return f != nil && slices.Contains(one, f.plugin) }

// shares reports whether the containers in the device plugin's pods share a process namespace. They share a process
// namespace if the device plugin uses a configuration file.
func (f *found) shares() bool { return f != nil && f.set.Spec.Template.Spec.ShareProcessNamespace }

func (f *found) onHostNetwork() bool { return f != nil && f.set.Spec.Template.Spec.HostNetwork }

// dcgmExporter reports whether the cluster has DCGM Exporter pods to which the overlay
// operator-dcgm-exporter can add the exporter.
func (c *Cluster) dcgmExporter() bool {
	return slices.ContainsFunc(c.daemonSets, func(d daemonSet) bool {
		s := &d.Spec.Template.Spec
		return d.Metadata.full() == sidecars["operator-dcgm-exporter"] && hostConditions["is-dcgm-exporter"](s) && !s.ShareProcessNamespace && !s.HostNetwork
	})
}

// kubelet returns the kubelet's root directory, derived from a volume of the device plugin. If it is unknown, kubelet
// returns an empty string.
func (f *found) kubelet() string {
	if f == nil {
		return ""
	}
	for _, v := range f.set.Spec.Template.Spec.Volumes {
		if root, ok := strings.CutSuffix(strings.TrimSuffix(v.HostPath.Path, "/"), "/device-plugins"); ok {
			return root
		}
	}
	return ""
}

// pluginFor returns a vendor's device plugin. It prefers DaemonSets that select a Node, because GKE has
// several DaemonSets that select no Node.
func (c *Cluster) pluginFor(v vendor) (best *found) {
	for i := range c.daemonSets {
		d := &c.daemonSets[i]
		p := pluginOf(d)
		if p == nil || p.vendor != v {
			continue
		}
		if best == nil || best.set.Status.DesiredNumberScheduled == 0 && d.Status.DesiredNumberScheduled > 0 {
			best = &found{p, d}
		}
	}
	return best
}

var gpuResources = regexp.MustCompile(`^(nvidia\.com/(gpu|mig-)|amd\.com/(gpu|[a-z]+_nps[0-9]+)$)`)

// gpuLabels contains the labels that mark Nodes with GPUs. An empty value matches any value.
var gpuLabels = map[vendor]map[string]string{
	nvidia: {
		"nvidia.com/gpu.present":                           "true",
		"feature.node.kubernetes.io/pci-10de.present":      "true",
		"feature.node.kubernetes.io/pci-0302_10de.present": "true",
		"feature.node.kubernetes.io/pci-0300_10de.present": "true",
		"cloud.google.com/gke-accelerator":                 "",
		"eks.amazonaws.com/instance-gpu-manufacturer":      "nvidia",
		"karpenter.k8s.aws/instance-gpu-manufacturer":      "nvidia",
		"kubernetes.azure.com/accelerator":                 "nvidia",
		"accelerator":                                      "nvidia",
	},
	amd: {
		"feature.node.kubernetes.io/amd-gpu":               "true",
		"amd.com/gpu.vram":                                 "",
		"feature.node.kubernetes.io/pci-1002.present":      "true",
		"feature.node.kubernetes.io/pci-1200_1002.present": "true",
		"feature.node.kubernetes.io/pci-0302_1002.present": "true",
		"feature.node.kubernetes.io/pci-0380_1002.present": "true",
	},
}

// gpus describes how a Node shows that it has GPUs of a vendor, for example "8 nvidia.com/gpu". If nothing indicates
// such GPUs, it returns an empty string.
func (c *Cluster) gpus(n *node, v vendor) string {
	var resources, labels []string
	for name, count := range n.Status.Capacity {
		if strings.HasPrefix(name, string(v)+".com/") && gpuResources.MatchString(name) && count != "0" {
			resources = append(resources, count+" "+name)
		}
	}
	if len(resources) > 0 {
		slices.Sort(resources)
		return strings.Join(resources, ", ")
	}
	for _, driver := range c.drivers[n.Metadata.Name] {
		if draDrivers[driver] == v {
			return "ResourceSlices of " + driver
		}
	}
	for key, want := range gpuLabels[v] {
		if value, ok := n.Metadata.Labels[key]; ok && (want == "" || value == want) {
			labels = append(labels, key)
		}
	}
	if len(labels) == 0 {
		return ""
	}
	return "label " + slices.Min(labels) + ", no GPU in the Node's capacity"
}

func (c *Cluster) with(v vendor) (nodes []*node) {
	for i := range c.nodes {
		if c.gpus(&c.nodes[i], v) != "" {
			nodes = append(nodes, &c.nodes[i])
		}
	}
	return nodes
}

// all reports whether a list of Nodes is not empty and a condition holds for each Node in it.
func all(nodes []*node, holds func(*node) bool) bool {
	return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n *node) bool { return !holds(n) })
}

func labelled(key string) func(*node) bool {
	return func(n *node) bool { return n.Metadata.Labels[key] != "" }
}

func osImage(prefix string) func(*node) bool {
	return func(n *node) bool { return strings.HasPrefix(n.Status.NodeInfo.OSImage, prefix) }
}

// bottlerocket reports whether a Node runs Bottlerocket. Bottlerocket is also the operating system of
// EKS Auto Mode.
func bottlerocket(n *node) bool {
	return osImage("Bottlerocket")(n) || n.Metadata.Labels["eks.amazonaws.com/compute-type"] == "auto"
}

func autopilot(n *node) bool { return strings.HasPrefix(n.Metadata.Name, "gk3-") }

func (c *Cluster) distribution() string {
	nodes := make([]*node, len(c.nodes))
	for i := range c.nodes {
		nodes[i] = &c.nodes[i]
	}
	for _, d := range []struct {
		name string
		is   bool
	}{
		{"OpenShift", c.serves("config.openshift.io", "")},
		{"GKE", strings.Contains(c.version, "-gke.")},
		{"EKS", strings.Contains(c.version, "-eks-")},
		{"AKS", all(nodes, labelled("kubernetes.azure.com/cluster"))},
		{"OKE", slices.ContainsFunc(nodes, labelled("oci.oraclecloud.com/fault-domain"))},
		{"k3s", strings.Contains(c.version, "+k3s")},
		{"RKE2", strings.Contains(c.version, "+rke2")},
		{"k0s", strings.Contains(c.version, "+k0s")},
		{"MicroK8s", slices.ContainsFunc(nodes, labelled("microk8s.io/cluster"))},
		{"Talos", slices.ContainsFunc(nodes, osImage("Talos"))},
	} {
		if d.is {
			return d.name
		}
	}
	return ""
}
