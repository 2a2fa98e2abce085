//go:build e2e

package kubelet_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/sidecar"
)

// The tests in this file run the exporter's container from the manifests in the pod of a device plugin. The plugin's
// own container must not be affected.

// stateFolder is the host folder in which the exporter saves its counters.
const stateFolder = "/run/gpuledger"

// pluginPod returns the pod of a device plugin with the exporter as a sidecar. change modifies the exporter's
// container.
func pluginPod(change func(*corev1.Container)) (pod, *corev1.Pod) {
	p := pod{name: unique("device-plugin")}
	exporter := sidecar.Container(exporterImage)
	change(&exporter)
	return p, &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: p.name, Namespace: namespace, Annotations: sidecar.Annotations("e2e"),
		},
		Spec: corev1.PodSpec{
			HostPID: true, HostNetwork: true, RestartPolicy: corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: new(int64(5)),
			Containers: []corev1.Container{
				{Name: "plugin", Image: workloadImage, ImagePullPolicy: corev1.PullNever},
				exporter,
			},
			Volumes: sidecar.Volumes(),
		},
	}
}

// runPlugin returns the plugin's container.
func (n *node) runPlugin(t *testing.T, p pod, manifest *corev1.Pod) running {
	t.Helper()
	n.writeManifest(t, p, manifest)
	var plugin running
	eventually(t, "the plugin's container runs", func() (ok bool) {
		plugin, ok = pluginOf(t, p)
		return ok
	})
	return plugin
}

func pluginOf(t *testing.T, p pod) (running, bool) {
	t.Helper()
	all := containers(t)
	i := slices.IndexFunc(all, func(r running) bool {
		return r.Name == p.fullName() && r.Part == "plugin"
	})
	if i < 0 {
		return running{}, false
	}
	return all[i], true
}

func checkUntouched(t *testing.T, p pod, before running) {
	t.Helper()
	now, ok := pluginOf(t, p)
	if !ok || now.ID != before.ID || !slices.Equal(now.PIDs, before.PIDs) {
		t.Errorf("the plugin's container was %+v, is %+v, want the same id and processes", before, now)
	}
}

func (n *node) sidecarStatus(t *testing.T, p pod) corev1.ContainerStatus {
	t.Helper()
	out, err := output(n.program("podsapi"), "list", podsAPI)
	check(t, err)
	for line := range strings.Lines(out) {
		var found corev1.Pod
		check(t, json.Unmarshal([]byte(line), &found))
		if found.Name != p.fullName() {
			continue
		}
		for _, s := range found.Status.ContainerStatuses {
			if s.Name == sidecar.Name {
				return s
			}
		}
	}
	return corev1.ContainerStatus{}
}

// testSidecarWithoutImage checks that the plugin is not affected if the exporter's image cannot be pulled. The kubelet
// must retry the pull.
func (n *node) testSidecarWithoutImage(t *testing.T) {
	p, manifest := pluginPod(func(c *corev1.Container) { c.Image = "gpuledger.test/missing:1" })
	plugin := n.runPlugin(t, p, manifest)
	eventually(t, "the kubelet waits before it pulls again", func() bool {
		waiting := n.sidecarStatus(t, p).State.Waiting
		return waiting != nil && waiting.Reason == "ImagePullBackOff"
	})
	checkUntouched(t, p, plugin)
	n.remove(t, p)
}

// testSidecarCrashes checks that an exporter that ends immediately does not affect the plugin. The kubelet must restart
// the exporter.
func (n *node) testSidecarCrashes(t *testing.T) {
	p, manifest := pluginPod(func(c *corev1.Container) { c.Image, c.Args = workloadImage, []string{"crash"} })
	plugin := n.runPlugin(t, p, manifest)
	eventually(t, "the kubelet restarts the sidecar", func() bool { return n.sidecarStatus(t, p).RestartCount > 0 })
	checkUntouched(t, p, plugin)
	n.remove(t, p)
}

// testSidecarEats checks that an exporter that exceeds its memory limit does not affect the plugin.
func (n *node) testSidecarEats(t *testing.T) {
	p, manifest := pluginPod(func(c *corev1.Container) { c.Image, c.Args = workloadImage, []string{"eat"} })
	plugin := n.runPlugin(t, p, manifest)
	eventually(t, "the kernel kills the sidecar for its memory", func() bool {
		s := n.sidecarStatus(t, p)
		return isKilled(s.State) || isKilled(s.LastTerminationState)
	})
	checkUntouched(t, p, plugin)
	n.remove(t, p)
}

func isKilled(s corev1.ContainerState) bool {
	return s.Terminated != nil && s.Terminated.Reason == "OOMKilled"
}

// testReplacedPod checks that the counters continue when the device plugin's pod is replaced. The exporter runs with
// the rights from the manifests. At first, its folder on the host does not exist, and the container runtime creates it.
func (n *node) testReplacedPod(t *testing.T) {
	loadExporter(t)
	n.run(t, trainer())
	n.startDriver(t, holders(containers(t)))
	check(t, os.RemoveAll(stateFolder)) // earlier tests may have left files
	before := n.runExporter(t, func(page) bool { return true })
	info, err := os.Stat(stateFolder)
	check(t, err)
	if !info.IsDir() {
		t.Errorf("mode of %s: %v, want a folder", stateFolder, info.Mode())
	}
	after := n.runExporter(t, func(p page) bool { return exclusive(p) > exclusive(before) })
	for _, uuid := range gpus {
		of := map[string]string{"UUID": uuid}
		if was, is := before.Sum(boardEnergy, of), after.Sum(boardEnergy, of); is < was {
			t.Errorf("%s: the board's counter was %v J, is %v J, want no decrease", uuid, was, is)
		}
	}
	// Continued counters include the energy between the two runs as a gap. New counters would not include it.
	gap := map[string]string{"reason": "gap"}
	if was, is := before.Sum(unattributed, gap), after.Sum(unattributed, gap); was != 0 || is == 0 {
		t.Errorf("energy in gaps was %v J, is %v J, want zero before and more after", was, is)
	}
}

const (
	boardEnergy  = "gpuledger_gpu_energy_joules_total"
	unattributed = "gpuledger_unattributed_energy_joules_total"
)

func exclusive(p page) float64 {
	return p.Sum("gpuledger_container_energy_joules_total", map[string]string{"method": "exclusive"})
}

// runExporter runs the exporter in a device plugin's pod until it charges a container and ok returns true. It returns
// the exporter's last page.
func (n *node) runExporter(t *testing.T, ok func(page) bool) page {
	t.Helper()
	p, manifest := pluginPod(func(c *corev1.Container) { c.ImagePullPolicy = corev1.PullNever })
	n.runPlugin(t, p, manifest)
	var last page
	eventually(t, "the exporter in the pod charges a container", func() bool {
		last = scrape()
		return up(last, "processes", "host_pids", "pod_resources", "pods_api", "state") && exclusive(last) > 0 && ok(last)
	})
	checkBalance(t, last)
	n.remove(t, p)
	return last
}

// The container runtime adds the driver to the containers of the exporter's image.
func loadExporter(t *testing.T) {
	t.Helper()
	name, _, _ := strings.Cut(exporterImage, ":")
	_, err := ctr("images", "import", "--snapshotter=native", "--base-name="+name, filepath.Join(release(t), "gpuledger-"+version[1:]+".oci.tar"))
	check(t, err)
}
