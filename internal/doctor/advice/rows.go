package advice

import (
	"slices"
	"strings"
)

// These are the rows of the table "Choose an overlay" in docs/install.md, in the same order.
const (
	rowOperator    = "GPU Operator, Kubernetes ≥ 1.36"
	rowHelm        = "device plugin from its Helm chart, Kubernetes ≥ 1.36"
	rowStatic      = "device plugin from its static manifest, Kubernetes ≥ 1.36"
	rowBeta        = "one of these clusters on 1.34 or 1.35, with the policy API enabled"
	rowWebhook     = "one of these clusters on 1.30 or newer, without the policy API"
	rowPatch       = "Helm chart or static manifest, Kubernetes ≥ 1.30"
	rowOldOperator = "GPU Operator, Kubernetes < 1.36"
	rowSharing     = "time-slicing or MPS, or any device plugin with a configuration file (config.map, config.name, the operator's devicePlugin.config)"
	rowNetwork     = "device plugin on the host's network"
	rowDCGM        = "GPU Operator, if its device plugin must not restart"
	rowUnchanged   = "Helm chart or static manifest, if its pods must not change"
	rowHAMi        = "HAMi"
	rowTalos       = "Talos"
	rowK0s         = "k0s"
	rowOpenShift   = "OpenShift with the GPU Operator"
	rowDRA         = "GPUs from the DRA driver"
	rowGKE         = "GKE with Google's device plugin"
	rowAutopilot   = "GKE Autopilot"
	rowEKS         = "EKS Auto Mode, Bottlerocket"
	rowAmazon      = "EKS on Amazon Linux"
	rowAKS         = "AKS with managed GPU nodes"
	rowOKE         = "OKE with its GPU add-on"
	rowAMD         = "AMD Instinct (experimental)"
	rowAMDSidecar  = "AMD's device plugin from its static manifest, Kubernetes ≥ 1.36"
)

// Rows returns the rows of the table "Choose an overlay" in docs/install.md.
func Rows() []string {
	return []string{
		rowOperator, rowHelm, rowStatic, rowBeta, rowWebhook, rowPatch, rowOldOperator, rowSharing, rowNetwork, rowDCGM, rowUnchanged, rowHAMi, rowTalos,
		rowK0s, rowOpenShift, rowDRA, rowGKE, rowAutopilot, rowEKS, rowAmazon, rowAKS, rowOKE, rowAMD, rowAMDSidecar,
	}
}

// Choice is the row that fits a cluster. If the cluster has GPUs of two vendors, there is a Choice for
// the Nodes of each vendor.
type Choice struct {
	Row        string // one of Rows, or empty
	Overlay    string // overlay of the row, or empty if the row has no overlay
	Components []string
	Also       []string // other rows that fit the cluster
	plugin     *found
	vendor     vendor
	sidecar    bool   // the exporter runs in the device plugin's pods
	impossible string // reason why gpuledger cannot be installed, or empty
	kubelet    string // the kubelet's root directory if it is not the default
}

// values contains the chart values that correspond to each overlay.
var values = map[string][]string{
	"operator":               {"platform=gpu-operator", "exporter.mode=sidecar"},
	"helm":                   {"exporter.mode=sidecar"},
	"static":                 {"exporter.mode=sidecar"},
	"operator-standalone":    {"platform=gpu-operator"},
	"operator-dcgm-exporter": {"platform=gpu-operator", "exporter.mode=sidecar", "sidecar.host=dcgm-exporter"},
	"standalone":             nil,
	"openshift":              {"platform=openshift"},
	"dra":                    {"platform=dra"},
	"gke":                    {"platform=gke"},
	"eks":                    {"platform=eks"},
	"aks":                    {"platform=aks"},
	"oke":                    {"platform=oke"},
	"amd":                    {"platform=amd"},
	"amd-sidecar":            {"platform=amd", "exporter.mode=sidecar"},
}

// sidecars maps each overlay with the policy to the DaemonSet that the overlay names.
var sidecars = map[string]string{
	"operator":               "gpu-operator/nvidia-device-plugin-daemonset",
	"operator-dcgm-exporter": "gpu-operator/nvidia-dcgm-exporter",
	"helm":                   "nvidia-device-plugin/nvdp-nvidia-device-plugin",
	"static":                 "kube-system/nvidia-device-plugin-daemonset",
	"amd-sidecar":            "kube-system/amdgpu-device-plugin-daemonset",
}

// alternative maps each overlay with the policy to a similar overlay with the exporter's own DaemonSet.
var alternative = map[string]string{"operator": "operator-standalone", "helm": "standalone", "static": "standalone", "amd-sidecar": "amd"}

// Choices returns a row for each vendor that has GPUs or a device plugin in the cluster.
func (c *Cluster) Choices() (all []Choice) {
	for _, v := range []vendor{nvidia, amd} {
		p := c.pluginFor(v)
		nodes := c.with(v)
		if len(nodes) == 0 && (p == nil || p.set.Status.DesiredNumberScheduled == 0) {
			continue
		}
		rules := c.amdRules
		if v == nvidia {
			rules = c.nvidiaRules
		}
		choice := first(rules(p, nodes))
		choice.plugin, choice.vendor = p, v
		c.complete(&choice)
		all = append(all, choice)
	}
	return all
}

func (c *Cluster) complete(o *Choice) {
	o.sidecar = sidecars[o.Overlay] != ""
	if o.plugin.is(operatorPlugin) && o.Row != rowOpenShift && c.policyAPI == "v1" && c.dcgmExporter() {
		o.Also = append(o.Also, rowDCGM)
	}
	o.addRuntimeClass()
	if o.sidecar && c.policyAPI == "v1beta1" {
		o.Components = append(o.Components, "v1beta1")
	}
	if root := o.plugin.kubelet(); root != "" && root != "/var/lib/kubelet" {
		o.kubelet = root
	} else if o.Row == rowK0s {
		o.kubelet = k0sKubelet
	}
	if c.minor < 30 {
		o.impossible = "gpuledger needs Kubernetes 1.30 or newer"
	}
}

// addRuntimeClass adds the component runtime-class to the overlay standalone if the device plugin's pods
// have a runtime class.
func (o *Choice) addRuntimeClass() {
	if p := o.plugin; p != nil && p.set.Spec.Template.Spec.RuntimeClassName == "nvidia" && o.Overlay == "standalone" && !slices.Contains(o.Components, "runtime-class") {
		o.Components = append(o.Components, "runtime-class")
	}
}

// apart returns a copy of the choice with the exporter in its own DaemonSet.
func (o *Choice) apart() *Choice {
	a := *o
	a.Overlay, a.sidecar, a.Components = alternative[o.Overlay], false, nil
	a.addRuntimeClass()
	return &a
}

// beside returns a copy of the choice with the exporter as a sidecar in the device plugin's pods.
func (o *Choice) beside() *Choice {
	b := *o
	b.Overlay = map[*plugin]string{operatorPlugin: "operator", helmPlugin: "helm", staticPlugin: "static"}[o.plugin.plugin]
	b.sidecar, b.Components = true, nil
	return &b
}

const k0sKubelet = "/var/lib/k0s/kubelet"

// The first rule in a list that holds for a cluster determines the choice.
type rule struct {
	holds bool
	Choice
}

func first(rules []rule) Choice {
	for _, r := range rules {
		if r.holds {
			return r.Choice
		}
	}
	return Choice{}
}

func (c *Cluster) nvidiaRules(p *found, nodes []*node) []rule {
	operator, ordinary := p.is(operatorPlugin), p.is(helmPlugin, staticPlugin)
	apart := "standalone"
	if operator {
		apart = "operator-standalone"
	}
	talos := all(nodes, osImage("Talos"))
	rows := []rule{
		{strings.Contains(c.version, "-gke.") && all(nodes, autopilot), Choice{Row: rowAutopilot, impossible: "GKE Autopilot allows no pod with the host's process ids"}},
		{operator && c.serves("config.openshift.io", ""), Choice{Row: rowOpenShift, Overlay: "openshift"}},
		{c.distribution() == "OKE" && p.is(cloudPlugin), Choice{Row: rowOKE, Overlay: "oke"}},
		{c.distribution() == "GKE" && p.is(cloudPlugin) && (p.set.Status.DesiredNumberScheduled > 0 || !c.dra(nodes)), Choice{Row: rowGKE, Overlay: "gke"}},
		{p.is(hamiPlugin), Choice{Row: rowHAMi, Overlay: "standalone"}},
		{c.dra(nodes), Choice{Row: rowDRA, Overlay: "dra"}},
		{all(nodes, bottlerocket), Choice{Row: rowEKS, Overlay: "eks"}},
		{p == nil && all(nodes, labelled("kubernetes.azure.com/cluster")), Choice{Row: rowAKS, Overlay: "aks"}},
		{talos, Choice{Row: rowTalos, Overlay: "standalone", Components: []string{"runtime-class"}}},
		{c.isK0s(p), Choice{Row: rowK0s, Overlay: "standalone", Components: []string{"k0s"}}},
		{p.shares(), Choice{Row: rowSharing, Overlay: apart}},
		{p.onHostNetwork(), Choice{Row: rowNetwork, Overlay: apart}},
	}
	return append(rows, c.pluginRules(p, operator, ordinary)...)
}

func (c *Cluster) pluginRules(p *found, operator, ordinary bool) []rule {
	sidecar := map[bool]string{true: "helm", false: "static"}[p.is(helmPlugin)]
	if operator {
		sidecar = "operator"
	}
	return []rule{
		{(operator || ordinary) && c.policyAPI == "v1beta1", Choice{Row: rowBeta, Overlay: sidecar}},
		{operator && c.policyAPI == "v1", Choice{Row: rowOperator, Overlay: sidecar}},
		{operator, Choice{Row: rowOldOperator, Overlay: "operator-standalone", Also: []string{rowWebhook}}},
		{p.is(helmPlugin) && c.policyAPI == "v1", Choice{Row: rowHelm, Overlay: sidecar}},
		{p.is(staticPlugin) && c.policyAPI == "v1", Choice{Row: rowStatic, Overlay: sidecar}},
		{ordinary, Choice{Row: rowUnchanged, Overlay: "standalone", Also: []string{rowWebhook, rowPatch}}},
		{true, Choice{Overlay: "standalone"}},
	}
}

func (c *Cluster) amdRules(p *found, _ []*node) []rule {
	return []rule{
		{
			p.is(amdStaticPlugin, amdHealthPlugin) && c.policyAPI != "" && !p.shares() && !p.onHostNetwork(),
			Choice{Row: rowAMDSidecar, Overlay: "amd-sidecar"},
		},
		{true, Choice{Row: rowAMD, Overlay: "amd"}},
	}
}

// dra reports whether the DRA driver publishes the GPUs of all Nodes, and no device plugin publishes a GPU.
func (c *Cluster) dra(nodes []*node) bool {
	return all(nodes, func(n *node) bool { return strings.HasPrefix(c.gpus(n, nvidia), "ResourceSlices") })
}

// isK0s reports whether the cluster is a k0s cluster. It checks the kubelet's root directory, which a volume of the
// device plugin contains. Without such a volume, it checks the Kubernetes version.
func (c *Cluster) isK0s(p *found) bool {
	if root := p.kubelet(); root != "" {
		return root == k0sKubelet
	}
	return strings.Contains(c.version, "+k0s")
}

// Values returns the chart values as arguments for --set.
func (o *Choice) Values() (all []string) {
	all = slices.Clone(values[o.Overlay])
	if o.sidecar && o.plugin != nil {
		namespace, name, _ := strings.Cut(sidecars[o.Overlay], "/")
		d := o.plugin.set.Metadata
		if o.Overlay == "helm" || o.Overlay == "static" || d.Namespace != namespace { // the chart's platform does not set the namespace
			all = append(all, "devicePlugin.namespace="+d.Namespace)
		}
		if o.Overlay == "helm" || d.Name != name {
			all = append(all, "devicePlugin.daemonSet="+d.Name)
		}
	}
	if slices.Contains(o.Components, "runtime-class") {
		all = append(all, "runtimeClassName=nvidia")
	}
	if o.kubelet != "" && !o.sidecar {
		all = append(all, "kubeletPath="+o.kubelet)
	}
	return all
}

// named reports whether the overlay can be used without changes. This is the case if the overlay adds no sidecar, or if
// it already names the cluster's device plugin.
func (o *Choice) named() bool {
	return !o.sidecar || o.plugin != nil && sidecars[o.Overlay] == o.plugin.set.Metadata.full()
}
