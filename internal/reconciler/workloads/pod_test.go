package workloads_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const requests = "gpuledger_pod_gpu_requests"

func asking(name, resourceName, quantity string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceName(resourceName): resource.MustParse(quantity)},
	}}
}

func sidecar(c corev1.Container) corev1.Container {
	c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	return c
}

func requestLine(resourceName, count string) string {
	return `gpuledger_pod_gpu_requests{namespace="team-a",pod="p",pod_uid="uid-p",resource="` + resourceName + `"} ` + count
}

func TestRequests(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	tests := []struct {
		name       string
		init, main []corev1.Container
		args       []string
		want       []string
	}{
		{name: "two containers", main: []corev1.Container{asking("a", gpu, "1"), asking("b", gpu, "2")}, want: []string{requestLine(gpu, "3")}},
		{name: "a larger init container", init: []corev1.Container{asking("i", gpu, "4")}, main: []corev1.Container{asking("a", gpu, "1")}, want: []string{requestLine(gpu, "4")}},
		{name: "a smaller init container", init: []corev1.Container{asking("i", gpu, "1")}, main: []corev1.Container{asking("a", gpu, "2")}, want: []string{requestLine(gpu, "2")}},
		{name: "only an init container", init: []corev1.Container{asking("i", gpu, "1")}, main: []corev1.Container{asking("a", "cpu", "2")}, want: []string{requestLine(gpu, "1")}},
		{name: "a sidecar", init: []corev1.Container{sidecar(asking("s", gpu, "1"))}, main: []corev1.Container{asking("a", gpu, "2")}, want: []string{requestLine(gpu, "3")}},
		{name: "an init container after a sidecar", init: []corev1.Container{sidecar(asking("s", gpu, "1")), asking("i", gpu, "4")}, main: []corev1.Container{asking("a", gpu, "2")}, want: []string{requestLine(gpu, "5")}},
		{name: "MIG and shared", main: []corev1.Container{asking("a", "nvidia.com/mig-1g.10gb", "1"), asking("b", "nvidia.com/gpu.shared", "2")}, want: []string{requestLine("nvidia.com/gpu.shared", "2"), requestLine("nvidia.com/mig-1g.10gb", "1")}},
		{name: "a device class as a resource", main: []corev1.Container{asking("a", "deviceclass.resource.kubernetes.io/gpu.nvidia.com", "2")}, want: []string{requestLine("deviceclass.resource.kubernetes.io/gpu.nvidia.com", "2")}},
		{name: "AMD's resources, whole and by mode", main: []corev1.Container{asking("a", "amd.com/gpu", "8"), asking("b", "amd.com/cpx_nps4", "2"), asking("c", "amd.com/nic", "1")}, want: []string{requestLine("amd.com/cpx_nps4", "2"), requestLine("amd.com/gpu", "8")}},
		{name: "no GPU", main: []corev1.Container{asking("a", "nvidia.com/gpumem", "8"), asking("b", "cpu", "2")}},
		{name: "zero GPUs", main: []corev1.Container{asking("a", gpu, "0")}},
		{name: "another pattern", args: []string{`-resource-pattern=^amd\.com/gpu$`}, main: []corev1.Container{asking("a", "amd.com/gpu", "8"), asking("b", gpu, "1")}, want: []string{requestLine("amd.com/gpu", "8")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := gpuPod("p", "1", nil)
				p.Spec.InitContainers, p.Spec.Containers = tt.init, tt.main
				w := newWorld(t, tt.args, p)
				w.lead()
				defer w.stop()
				if diff := cmp.Diff(tt.want, w.page(requests)); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func claimOf(name string, requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: "claim-1", ResourceVersion: "1"},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}},
	}
}

func exactly(name, class string, count int64) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: name, Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
	}}
}

func allOf(name, class string) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: name, Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeAll,
	}}
}

func allocate(c *resourcev1.ResourceClaim, requests ...string) *resourcev1.ResourceClaim {
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, r := range requests {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Request: r})
	}
	return c
}

func claiming(claim string) *corev1.Pod {
	p := gpuPod("p", "0", nil)
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimName: &claim}}
	return p
}

func TestClaims(t *testing.T) {
	const class = "gpu.nvidia.com"
	admin := exactly("r", class, 2)
	admin.Exactly.AdminAccess = new(true)
	used := exactly("r", class, 2)
	used.Exactly.AdminAccess = new(false)
	either := resourcev1.DeviceRequest{Name: "r", FirstAvailable: []resourcev1.DeviceSubRequest{
		{Name: "big", DeviceClassName: class, Count: 2}, {Name: "small", DeviceClassName: "mig.nvidia.com", Count: 1},
	}}
	tests := []struct {
		name  string
		claim *resourcev1.ResourceClaim
		shown bool // whether the pod has series
		want  []string
	}{
		{"exact", claimOf("c", exactly("r", class, 2)), true, []string{requestLine(class, "2")}},
		{"two requests", claimOf("c", exactly("r", class, 2), exactly("s", class, 1)), true, []string{requestLine(class, "3")}},
		{"all, not allocated", claimOf("c", allOf("r", class)), true, nil},
		{"all, allocated", allocate(claimOf("c", allOf("r", class)), "r", "r", "other"), true, []string{requestLine(class, "2")}},
		{"alternatives, not allocated", claimOf("c", either), true, nil},
		{"the second alternative", allocate(claimOf("c", either), "r/small"), true, []string{requestLine("mig.nvidia.com", "1")}},
		{"another class", claimOf("c", exactly("r", "nic.example.com", 2)), false, nil},
		{"admin access set to false", claimOf("c", used), true, []string{requestLine(class, "2")}},
		{"admin access only", claimOf("c", admin), false, nil},
		{"another claim", claimOf("d", exactly("r", class, 2)), false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, claiming("c"), tt.claim)
				w.lead()
				defer w.stop()
				if diff := cmp.Diff(tt.want, w.page(requests)); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				if got := len(w.page("gpuledger_pod_info")) == 1; got != tt.shown {
					t.Errorf("pod is shown = %v, want %v", got, tt.shown)
				}
			})
		})
	}
}

func TestClaimReferredToTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := claiming("c")
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "again", ResourceClaimName: new("c")})
		w := newWorld(t, nil, p, claimOf("c", exactly("r", "gpu.nvidia.com", 2)))
		w.lead()
		defer w.stop()
		if diff := cmp.Diff([]string{requestLine("gpu.nvidia.com", "2")}, w.page(requests)); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// TestClaimFromTemplate checks a claim that a controller creates from a template. The name of the claim is then in the
// pod's status.
func TestClaimFromTemplate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gpuPod("p", "0", nil)
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: new("template")}}
		p.Status.Phase, p.CreationTimestamp = corev1.PodPending, metav1.Now()
		w := newWorld(t, nil, p)
		w.lead()
		defer w.stop()
		p = p.DeepCopy()
		p.ResourceVersion = "2"
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpus", ResourceClaimName: new("p-gpus-x7")}}
		w.update("pods", p)
		if got := w.newEvents(); len(got) != 0 {
			t.Errorf("events of a pod with an unknown claim: %v", got)
		}
		claim := claimOf("p-gpus-x7", exactly("r", "gpu.nvidia.com", 1))
		w.create("resourceclaims", claim)
		claim = claim.DeepCopy()
		claim.ResourceVersion = "2"
		w.update("resourceclaims", claim)
		if got := w.newEvents(); len(got) != 1 || got[0]["event"] != "phase" {
			t.Errorf("events after the claim became known: %v, want the phase", got)
		}
		want := []string{requestLine("gpu.nvidia.com", "1")}
		if diff := cmp.Diff(want, w.page(requests)); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		// The controller deletes the claim when the pod has finished.
		w.delete("resourceclaims", "p-gpus-x7")
		if diff := cmp.Diff(want, w.page(requests)); diff != "" {
			t.Errorf("requests after the claim was deleted (-want +got):\n%s", diff)
		}
		p = p.DeepCopy()
		p.ResourceVersion, p.Status.Phase = "3", corev1.PodSucceeded
		w.update("pods", p)
		if diff := cmp.Diff(want, w.page(requests)); diff != "" {
			t.Errorf("requests after a later change of the pod (-want +got):\n%s", diff)
		}
	})
}

func TestClaimDeletedAndMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, []string{"-retention=1m"}, claiming("c"), claimOf("c", exactly("r", "gpu.nvidia.com", 2)), claimOf("unused", exactly("r", "gpu.nvidia.com", 1)))
		w.lead()
		defer w.stop()
		w.delete("resourceclaims", "unused")
		w.delete("resourceclaims", "c")
		w.delete("pods", "p")
		time.Sleep(2 * time.Minute)
		again := claiming("c")
		again.UID = "uid-again"
		w.create("pods", again)
		if got := w.page(info); len(got) != 0 {
			t.Errorf("a pod with a deleted claim is shown: %v", got)
		}
		w.create("resourceclaims", claimOf("c", exactly("r", "gpu.nvidia.com", 4)))
		want := []string{strings.Replace(requestLine("gpu.nvidia.com", "4"), "uid-p", "uid-again", 1)}
		if diff := cmp.Diff(want, w.page(requests)); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// TestClaimMadeAgain checks two successive claims with the same name. When the pod of the first claim ends, the second
// claim must be kept.
func TestClaimMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := claimOf("c", exactly("r", "gpu.nvidia.com", 2))
		w := newWorld(t, []string{"-retention=1m"}, claiming("c"), c)
		w.lead()
		defer w.stop()
		w.delete("resourceclaims", "c")
		w.create("resourceclaims", c)
		w.delete("pods", "p")
		time.Sleep(2 * time.Minute)
		again := claiming("c")
		again.UID = "uid-again"
		w.create("pods", again)
		if got := w.page(info); len(got) != 1 {
			t.Errorf("pods are %v, want the pod that refers to the claim", got)
		}
	})
}

// TestNoClaimsServed checks an API server that serves resource claims only after an upgrade.
func TestNoClaimsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, gpuPod("q", "1", nil), claiming("c"), claimOf("c", exactly("r", "gpu.nvidia.com", 2)))
		served := w.kube.Resources
		w.kube.Resources = w.kube.Resources[:len(w.kube.Resources)-1]
		w.lead()
		defer w.stop()
		if got := w.page("gpuledger_pod_info"); len(got) != 1 {
			t.Errorf("without claims, pods are %v, want only the pod with the extended resource", got)
		}
		w.kube.Lock()
		w.kube.Resources = served
		w.kube.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := w.page("gpuledger_pod_info"); len(got) != 2 {
			t.Errorf("with claims, pods are %v; want both", got)
		}
	})
}

func resourceOf(name string) schema.GroupVersionResource {
	if name == "resourceclaims" {
		return resourcev1.SchemeGroupVersion.WithResource(name)
	}
	return corev1.SchemeGroupVersion.WithResource(name)
}

func (w *world) create(resource string, o runtime.Object) {
	w.t.Helper()
	w.check(w.kube.Tracker().Create(resourceOf(resource), o, "team-a"))
}

func (w *world) update(resource string, o runtime.Object) {
	w.t.Helper()
	w.check(w.kube.Tracker().Update(resourceOf(resource), o, "team-a"))
}

func (w *world) delete(resource, name string) {
	w.t.Helper()
	w.check(w.kube.Tracker().Delete(resourceOf(resource), "team-a", name))
}

// check fails the test on an error, and waits until the change has been processed.
func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}
