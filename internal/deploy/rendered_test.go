//go:build e2e

package deploy_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/internal/archive"
	"github.com/gpuledger/gpuledger/internal/deploy"
	"github.com/gpuledger/gpuledger/internal/reconciler"
	"github.com/gpuledger/gpuledger/internal/sidecar"
)

const rendering = "../../bin/manifests/"

func files(t *testing.T) map[string][][]byte {
	t.Helper()
	names, err := filepath.Glob(rendering + "*.yaml")
	check(t, err)
	if len(names) == 0 {
		t.Fatal("no rendered manifests found: run make manifests")
	}
	documents := make(map[string][][]byte)
	for _, name := range names {
		text, err := os.ReadFile(name)
		check(t, err)
		documents[filepath.Base(name)] = bytes.Split(text, []byte("\n---\n"))
	}
	return documents
}

type workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Template    corev1.PodTemplateSpec  `json:"template"`
		JobTemplate batchv1.JobTemplateSpec `json:"jobTemplate"`
	} `json:"spec"`
}

func rendered(t *testing.T, f func(t *testing.T, w *workload)) {
	t.Helper()
	for file, documents := range files(t) {
		for _, document := range documents {
			w := &workload{}
			check(t, yaml.Unmarshal(document, w))
			if w.Kind == "CronJob" {
				w.Spec.Template = w.Spec.JobTemplate.Spec.Template
			}
			if slices.Contains([]string{"CronJob", "DaemonSet", "Deployment", "Job"}, w.Kind) {
				t.Run(file+"/"+w.Name, func(t *testing.T) { f(t, w) })
			}
		}
	}
}

func TestArguments(t *testing.T) {
	getenv := func(name string) string { return "the-" + strings.ToLower(name) }
	programs := 0
	rendered(t, func(t *testing.T, w *workload) {
		pod := w.Spec.Template.Spec
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			var err error
			switch image := imageName(c.Image); image {
			case "gpuledger":
				_, err = app.Parse(arguments(&c), getenv)
			case "gpuledger-reconciler":
				_, err = reconciler.Parse(arguments(&c), getenv)
			case "gpuledger-archive":
				_, err = archive.Parse(arguments(&c))
			default:
				t.Errorf("%s: unknown image %s", c.Name, c.Image)
			}
			if err != nil {
				t.Errorf("%s %v: %v", c.Name, arguments(&c), err)
			}
			programs++
		}
	})
	if programs < 10 {
		t.Errorf("%d programs found, want at least 10", programs)
	}
}

// arguments returns the arguments of a container. Like the kubelet, it replaces each $(NAME) with the value of the
// variable.
func arguments(c *corev1.Container) []string {
	args := slices.Clone(c.Args)
	for i := range args {
		for _, env := range c.Env {
			args[i] = strings.ReplaceAll(args[i], "$("+env.Name+")", env.Value)
		}
	}
	return args
}

func imageName(image string) string {
	name, _, _ := strings.Cut(image, "@")
	name = name[strings.LastIndex(name, "/")+1:]
	name, _, _ = strings.Cut(name, ":")
	return name
}

func TestLeastPrivilege(t *testing.T) {
	rendered(t, func(t *testing.T, w *workload) {
		pod := w.Spec.Template.Spec
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			checkPrivileges(t, &pod, &c)
			if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Memory().IsZero() {
				t.Errorf("%s has no memory limit or request", c.Name)
			}
		}
		if pod.HostNetwork || pod.HostIPC {
			t.Error("the pod uses the host's network or IPC")
		}
		// Only the reconciler calls the API server.
		token := pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken
		if token != (pod.ServiceAccountName == "gpuledger-reconciler") {
			t.Errorf("token of %s is mounted: %v, want a token only for the reconciler", pod.ServiceAccountName, token)
		}
		if token && (pod.HostPID || slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.ConfigMap == nil && v.Secret == nil })) {
			t.Error("a pod with a token has access to the host")
		}
	})
}

// TestLeastPrivilegeInOtherPods checks the container that a patch or the policy adds to a device plugin's
// pod. It must not have more rights than the container in a rendered DaemonSet.
func TestLeastPrivilegeInOtherPods(t *testing.T) {
	patch, err := os.ReadFile(manifests + "components/sidecar/container.yaml")
	check(t, err)
	var operations []struct{ Value corev1.Container }
	check(t, yaml.Unmarshal(patch, &operations))
	if len(operations) != 1 {
		t.Fatalf("%d patch operations, want 1", len(operations))
	}
	checkPrivileges(t, &corev1.PodSpec{}, &operations[0].Value)

	policy, err := os.ReadFile(manifests + "base/injection/policy.yaml")
	check(t, err)
	const restrictions = "securityContext: Object.spec.containers.securityContext{capabilities: Object.spec.containers.securityContext.capabilities{drop: ['ALL']}, " +
		"runAsUser: 0, runAsNonRoot: false, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, " +
		"seccompProfile: Object.spec.containers.securityContext.seccompProfile{type: 'RuntimeDefault'}}"
	if got := strings.Count(string(policy), restrictions); got != 1 {
		t.Errorf("the policy contains these restrictions %d times, want once: %s", got, restrictions)
	}
}

func checkPrivileges(t *testing.T, pod *corev1.PodSpec, c *corev1.Container) {
	t.Helper()
	s, ofPod := c.SecurityContext, pod.SecurityContext
	if s == nil || s.Capabilities == nil {
		t.Errorf("%s has no security context, or its security context has no capabilities", c.Name)
		return
	}
	if ofPod == nil {
		ofPod = &corev1.PodSecurityContext{}
	}
	// On GKE, only a privileged container may open the GPUs' device files. It must be allowed to gain privileges;
	// otherwise the API server rejects the pod.
	privileged := s.Privileged != nil && *s.Privileged
	if privileged != (t.Name() == "TestLeastPrivilege/gke.yaml/gpuledger") {
		t.Errorf("%s is privileged: %v, want this only for the exporter on GKE", c.Name, privileged)
	}
	if escalates := s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation; escalates != privileged {
		t.Errorf("%s may gain privileges: %v, want this only if it is privileged", c.Name, escalates)
	}
	if len(s.Capabilities.Add) != 0 || !slices.Contains(s.Capabilities.Drop, "ALL") {
		t.Errorf("%s: capabilities are %v, want all dropped", c.Name, s.Capabilities)
	}
	if s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
		t.Errorf("%s can write to its root file system", c.Name)
	}
	if profile := cmp.Or(s.SeccompProfile, ofPod.SeccompProfile); profile == nil || profile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s has the seccomp profile %v, want RuntimeDefault", c.Name, profile)
	}
	if slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--sandbox") }) {
		t.Errorf("%s changes the sandbox: %v", c.Name, c.Args)
	}
	exporter := c.Name == deploy.Name
	user, nonRoot := cmp.Or(s.RunAsUser, ofPod.RunAsUser), cmp.Or(s.RunAsNonRoot, ofPod.RunAsNonRoot)
	// Only the exporter and the init containers that clean up a host run as root.
	root := exporter || slices.ContainsFunc(pod.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name })
	if user == nil || root != (*user == 0) || !root && (nonRoot == nil || !*nonRoot) {
		t.Errorf("%s: user %v, not root: %v", c.Name, user, nonRoot)
	}
	if exporter && !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.MountPath == "/var/run/secrets/kubernetes.io/serviceaccount" && m.ReadOnly
	}) {
		t.Errorf("no mount covers the path of a token in %s", c.Name)
	}
	for _, m := range c.VolumeMounts {
		if writable := m.Name == "gpuledger-state" || m.Name == "run" || m.Name == "kubelet" || m.Name == "dead-letters"; !m.ReadOnly && !writable {
			t.Errorf("%s can write to %s", c.Name, m.MountPath)
		}
	}
}

// resources returns the documents of every file in a kustomization, including components that no overlay uses.
func resources(t *testing.T) map[string][][]byte {
	t.Helper()
	names, err := filepath.Glob(manifests + "*/*/kustomization.yaml")
	check(t, err)
	documents := make(map[string][][]byte)
	for _, name := range names {
		var k struct{ Resources []string }
		text, err := os.ReadFile(name)
		check(t, err)
		check(t, yaml.Unmarshal(text, &k))
		for _, resource := range k.Resources {
			if filepath.Ext(resource) != ".yaml" {
				continue // the path leads to another kustomization
			}
			file := filepath.Join(filepath.Dir(name), resource)
			text, err := os.ReadFile(file)
			check(t, err)
			documents[strings.TrimPrefix(file, filepath.Clean(manifests))] = bytes.Split(text, []byte("\n---\n"))
		}
	}
	return documents
}

// TestPartOf checks that every object has the label with which the removal commands select objects.
func TestPartOf(t *testing.T) {
	objects, all := 0, files(t)
	maps.Copy(all, resources(t))
	for file, documents := range all {
		for _, document := range documents {
			w := &workload{}
			check(t, yaml.Unmarshal(document, w))
			if w.Labels["app.kubernetes.io/part-of"] != deploy.Name {
				t.Errorf("%s: %s %s has the labels %v", file, w.Kind, w.Name, w.Labels)
			}
			objects++
		}
	}
	if objects < 100 {
		t.Errorf("%d objects found, want at least 100", objects)
	}
}

// TestOneVersion checks that the manifests and the documentation contain only one version. The release workflow rejects
// another version.
func TestOneVersion(t *testing.T) {
	version := regexp.MustCompile(`gpuledger(?:-reconciler|-archive)?:(v[\w.-]+)|\?ref=(v[\w.-]+)|\bV=(v[\w.-]+)|refs/tags/(v[\w.-]+\w)|releases/download/(v[\w.-]+)`)
	var names []string
	for _, folder := range []string{"../../manifests", rendering, "../../docs"} {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				names = append(names, path)
			}
			return err
		})
		check(t, err)
	}
	places := 0
	for _, name := range append(names, "../../README.md") {
		text, err := os.ReadFile(name)
		check(t, err)
		for _, match := range version.FindAllStringSubmatch(string(text), -1) {
			if got := strings.Join(match[1:], ""); ":"+got != deploy.Tag {
				t.Errorf("%s: %q, want %s", name, match[0], deploy.Tag)
			}
			places++
		}
	}
	if places < 40 {
		t.Errorf("%d places with a version found, want at least 40", places)
	}
}

// TestOneImage checks that an overlay contains the exporter's image only once, in the field images of the
// kustomization. The policy's parameters and the prepull DaemonSet must use this image.
func TestOneImage(t *testing.T) {
	overlay, err := os.ReadFile(manifests + "overlays/example/kustomization.yaml")
	check(t, err)
	const image = "registry.example.com/gpuledger/gpuledger"
	if n := len(regexp.MustCompile(image+`\b[^-]`).FindAll(overlay, -1)); n != 1 {
		t.Errorf("the overlay names the image %d times, want once", n)
	}
	var pulled, added string
	for _, document := range files(t)["example.yaml"] {
		w, parameters := &workload{}, &corev1.ConfigMap{}
		check(t, yaml.Unmarshal(document, w))
		switch w.Kind + " " + w.Name {
		case "DaemonSet gpuledger-prepull":
			pulled = w.Spec.Template.Spec.Containers[0].Image
		case "ConfigMap " + sidecar.ParametersName:
			check(t, yaml.Unmarshal(document, parameters))
			added = parameters.Data["image"]
		}
	}
	if pulled != added || !strings.HasPrefix(pulled, image+"@sha256:") {
		t.Errorf("pulled image %q, image of the policy %q; want equal ones with a digest", pulled, added)
	}
}

// TestOpenShift checks that OpenShift lets the Job that removes labels run as the user in its manifest.
func TestOpenShift(t *testing.T) {
	var account string
	for _, document := range files(t)["uninstall-labels.yaml"] {
		job := &workload{}
		check(t, yaml.Unmarshal(document, job))
		account = job.Spec.Template.Spec.ServiceAccountName
	}
	for _, document := range files(t)["openshift.yaml"] {
		binding := &rbacv1.RoleBinding{}
		check(t, yaml.Unmarshal(document, binding))
		if binding.Kind == "RoleBinding" && binding.RoleRef.Name == "system:openshift:scc:nonroot-v2" && binding.Subjects[0].Name == account {
			return
		}
	}
	t.Errorf("no role binding allows %s to use nonroot-v2", account)
}

// TestPodSecurity checks that our namespaces set all three modes of Pod Security. For a mode that is not set, the
// default of the cluster applies, and kubectl may print a warning for each workload.
func TestPodSecurity(t *testing.T) {
	namespaces := 0
	for file, documents := range files(t) {
		for _, document := range documents {
			w := &workload{}
			check(t, yaml.Unmarshal(document, w))
			if w.Kind != "Namespace" {
				continue
			}
			namespaces++
			level := w.Labels["pod-security.kubernetes.io/enforce"]
			for _, mode := range []string{"enforce", "warn", "audit"} {
				if got := w.Labels["pod-security.kubernetes.io/"+mode]; got != level || got == "" {
					t.Errorf("%s: %s is %q in %s", file, mode, got, w.Name)
				}
			}
		}
	}
	if namespaces < 10 {
		t.Errorf("%d namespaces found, want at least 10", namespaces)
	}
}

// TestTolerations checks that the reconciler and its clean-up tolerate the taint of a control plane and the taints for
// GPUs.
func TestTolerations(t *testing.T) {
	rendered(t, func(t *testing.T, w *workload) {
		if w.Kind == "DaemonSet" {
			return
		}
		for _, key := range []string{"node-role.kubernetes.io/control-plane", "nvidia.com/gpu", "amd.com/gpu"} {
			toleration := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
			if !slices.Contains(w.Spec.Template.Spec.Tolerations, toleration) {
				t.Errorf("pod does not tolerate %s", key)
			}
		}
	})
}

func TestWithoutNVIDIA(t *testing.T) {
	found := false
	rendered(t, func(t *testing.T, w *workload) {
		if w.Kind != "DaemonSet" || !strings.HasPrefix(t.Name(), "TestWithoutNVIDIA/amd.yaml/") {
			return
		}
		found = true
		text, err := json.Marshal(w)
		check(t, err)
		if strings.Contains(strings.ToLower(string(text)), "nvidia") {
			t.Errorf("the DaemonSet has a setting of NVIDIA: %s", text)
		}
		if pod := w.Spec.Template.Spec; !pod.HostPID || pod.RuntimeClassName != nil {
			t.Errorf("hostPID is %v and the runtime class %v, want true and none", pod.HostPID, pod.RuntimeClassName)
		}
	})
	if !found {
		t.Error("amd.yaml contains no DaemonSet")
	}
}

func TestNodeSelection(t *testing.T) {
	rendered(t, func(t *testing.T, w *workload) {
		pod := w.Spec.Template.Spec
		if got := pod.NodeSelector[corev1.LabelOSStable]; got != "linux" {
			t.Errorf("node selector has the operating system %q, want linux", got)
		}
		if w.Kind == "DaemonSet" && w.Name == "gpuledger" && len(pod.NodeSelector) == 1 && pod.Affinity == nil {
			t.Error("the exporter runs on every node of the cluster")
		}
	})
}
