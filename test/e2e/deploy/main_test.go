//go:build e2e

// Package deploy_test applies the manifests to a real API server with kubectl, and checks the pods that a real
// DaemonSet controller creates. The DaemonSets of the device plugins equal those of NVIDIA's installers. There is no
// kubelet, so no container starts.
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

// kubectlEnv names the folder of kubectl, which tools/servers builds.
const kubectlEnv = "GPULEDGER_E2E_KUBECTL"

// The tests run one after another. Each test removes the objects that it applied.
var world struct {
	*cluster.Cluster
	kubectl, kubeconfig string
	home                string // home directory of kubectl, with its cache
	egress              *cluster.Egress
}

func TestMain(m *testing.M) {
	admission, err := filepath.Abs("testdata/admission/config.yaml")
	if err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		panic(err)
	}
	egress, flag, err := cluster.OpenEgress(context.Background(), dir)
	if err != nil {
		panic(err)
	}
	world.egress = egress
	status := cluster.Main(m, prepare, flag, "--runtime-config=admissionregistration.k8s.io/v1beta1=true", "--admission-control-config-file="+admission)
	_ = os.RemoveAll(dir) // folder for temporary files
	os.Exit(status)
}

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

// readyNodes removes the taint that admission adds to a new node. There is no kubelet to report that the nodes are
// ready.
func readyNodes(ctx context.Context, c *cluster.Cluster) error {
	for _, name := range []string{"gpu-1", "gpu-2"} {
		patch := []byte(`[{"op": "remove", "path": "/spec/taints"}]`)
		if _, err := c.Client.CoreV1().Nodes().Patch(ctx, name, types.JSONPatchType, patch, meta.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}
