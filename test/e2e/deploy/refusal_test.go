//go:build e2e

package deploy_test

import (
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// forceful makes the API server report errors in the policy or the webhook. The shipped failurePolicy Ignore would hide
// them from the tests.
func forceful(t *testing.T) {
	t.Helper()
	patch := []byte(`{"spec": {"failurePolicy": "Fail"}}`)
	_, err := world.Client.AdmissionregistrationV1().MutatingAdmissionPolicies().Patch(t.Context(), "gpuledger", types.MergePatchType, patch, meta.PatchOptions{})
	if apierrors.IsNotFound(err) {
		patch = []byte(`[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}]`)
		_, err = world.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(t.Context(), "gpuledger", types.JSONPatchType, patch, meta.PatchOptions{})
	}
	check(t, err)
}

// example applies the policy and returns the device plugin's pod that an installer's controller creates.
func example(t *testing.T, i installer) *core.Pod { return exampleBy(t, i, byPolicy) }

// exampleBy uses the policy or the webhook.
func exampleBy(t *testing.T, i installer, by string) *core.Pod {
	t.Helper()
	apply(t, "-f", i.file())
	pod := fresh(&podsOf(t, i.namespace, i.daemonSet)[0])
	install(t, by, i.name, []string{i.namespace})
	policyActs(t, i, pod)
	return pod
}

// TestWhichPods checks that the policy and the webhook add the container to the device plugin's pods and change no
// other pod. The API server must accept all these pods.
func TestWhichPods(t *testing.T) {
	for _, by := range []string{byPolicy, byWebhook} {
		t.Run(by, func(t *testing.T) { whichPods(t, by) })
	}
}

func whichPods(t *testing.T, by string) {
	static := installers[0]
	pod := exampleBy(t, static, by)
	same := func(*core.Pod) {}
	tests := []struct {
		name      string
		user      string
		namespace string
		change    func(*core.Pod)
		want      bool
	}{
		{name: "as it is", change: same, want: true},
		{name: "the controller manager without accounts", user: controllerManager, change: same, want: true},
		{name: "no volumes", want: true, change: func(p *core.Pod) {
			p.Spec.Volumes, p.Spec.Containers[0].VolumeMounts = nil, nil
		}},
		{name: "no volumes, not even a token", want: true, change: func(p *core.Pod) {
			p.Spec.Volumes, p.Spec.Containers[0].VolumeMounts = nil, nil
			p.Spec.AutomountServiceAccountToken = new(false)
		}},
		{name: "annotations of others", want: true, change: func(p *core.Pod) { p.Annotations = map[string]string{"example.com/a": "b"} }},
		{name: "the host's PIDs already", want: true, change: func(p *core.Pod) { p.Spec.HostPID = true }},
		{name: "users of the host, by name", want: true, change: func(p *core.Pod) { p.Spec.HostUsers = new(true) }},
		{name: "a pod that may not run as root", want: true, change: func(p *core.Pod) {
			p.Spec.SecurityContext = &core.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(1000))}
		}},
		{name: "a second container", want: true, change: func(p *core.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, core.Container{Name: "other", Image: "x"})
		}},
		{name: "created by an administrator", user: "admin", change: same},
		{name: "created by another controller", user: "system:serviceaccount:kube-system:replicaset-controller", change: same},
		{name: "in another namespace", namespace: "elsewhere", change: same},
		{name: "in the namespace of another installer", namespace: "gpu-operator", change: same},
		{name: "no owner", change: func(p *core.Pod) { p.OwnerReferences = nil }},
		{name: "owned by another kind", change: func(p *core.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" }},
		{name: "no controller among the owners", change: func(p *core.Pod) { p.OwnerReferences[0].Controller = nil }},
		{name: "another container", change: func(p *core.Pod) { p.Spec.Containers[0].Name = "gpu-feature-discovery-ctr" }},
		{name: "Windows, by its name", change: func(p *core.Pod) { windows(p, &core.PodOS{Name: core.Windows}, nil) }},
		{name: "Windows, by its nodes", change: func(p *core.Pod) { windows(p, nil, map[string]string{core.LabelOSStable: "windows"}) }},
		{name: "Linux, by its name and nodes", want: true, change: func(p *core.Pod) {
			p.Spec.OS, p.Spec.NodeSelector = &core.PodOS{Name: core.Linux}, map[string]string{core.LabelOSStable: "linux"}
		}},
		{name: "shared processes", change: func(p *core.Pod) { p.Spec.ShareProcessNamespace = new(true) }},
		{name: "the host's network", change: func(p *core.Pod) { p.Spec.HostNetwork = true }},
		{name: "users of its own", change: func(p *core.Pod) { p.Spec.HostUsers = new(false) }},
		{name: "resources of its own", change: func(p *core.Pod) {
			p.Spec.Resources = &core.ResourceRequirements{Limits: core.ResourceList{core.ResourceMemory: resource.MustParse("20Mi")}}
		}},
		{name: "an init container of our name", change: func(p *core.Pod) {
			p.Spec.InitContainers = []core.Container{{Name: "gpuledger", Image: "x"}}
		}},
		{name: "a volume of our name", change: func(p *core.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, core.Volume{Name: "gpuledger-state"})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			user, namespace := daemonSetController, static.namespace
			if tt.user != "" {
				user = tt.user
			}
			if tt.namespace != "" {
				namespace = tt.namespace
			}
			asked := clone(pod, tt.change)
			asked.Namespace = namespace
			got, err := createAs(t, user, namespace, asked)
			check(t, err)
			if tt.want {
				checkOurs(t, got)
			} else if hasSidecar(got) || got.Spec.HostPID || len(ours(got)) != len(ours(asked)) {
				t.Error("the policy changed the pod")
			}
		})
	}
}

// windows changes a pod into a pod for Windows nodes. Such a pod must not have Linux settings.
func windows(p *core.Pod, system *core.PodOS, nodes map[string]string) {
	p.Spec.OS, p.Spec.NodeSelector = system, nodes
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].SecurityContext = nil
	}
}

// TestShapes checks that the pods of each installer get the container, with and without volumes and annotations of
// their own. In both cases, the policy adds its own volumes and annotations.
func TestShapes(t *testing.T) {
	if testing.Short() {
		t.Skip("long: run it with make e2e")
	}
	shapes := map[string]func(*core.Pod){
		"as it is":       func(*core.Pod) {},
		"no volumes":     func(p *core.Pod) { p.Spec.Volumes = nil },
		"no annotations": func(p *core.Pod) { p.Annotations = nil },
		"annotations":    func(p *core.Pod) { p.Annotations = map[string]string{"example.com/a": "b"} },
	}
	for _, i := range installers {
		t.Run(i.name, func(t *testing.T) {
			pod := example(t, i)
			for name, change := range shapes {
				asked := clone(pod, change)
				if asked.Spec.Volumes == nil {
					for n := range asked.Spec.InitContainers {
						asked.Spec.InitContainers[n].VolumeMounts = nil
					}
					asked.Spec.Containers[0].VolumeMounts = nil
				}
				got, err := createAs(t, daemonSetController, i.namespace, asked)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				checkOurs(t, got)
				for key, value := range asked.Annotations {
					if got.Annotations[key] != value {
						t.Errorf("%s: the policy changed the annotation %s to %q", name, key, got.Annotations[key])
					}
				}
			}
		})
	}
}

// TestOnce checks that a pod gets only one container, because the API server may call the policy twice.
func TestOnce(t *testing.T) {
	pod := example(t, installers[0])
	once, err := createAs(t, daemonSetController, "kube-system", pod)
	check(t, err)
	again := clone(pod, func(p *core.Pod) {
		p.Spec, p.Annotations = once.Spec, once.Annotations
	})
	twice, err := createAs(t, daemonSetController, "kube-system", again)
	check(t, err)
	if n := len(twice.Spec.Containers); n != 2 {
		t.Errorf("the pod has %d containers, want 2", n)
	}
	checkOurs(t, twice)
}

func checkOurs(t *testing.T, pod *core.Pod) {
	t.Helper()
	c := container(pod)
	if c == nil {
		t.Fatal("the pod has no container gpuledger")
	}
	if pod.Spec.Containers[len(pod.Spec.Containers)-1].Name != c.Name || !pod.Spec.HostPID {
		t.Error("the container is not the last one, or has no hostPID")
	}
	if volume := tokenOf(pod, c); volume != "" {
		t.Errorf("the volume %s mounts a token in the container", volume)
	}
	if got, want := len(ours(pod)), len(c.VolumeMounts); got != want {
		t.Errorf("the pod has %d of our volumes, want %d, one for each mount", got, want)
	}
}

func TestParameters(t *testing.T) {
	static := installers[0]
	pod := example(t, static)
	onNode1, onNode2 := clone(pod, onNode("gpu-1")), clone(pod, onNode("gpu-2"))
	asked := func(t *testing.T, pod *core.Pod) *core.Pod {
		t.Helper()
		got, err := createAs(t, daemonSetController, static.namespace, pod)
		check(t, err)
		return got
	}
	// The API server needs a moment to apply changed parameters.
	set := func(t *testing.T, key, value string, seen func() bool) {
		t.Helper()
		patchParameter(t, key, value)
		eventually(t, key+" is in force", seen)
	}

	t.Run("image", func(t *testing.T) {
		const image = "registry.example.com/gpuledger@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		set(t, "image", image, func() bool { return container(asked(t, pod)).Image == image })
	})
	t.Run("arguments", func(t *testing.T) {
		set(t, "arguments", "--collector.gauges=false\n\n  --log.level=debug \n", func() bool { return len(container(asked(t, pod)).Args) > 1 })
		want := "--web.listen-address=:9840 --collector.gauges=false --log.level=debug"
		if got := strings.Join(container(asked(t, pod)).Args, " "); got != want {
			t.Errorf("arguments are %s, want --web.listen-address=:9840 --collector.gauges=false --log.level=debug", got)
		}
	})
	t.Run("web secret", func(t *testing.T) {
		set(t, "webSecret", "gpuledger-web", func() bool { return len(ours(asked(t, pod))) == 7 })
		got := asked(t, pod)
		volume := ours(got)[6]
		if volume.Secret == nil || volume.Secret.SecretName != "gpuledger-web" || !*volume.Secret.Optional {
			t.Errorf("the volume is %v, want the optional secret gpuledger-web", volume)
		}
		if args := strings.Join(container(got).Args, " "); !strings.Contains(args, "--web.config.file=/etc/gpuledger/web-config.yml") {
			t.Errorf("arguments are %s, want --web.config.file among them", args)
		}
		for _, wrong := range []string{"gpu-operator/gpuledger-web", "Web", "50%"} {
			set(t, "webSecret", wrong, func() bool { return !hasSidecar(asked(t, pod)) })
			set(t, "webSecret", "", func() bool { return hasSidecar(asked(t, pod)) })
		}
	})
	t.Run("pull secrets", func(t *testing.T) {
		set(t, "pullSecrets", "one, two", func() bool { return len(asked(t, pod).Spec.ImagePullSecrets) == 2 })
		with := clone(pod, func(p *core.Pod) {
			p.Spec.ImagePullSecrets = []core.LocalObjectReference{{Name: "zero"}, {Name: "one"}}
		})
		var names []string
		for _, secret := range asked(t, with).Spec.ImagePullSecrets {
			names = append(names, secret.Name)
		}
		if got := strings.Join(names, " "); got != "zero one two" {
			t.Errorf("pull secrets are %s, want zero one two", got)
		}
	})
	t.Run("SELinux type", func(t *testing.T) {
		set(t, "selinuxType", "spc_t", func() bool {
			options := container(asked(t, pod)).SecurityContext.SELinuxOptions
			return options != nil && options.Type == "spc_t"
		})
	})
	t.Run("pull policy", func(t *testing.T) {
		for _, policy := range []string{"Never", "Always"} {
			set(t, "pullPolicy", policy+"\n", func() bool { return string(container(asked(t, pod)).ImagePullPolicy) == policy })
		}
		set(t, "pullPolicy", "never", func() bool { return container(asked(t, pod)).ImagePullPolicy == core.PullIfNotPresent })
		removeParameter(t, "pullPolicy")
	})
	t.Run("nodes", func(t *testing.T) {
		set(t, "nodes", "gpu-3, gpu-1\n", func() bool { return !hasSidecar(asked(t, onNode2)) })
		if !hasSidecar(asked(t, onNode1)) {
			t.Error("the pod on the chosen node gpu-1 has no container gpuledger")
		}
		set(t, "nodes", "*\n", func() bool { return hasSidecar(asked(t, onNode2)) })
		removeParameter(t, "nodes")
		eventually(t, "no node is chosen", func() bool { return !hasSidecar(asked(t, onNode1)) && !hasSidecar(asked(t, onNode2)) })
		set(t, "nodes", "*", func() bool { return hasSidecar(asked(t, onNode2)) })
	})
	t.Run("an image with space around it", func(t *testing.T) {
		for _, name := range []string{"gpuledger:2\n", "\tgpuledger:3\r\n", " gpuledger:4\u00a0"} {
			set(t, "image", name, func() bool {
				c := container(asked(t, pod))
				return c != nil && c.Image == strings.TrimSpace(name)
			})
		}
	})
	t.Run("no image", func(t *testing.T) {
		for _, wrong := range []string{"", "\n", "gpuledger:1\u200b", "gpu ledger"} {
			set(t, "image", wrong, func() bool { return !hasSidecar(asked(t, pod)) })
			set(t, "image", "gpuledger:1", func() bool { return hasSidecar(asked(t, pod)) })
		}
	})
	t.Run("no parameters", func(t *testing.T) {
		patchParameter(t, "image", "x")
		eventually(t, "the image is in force", func() bool { return hasSidecar(asked(t, pod)) })
		kubectl(t, "delete", "configmap", "--namespace=gpuledger", "gpuledger-sidecar")
		eventually(t, "no pod gets the container", func() bool { return !hasSidecar(asked(t, pod)) })
	})
}

func onNode(name string) func(*core.Pod) {
	return func(p *core.Pod) {
		p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0] = name
	}
}

// chooseAll makes the policy add the container on every node.
func chooseAll(t *testing.T) {
	t.Helper()
	patchParameter(t, "nodes", "*")
}

func patchParameter(t *testing.T, key, value string) {
	t.Helper()
	changeParameters(t, `{"op": "add", "path": "/data/`+key+`", "value": `+quote(t, value)+`}`)
}

func removeParameter(t *testing.T, key string) {
	t.Helper()
	changeParameters(t, `{"op": "remove", "path": "/data/`+key+`"}`)
}

func changeParameters(t *testing.T, operation string) {
	t.Helper()
	patch := []byte("[" + operation + "]")
	_, err := world.Client.CoreV1().ConfigMaps("gpuledger").Patch(t.Context(), "gpuledger-sidecar", types.JSONPatchType, patch, meta.PatchOptions{})
	check(t, err)
}

// TestTypo shows why the policy is generated from Go types. The API server accepts a policy that sets an unknown field,
// but then rejects the device plugin's pod. It does so although failures of the policy are ignored.
func TestTypo(t *testing.T) {
	static := installers[0]
	pod := example(t, static)
	policies := world.Client.AdmissionregistrationV1().MutatingAdmissionPolicies()
	policy, err := policies.Get(t.Context(), "gpuledger", meta.GetOptions{})
	check(t, err)
	policy.Spec.FailurePolicy = nil
	expression := &policy.Spec.Mutations[0].JSONPatch.Expression
	*expression = strings.Replace(*expression, "Object.spec.containers.securityContext{", "Object.spec.containers.securityContext{readOnlyRootFilesystm: true, ", 1)
	patch := []byte(`{"spec": {"failurePolicy": "Ignore", "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": ` + quote(t, *expression) + `}}]}}`)
	_, err = policies.Patch(t.Context(), "gpuledger", types.MergePatchType, patch, meta.PatchOptions{})
	check(t, err)
	eventually(t, "the pod is rejected", func() bool {
		_, err := createAs(t, daemonSetController, static.namespace, pod)
		return err != nil && strings.Contains(err.Error(), "readOnlyRootFilesystm")
	})
}
