//go:build e2e

package reconciler_test

import (
	"context"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gpuledger/gpuledger/internal/reconciler"
)

// operatorNamespace exists in clusters with the GPU Operator. In other clusters, any user who may create namespaces can
// create it.
const operatorNamespace = "gpu-operator"

// newTenant returns a client for a user with all rights on pods in one namespace. The namespace is created once for all
// tests.
func newTenant(t *testing.T) kubernetes.Interface {
	t.Helper()
	namespaces := world.Client.CoreV1().Namespaces()
	if _, err := namespaces.Create(t.Context(), &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: operatorNamespace}}, meta.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		check(t, err)
	}
	roles, bindings := world.Client.RbacV1().Roles(operatorNamespace), world.Client.RbacV1().RoleBindings(operatorNamespace)
	name := meta.ObjectMeta{Name: "tenant"}
	must(roles.Create(t.Context(), &rbac.Role{ObjectMeta: name, Rules: []rbac.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"*"}},
	}}, meta.CreateOptions{}))(t)
	must(bindings.Create(t.Context(), &rbac.RoleBinding{
		ObjectMeta: name, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: "tenant"},
		Subjects: []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.UserKind, Name: "tenant"}},
	}, meta.CreateOptions{}))(t)
	t.Cleanup(func() {
		check(t, bindings.Delete(context.Background(), "tenant", meta.DeleteOptions{}))
		check(t, roles.Delete(context.Background(), "tenant", meta.DeleteOptions{}))
	})
	access := rest.CopyConfig(world.Admin)
	access.Impersonate = rest.ImpersonationConfig{UserName: "tenant"}
	return must(kubernetes.NewForConfig(access))(t)
}

// forge creates a pod as the tenant and marks it as ready, as a kubelet does. The pod looks like an exporter's pod, and
// serves the page of a Node that has no exporter.
func forge(t *testing.T, tenant kubernetes.Interface, name, serial string) *node {
	t.Helper()
	n := &node{exporter: newExporter(t), t: t, name: name}
	n.serves(page(name, boards(serial)...))
	n.create(nil)
	pod := exporterPod("exporter-"+name, name, n.port)
	pod.Namespace = operatorNamespace
	pod.OwnerReferences[0].UID = "6f8d0b4e-0000-4000-8000-000000000001"
	var created *core.Pod
	eventually(t, "the tenant may create pods", func() bool {
		var err error
		created, err = tenant.CoreV1().Pods(operatorNamespace).Create(t.Context(), pod, meta.CreateOptions{})
		return err == nil
	})
	t.Cleanup(func() {
		check(t, world.Client.CoreV1().Pods(operatorNamespace).Delete(context.Background(), pod.Name, meta.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	})
	created.Status = exporterStatus()
	must(world.Client.CoreV1().Pods(operatorNamespace).UpdateStatus(t.Context(), created, meta.UpdateOptions{}))(t)
	return n
}

// TestTenant checks that a user with rights on the pods of one namespace cannot cause a label. This must also be true
// if a DaemonSet in this namespace is listed.
func TestTenant(t *testing.T) {
	flags, _ := reconciler.Flags(os.Getenv)
	shipped := flags.Lookup("exporter.daemonsets").DefValue
	operator := operatorNamespace + "/" + daemonSetName
	tenant := newTenant(t)
	if _, err := tenant.AppsV1().DaemonSets(operatorNamespace).Create(t.Context(), exporterDaemonSet(operatorNamespace), meta.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("the tenant creates a DaemonSet: %v", err)
	}
	tests := []struct {
		name, listed string
		exists       bool // DaemonSet of the GPU Operator
		notOwned     float64
	}{
		{"default", shipped, false, 0},
		{"default, with the operator", shipped, true, 0},
		{"operator's DaemonSet, missing", operator, false, 2},
		{"operator's DaemonSet", operator, true, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.exists {
				daemonSets := world.Client.AppsV1().DaemonSets(operatorNamespace)
				must(daemonSets.Create(t.Context(), exporterDaemonSet(operatorNamespace), meta.CreateOptions{}))(t)
				t.Cleanup(func() { check(t, daemonSets.Delete(context.Background(), daemonSetName, meta.DeleteOptions{})) })
			}
			victims := []*node{forge(t, tenant, "b", "2"), forge(t, tenant, "c", "3")}
			honest := newNode(t, "a", "1")
			r := lead(t, "--exporter.daemonsets="+tt.listed+","+exporterNamespace+"/"+daemonSetName)
			honest.awaitLabels(serials("1"))
			honest.awaitReads(t, 5)
			for _, v := range victims {
				if diff := cmp.Diff(map[string]string{}, v.labels()); diff != "" || v.reads.Load() > 0 {
					t.Errorf("node %s: the page was read %d times; labels (-want +got):\n%s", v.name, v.reads.Load(), diff)
				}
			}
			if got := r.value("gpuledger_reconciler_exporters", map[string]string{"condition": "not_owned"}); got != tt.notOwned {
				t.Errorf("%v pods without the owner that they name, want %v", got, tt.notOwned)
			}
		})
	}
}
