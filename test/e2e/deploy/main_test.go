//go:build e2e

// Package deploy_test applies the manifests as people do, with kubectl, to a real API
// server, and looks at the pods that a real DaemonSet controller makes. Device plugins
// are DaemonSets like those of NVIDIA's installers; no kubelet starts them.
package deploy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/test/e2e/cluster"
)

// kubectlEnv names the folder with the kubectl that tools/servers built.
const kubectlEnv = "GPULEDGER_E2E_KUBECTL"

// world is what all tests share: they run one after the other, and take away what they
// applied.
var world struct {
	*cluster.Cluster
	kubectl, kubeconfig string
	home                string // where kubectl keeps what it learns
}

func TestMain(m *testing.M) {
	admission, err := filepath.Abs("testdata/admission/config.yaml")
	if err != nil {
		panic(err)
	}
	os.Exit(cluster.Main(m, prepare, "--runtime-config=admissionregistration.k8s.io/v1beta1=true", "--admission-control-config-file="+admission))
}

// prepare makes a cluster of two GPU nodes.
func prepare(ctx context.Context, c *cluster.Cluster, dir string) error {
	folder := os.Getenv(kubectlEnv)
	if folder == "" {
		return fmt.Errorf("%s is not set: run the tests with make e2e", kubectlEnv)
	}
	world.Cluster, world.kubectl, world.kubeconfig, world.home = c, filepath.Join(folder, "kubectl"), filepath.Join(dir, "kubeconfig"), dir
	if err := cluster.WriteKubeconfig(world.kubeconfig, c.Admin); err != nil {
		return err
	}
	_, err := c.StartControllers("serviceaccount-controller", "daemonset-controller", "deployment-controller", "replicaset-controller", "job-controller",
		"clusterrole-aggregation-controller", "garbage-collector-controller", "namespace-controller")
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, "testdata"); err != nil {
		return err
	}
	return readyNodes(ctx, c)
}

// readyNodes takes away the taint that admission gives to a new node. No kubelet will.
func readyNodes(ctx context.Context, c *cluster.Cluster) error {
	for _, name := range []string{"gpu-1", "gpu-2"} {
		patch := []byte(`[{"op": "remove", "path": "/spec/taints"}]`)
		if _, err := c.Client.CoreV1().Nodes().Patch(ctx, name, types.JSONPatchType, patch, meta.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}
