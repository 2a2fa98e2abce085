//go:build e2e

package deploy_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/gpuledger/gpuledger/internal/state"
	"github.com/gpuledger/gpuledger/test/program"
)

// TestUninstall checks that the commands in docs/install.md remove every overlay. The cluster must then contain the
// same objects of all kinds as before the installation.
func TestUninstall(t *testing.T) {
	overlays, err := filepath.Glob(manifests + "overlays/*")
	check(t, err)
	if len(overlays) < 12 {
		t.Fatalf("found %d overlays, want at least 12", len(overlays))
	}
	binary := program.BuiltFor(t, "gpuledger-reconciler")
	for _, folder := range append(overlays, "testdata/webhook") {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			before := everything(t)
			text := kubectl(t, "kustomize", folder)
			kubectl(t, "apply", "--server-side", "-k", folder)
			t.Cleanup(func() { remove(t, "-k", folder) }) // the cleanup finds objects only if the test failed
			if added := len(everything(t)) - len(before); added < 20 {
				t.Errorf("the overlay added %d objects, want at least 20 to detect remaining ones", added)
			}
			uninstall(t, binary, strings.Contains(text, "kind: MutatingAdmissionPolicy\n"), strings.Contains(text, "gpuledger-reconciler-labels-write"))
			if strings.Contains(text, "kind: SecurityContextConstraints") {
				kubectl(t, "delete", "securitycontextconstraints", "--selector=app.kubernetes.io/part-of=gpuledger")
			}
			nothingLeft(t, before)
		})
	}
}

// TestReinstall checks that gpuledger can be installed again after it was removed in the documented order. After a
// removal in a different order, the API server would ignore later changes of the parameters.
func TestReinstall(t *testing.T) {
	if testing.Short() {
		t.Skip("long: run it with make e2e")
	}
	static := installers[0]
	pod := example(t, static)
	asked := func() *core.Pod {
		got, err := createAs(t, daemonSetController, static.namespace, pod)
		check(t, err)
		return got
	}
	for _, command := range documented(t, "## Uninstall", "") {
		switch {
		case strings.Contains(command, "gpuledger-sidecar"), strings.Contains(command, "mutatingadmissionpolicybinding"):
			shell(t, "", command)
			eventually(t, "the policy no longer adds the container", func() bool { return !hasSidecar(asked()) })
		case strings.Contains(command, "kubectl delete --all-namespaces"):
			shell(t, "", command)
		}
	}
	kubectl(t, "apply", "--server-side", "-k", overlay("static"))
	chooseAll(t)
	eventually(t, "the policy adds the container again", func() bool { return hasSidecar(asked()) })
	patchParameter(t, "image", "registry.example.com/another")
	eventually(t, "the new image is in force", func() bool { return container(asked()).Image == "registry.example.com/another" })
}

// TestCleanupFailed checks that the command in docs/install.md reports a failed Job immediately.
func TestCleanupFailed(t *testing.T) {
	kubectl(t, "create", "namespace", "gpuledger")
	t.Cleanup(func() { remove(t, "namespace", "gpuledger") })
	job := strings.Replace(kubectl(t, "kustomize", manifests+"uninstall/labels"), "\n  backoffLimit: 3\n", "\n  activeDeadlineSeconds: 1\n", 1)
	_, err := try(t, job, "apply", "--server-side", "--filename=-")
	check(t, err)
	if out := shell(t, "", containing(t, documented(t, "## Uninstall", ""), "get job")); !strings.Contains(out, "Failed\n") {
		t.Errorf("the command in docs/install.md prints %q, want Failed", out)
	}
}

// uninstall runs the documented commands for the installed parts. The caller restarts the device plugin, if there is
// one.
func uninstall(t *testing.T, reconciler string, policy, labels bool) {
	t.Helper()
	commands := documented(t, "## Uninstall", t.TempDir())
	if policy {
		shell(t, "", containing(t, commands, "delete configmap"))
		shell(t, "", containing(t, commands, "delete mutatingadmissionpolicybinding"))
	}
	if labels {
		shell(t, "", containing(t, commands, "delete deployment"))
		ended := runJob(t, reconciler)
		shell(t, "", containing(t, commands, "uninstall/labels"), containing(t, commands, "get job"))
		<-ended
	}
	shell(t, "", containing(t, commands, "kubectl delete --all-namespaces"))
}

// nothingLeft checks that the cluster contains the same objects as before the installation. The documented command must
// find no remaining objects.
func nothingLeft(t *testing.T, before []object) {
	t.Helper()
	if diff := cmp.Diff(before, everything(t), cmp.AllowUnexported(object{})); diff != "" {
		t.Errorf("objects of the cluster (-before +after):\n%s", diff)
	}
	left := containing(t, documented(t, "## Uninstall", t.TempDir()), "kubectl get --all-namespaces")
	for line := range strings.Lines(shell(t, "", left)) {
		if !strings.HasPrefix(line, "Warning: ") { // kubectl prints warnings for deprecated kinds
			t.Errorf("remaining object: %s", line)
		}
	}
}

// runJob runs the program with the arguments of the Job's container and the rights of the pod's service account. It
// sets the final status, as a kubelet does. Then it closes ended.
func runJob(t *testing.T, binary string) (ended <-chan struct{}) {
	t.Helper()
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		<-done
	})
	flags := append(access(t), "--leader-election.namespace=gpuledger", "--leader-election.identity=cleanup")
	go func() {
		defer close(done)
		pods := world.Client.CoreV1().Pods("gpuledger")
		for ctx.Err() == nil {
			list, err := pods.List(ctx, meta.ListOptions{LabelSelector: "job-name=gpuledger-cleanup"})
			if err != nil || len(list.Items) == 0 {
				<-time.After(50 * time.Millisecond)
				continue
			}
			phase := core.PodSucceeded
			if out, err := exec.CommandContext(ctx, binary, append(list.Items[0].Spec.Containers[0].Args, flags...)...).CombinedOutput(); err != nil {
				t.Errorf("run the Job's program: %v\n%s", err, out)
				phase = core.PodFailed
			}
			patch := []byte(`{"status": {"phase": "` + string(phase) + `"}}`)
			if _, err := pods.Patch(ctx, list.Items[0].Name, types.MergePatchType, patch, meta.PatchOptions{}, "status"); err != nil {
				t.Errorf("set the status of the Job's pod: %v", err)
			}
			return
		}
	}()
	return done
}

// TestUninstallHost checks the program of the DaemonSet that cleans up the nodes. A folder replaces the host's root
// directory.
func TestUninstallHost(t *testing.T) {
	if testing.Short() {
		t.Skip("long: run it with make e2e")
	}
	exporter := program.BuiltFor(t, "gpuledger")
	for _, name := range []string{"host", "host-openshift"} {
		t.Run(name, func(t *testing.T) {
			before := everything(t)
			kubectl(t, "apply", "--server-side", "--validate=strict", "-k", manifests+"uninstall/"+name)
			if pods := podsOf(t, "gpuledger-uninstall", "gpuledger-uninstall"); len(pods) != 2 {
				t.Errorf("the DaemonSet has %d pods, want 2", len(pods))
			}
			daemonSet, err := world.Client.AppsV1().DaemonSets("gpuledger-uninstall").Get(t.Context(), "gpuledger-uninstall", meta.GetOptions{})
			check(t, err)

			host := t.TempDir()
			books, unused := filepath.Join(host, "/run/gpuledger"), filepath.Join(host, "/var/lib/kubelet/pods-api")
			check(t, os.MkdirAll(unused, 0o755))
			running, err := state.Open(books, "boot")
			check(t, err)
			check(t, running.Save(slices.Values([]any{1})))
			if out, err := cleanHost(t, exporter, host, daemonSet); err == nil || !strings.Contains(out, "locked by another gpuledger") {
				t.Errorf("clean-up beside a running exporter: %v, want an error for the lock:\n%s", err, out)
			}
			check(t, running.Close())
			if out, err := cleanHost(t, exporter, host, daemonSet); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			for _, folder := range []string{books, unused} {
				if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s still exists: %v", folder, err)
				}
			}
			kubectl(t, "delete", "-k", manifests+"uninstall/"+name)
			nothingLeft(t, before)
		})
	}
}

// cleanHost runs the program of the init container. In the arguments, paths below the folder host replace the mount
// paths.
func cleanHost(t *testing.T, exporter, host string, d *apps.DaemonSet) (string, error) {
	t.Helper()
	pod := d.Spec.Template.Spec
	c := pod.InitContainers[0]
	args := slices.Clone(c.Args)
	for _, m := range c.VolumeMounts {
		volume := slices.IndexFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == m.Name })
		for i := range args {
			args[i] = strings.Replace(args[i], "="+m.MountPath+"/", "="+host+pod.Volumes[volume].HostPath.Path+"/", 1)
		}
	}
	out, err := exec.CommandContext(t.Context(), exporter, args...).CombinedOutput()
	return string(out), err
}

// object contains the properties of an API object that the tests compare. ours is set if the object mentions gpuledger.
// name is the controller's name if the object has a controller, because the object's own name is generated.
type object struct {
	name string
	ours bool
}

// everything omits events and Leases, because events expire and the servers renew Leases.
func everything(t *testing.T) []object {
	t.Helper()
	groups, err := restmapper.GetAPIGroupResources(world.Client.Discovery())
	check(t, err)
	client, err := dynamic.NewForConfig(world.Admin)
	check(t, err)
	var found []object
	for _, group := range groups {
		version := group.Group.PreferredVersion.Version
		for _, resource := range group.VersionedResources[version] {
			if !slices.Contains(resource.Verbs, "list") || resource.Kind == "Event" || resource.Kind == "Lease" {
				continue
			}
			kind := schema.GroupVersionResource{Group: group.Group.Name, Version: version, Resource: resource.Name}
			list, err := client.Resource(kind).List(t.Context(), meta.ListOptions{})
			check(t, err)
			for i := range list.Items {
				found = append(found, describe(t, resource.Kind, &list.Items[i]))
			}
		}
	}
	slices.SortFunc(found, func(a, b object) int { return strings.Compare(a.name, b.name) })
	return slices.Compact(found)
}

func describe(t *testing.T, kind string, o *unstructured.Unstructured) object {
	t.Helper()
	text, err := o.MarshalJSON()
	check(t, err)
	name := o.GetName()
	if owner := meta.GetControllerOf(o); owner != nil {
		name = "of " + owner.Kind + " " + owner.Name
	}
	return object{name: kind + " " + o.GetNamespace() + "/" + name, ours: strings.Contains(string(text), "gpuledger")}
}
