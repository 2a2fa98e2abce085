package deploy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	syaml "sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/internal/deploy"
	"github.com/gpuledger/gpuledger/internal/reconciler"
)

const manifests = "../../manifests/"

// TestYAML: what is written reads as what it was: nothing that matters was empty.
func TestYAML(t *testing.T) {
	want := deploy.DaemonSet()
	text, err := deploy.YAML(want)
	check(t, err)
	got := &appsv1.DaemonSet{}
	check(t, syaml.UnmarshalStrict(text, got))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestParameters: the shipped ConfigMap has each parameter that the policy reads, and
// no other, and the image of the manifests.
func TestParameters(t *testing.T) {
	text, err := os.ReadFile(manifests + "base/injection/parameters.yaml")
	check(t, err)
	parameters := &corev1.ConfigMap{}
	check(t, syaml.UnmarshalStrict(text, parameters))
	if parameters.Namespace != deploy.ParametersNamespace || parameters.Name != deploy.ParametersName {
		t.Errorf("the policy reads %s/%s", deploy.ParametersNamespace, deploy.ParametersName)
	}
	if got := parameters.Data["image"]; got != deploy.Image+deploy.Tag {
		t.Errorf("the image is %s", got)
	}
	policy, err := deploy.YAML(deploy.Policy())
	check(t, err)
	read := make(map[string]bool)
	for _, match := range regexp.MustCompile(`params\.\?data\.\?(\w+)`).FindAllSubmatch(policy, -1) {
		read[string(match[1])] = true
	}
	shipped := make(map[string]bool)
	for key := range parameters.Data {
		shipped[key] = true
	}
	if diff := cmp.Diff(read, shipped); diff != "" {
		t.Errorf("(-read +shipped):\n%s", diff)
	}
}

// TestTarget: the patches' target is the device plugin's DaemonSet, and not the other
// ones of its chart. Kustomize matches whole names.
func TestTarget(t *testing.T) {
	target := regexp.MustCompile("^(" + deploy.DevicePluginName + ")$")
	for name, want := range map[string]bool{
		"nvidia-device-plugin-daemonset":                  true,
		"nvidia-device-plugin":                            true,
		"nvdp-nvidia-device-plugin":                       true,
		"nvidia-device-plugin-gpu-feature-discovery":      false,
		"nvdp-nvidia-device-plugin-gpu-feature-discovery": false,
		"nvdp-nvidia-device-plugin-mps-control-daemon":    false,
	} {
		if target.MatchString(name) != want {
			t.Errorf("%s matches: %v", name, !want)
		}
	}
	text, err := os.ReadFile(manifests + "components/sidecar/kustomization.yaml")
	check(t, err)
	if got := strings.Count(string(text), "name: "+deploy.DevicePluginName+"\n"); got != 2 {
		t.Errorf("the component has the target %d times", got)
	}
}

// TestOneNamespace: where the policy puts exporters, and nowhere else, the reconciler
// looks for them.
func TestOneNamespace(t *testing.T) {
	policies := 0
	for file, documents := range files(t) {
		var policy *admissionv1.MutatingAdmissionPolicy
		var arguments []string
		for _, document := range documents {
			w := &workload{}
			check(t, yaml.Unmarshal(document, w))
			switch w.Kind {
			case "MutatingAdmissionPolicy":
				policy = &admissionv1.MutatingAdmissionPolicy{}
				check(t, syaml.UnmarshalStrict(document, policy))
			case "Deployment":
				arguments = w.Spec.Template.Spec.Containers[0].Args
			}
		}
		if policy == nil {
			continue
		}
		policies++
		namespaces := policy.Spec.MatchConstraints.NamespaceSelector.MatchExpressions[0].Values
		if len(namespaces) != 1 || !slices.ContainsFunc(arguments, func(a string) bool {
			return strings.HasPrefix(a, "--exporter.daemonsets="+namespaces[0]+"/")
		}) {
			t.Errorf("%s: the policy is for %v, the reconciler has %v", file, namespaces, arguments)
		}
	}
	if policies < 3 {
		t.Errorf("only %d policies", policies)
	}
}

// files returns the documents of every rendered file.
func files(t *testing.T) map[string][][]byte {
	t.Helper()
	names, err := filepath.Glob(manifests + "rendered/*.yaml")
	check(t, err)
	if len(names) == 0 {
		t.Fatal("nothing is rendered")
	}
	documents := make(map[string][][]byte)
	for _, name := range names {
		text, err := os.ReadFile(name)
		check(t, err)
		documents[filepath.Base(name)] = bytes.Split(text, []byte("\n---\n"))
	}
	return documents
}

// workload is what makes pods, of any kind.
type workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

// rendered calls f with every workload of every rendered file.
func rendered(t *testing.T, f func(t *testing.T, w *workload)) {
	t.Helper()
	for file, documents := range files(t) {
		for _, document := range documents {
			w := &workload{}
			check(t, yaml.Unmarshal(document, w))
			if slices.Contains([]string{"DaemonSet", "Deployment", "Job"}, w.Kind) {
				t.Run(file+"/"+w.Name, func(t *testing.T) { f(t, w) })
			}
		}
	}
}

// TestArguments: each program takes the arguments that the manifests give it.
func TestArguments(t *testing.T) {
	getenv := func(name string) string { return "the-" + strings.ToLower(name) }
	programs := 0
	rendered(t, func(t *testing.T, w *workload) {
		pod := w.Spec.Template.Spec
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			var err error
			switch image := imageName(c.Image); image {
			case "gpuledger":
				_, err = app.Parse(c.Args, getenv)
			case "gpuledger-reconciler":
				_, err = reconciler.Parse(c.Args, getenv)
			default:
				continue
			}
			if err != nil {
				t.Errorf("%s %v: %v", c.Name, c.Args, err)
			}
			programs++
		}
	})
	if programs < 10 {
		t.Errorf("only %d programs", programs)
	}
}

// imageName returns the last part of an image's name.
func imageName(image string) string {
	name, _, _ := strings.Cut(image, "@")
	name = name[strings.LastIndex(name, "/")+1:]
	name, _, _ = strings.Cut(name, ":")
	return name
}

// TestModesty: what no container of ours may have, and what each must say.
func TestModesty(t *testing.T) {
	rendered(t, func(t *testing.T, w *workload) {
		pod := w.Spec.Template.Spec
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			s := c.SecurityContext
			if s.Privileged != nil && !strings.HasPrefix(t.Name(), "TestModesty/gke.yaml/") {
				t.Errorf("%s is privileged", c.Name)
			}
			if len(s.Capabilities.Add) != 0 || !slices.Contains(s.Capabilities.Drop, "ALL") {
				t.Errorf("%s: capabilities are %v", c.Name, s.Capabilities)
			}
			if !*s.ReadOnlyRootFilesystem {
				t.Errorf("%s may write its root", c.Name)
			}
			if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Memory().IsZero() {
				t.Errorf("%s has no memory limit or request", c.Name)
			}
		}
		if pod.HostNetwork || pod.HostIPC {
			t.Error("the pod has the host's network or IPC")
		}
		// Only the reconciler asks the API server.
		token := pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken
		if token != (pod.ServiceAccountName == "gpuledger-reconciler") {
			t.Errorf("the token of %s is mounted: %v", pod.ServiceAccountName, token)
		}
		if token && (pod.HostPID || slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.ConfigMap == nil })) {
			t.Error("who has a token may not see the host")
		}
	})
}

// TestOneVersion: all manifests name the same version, but for the example, which shows
// how to name digests.
func TestOneVersion(t *testing.T) {
	rendered(t, func(t *testing.T, w *workload) {
		if strings.Contains(t.Name(), "/example.yaml/") {
			return
		}
		pod := w.Spec.Template.Spec
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			if strings.HasPrefix(imageName(c.Image), "gpuledger") && !strings.HasSuffix(c.Image, deploy.Tag) {
				t.Errorf("the image is %s, want the version %s", c.Image, deploy.Tag)
			}
		}
	})
}

// TestNodeSelection: an exporter of its own is for GPU nodes only.
func TestNodeSelection(t *testing.T) {
	rendered(t, func(t *testing.T, w *workload) {
		pod := w.Spec.Template.Spec
		if w.Kind == "DaemonSet" && w.Name == "gpuledger" && len(pod.NodeSelector) == 0 && pod.Affinity == nil {
			t.Error("the exporter runs on every node of the cluster")
		}
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
