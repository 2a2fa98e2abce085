//go:build e2e

package cluster_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gpuledger/gpuledger/test/e2e/cluster"
)

const manifest = `apiVersion: v1
kind: Namespace
metadata: {name: one}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: someone, namespace: one}
`

// TestCluster checks that manifests can be applied, and that a kubeconfig works. A token must have the identity of its
// account and no rights. The audit log must contain each write with its user.
func TestCluster(t *testing.T) {
	begun := time.Now()
	c, err := cluster.Start(t.Context())
	check(t, err)
	t.Cleanup(c.Stop)
	t.Logf("ready after %v", time.Since(begun).Round(time.Millisecond))

	file := filepath.Join(t.TempDir(), "manifest.yaml")
	check(t, os.WriteFile(file, []byte(manifest), 0o600))
	check(t, c.Apply(t.Context(), filepath.Dir(file)))

	config, err := c.ServiceAccount(t.Context(), "one", "someone")
	check(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	check(t, cluster.WriteKubeconfig(kubeconfig, config))
	config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	check(t, err)
	client, err := kubernetes.NewForConfig(config)
	check(t, err)

	audit, err := c.Audit()
	check(t, err)
	node := &core.Node{ObjectMeta: meta.ObjectMeta{Name: "n"}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node, meta.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("create a node without a role: %v, want an error of kind Forbidden", err)
	}
	writes, err := audit.Requests(func(r *cluster.Request) bool {
		return r.Writes() && r.User.Name != "system:apiserver" // the API server creates objects when it starts
	})
	check(t, err)
	if len(writes) != 1 || writes[0].String() != "system:serviceaccount:one:someone create /api/v1/nodes: 403" {
		t.Errorf("writes in the audit log: %v, want one rejected creation of a node", writes)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
