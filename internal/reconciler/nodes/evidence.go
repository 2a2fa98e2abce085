package nodes

import (
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The pod of an exporter does not prove that its Node has a GPU, because a user of the exporters' namespace can create
// such a pod on any Node. Therefore a Node is labelled only if there is other evidence of a GPU, which the kubelet,
// drivers, feature discovery or administrators have written.

// gpuVendors contains the prefixes of extended resources for GPUs, including renamed and shared resources and MIG
// instances. While a device plugin is down, its resources stay in the Node with the quantity 0.
var gpuVendors = []string{"nvidia.com/", "amd.com/"}

// isGPUResource accepts the configured names, the prefixes of vendors, and names that contain "gpu", such as
// volcano.sh/vgpu-number.
func (o *Options) isGPUResource(name string) bool {
	return o.Resources.MatchString(name) || strings.Contains(name, "gpu") ||
		slices.ContainsFunc(gpuVendors, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// gpuLabels contains the labels with which the shipped DaemonSets select Nodes with GPUs. They are set by GPU Operator,
// feature discovery, cloud providers and AMD's labeller. An empty value matches any value.
var gpuLabels = map[string]string{
	"nvidia.com/gpu.present":                           "true",
	"feature.node.kubernetes.io/pci-10de.present":      "true",
	"feature.node.kubernetes.io/pci-0302_10de.present": "true",
	"feature.node.kubernetes.io/pci-0300_10de.present": "true",
	"feature.node.kubernetes.io/pci-1002.present":      "true",
	"feature.node.kubernetes.io/pci-1200_1002.present": "true",
	"feature.node.kubernetes.io/pci-0302_1002.present": "true",
	"feature.node.kubernetes.io/pci-0380_1002.present": "true",
	"feature.node.kubernetes.io/amd-gpu":               "true",
	"amd.com/gpu.vram":                                 "",
	"cloud.google.com/gke-accelerator":                 "",
	"eks.amazonaws.com/instance-gpu-manufacturer":      "nvidia",
	"karpenter.k8s.aws/instance-gpu-manufacturer":      "nvidia",
	"kubernetes.azure.com/accelerator":                 "nvidia",
	"accelerator":                                      "nvidia",
}

func (o *Options) showsGPU(n *corev1.Node) bool {
	for _, list := range []corev1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
		for name := range list {
			if o.isGPUResource(string(name)) {
				return true
			}
		}
	}
	for key, value := range n.Labels {
		want, known := gpuLabels[key]
		if known && (want == "" || want == value) || slices.Contains(o.Expected, key+"="+value) {
			return true
		}
	}
	// Oracle Cloud's names of instance types with GPUs contain ".GPU", such as BM.GPU.H100.8.
	return strings.Contains(n.Labels[corev1.LabelInstanceTypeStable], ".GPU")
}

// hasGPU reports whether a Node may be labelled. It may be labelled if it already has labels of this program, or if a
// source other than the Node's exporter shows a GPU.
func (t *term) hasGPU(n *node) bool {
	if n.showsGPU || n.legacy || !n.owned.empty() || n.condition != (condition{}) {
		return true
	}
	if s := t.slices.Load(); s != nil && s.on(n.Name) {
		return true
	}
	return t.opts.Listed != nil && t.opts.Listed(n.Name)
}

// settleIn is the time after which the inventory of a Node without a known GPU is rejected. The exporter may start
// before the device plugin, the DRA driver and feature discovery, which make the GPUs known.
const settleIn = 2 * time.Minute

// ignored contains the Nodes that have an exporter but no known GPU, with the time of the first attempt to read the
// exporter. It is safe for concurrent use.
type ignored struct {
	mu    sync.Mutex
	since map[string]time.Time
}

func newIgnored() *ignored { return &ignored{since: make(map[string]time.Time)} }

// add returns the time at which the Node was first added.
func (i *ignored) add(name string, now time.Time) time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, known := i.since[name]; !known {
		i.since[name] = now
	}
	return i.since[name]
}

// remove reports whether the Node was ignored.
func (i *ignored) remove(name string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, was := i.since[name]
	delete(i.since, name)
	return was
}

// admit queues the exporters on an ignored Node if a GPU of the Node has become known.
func (t *term) admit(name string) {
	n := t.node(name)
	if n == nil || !t.hasGPU(n) || !t.ignored.remove(name) {
		return
	}
	t.readNode(name)
}
