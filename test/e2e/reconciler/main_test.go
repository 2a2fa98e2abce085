//go:build e2e

// Package reconciler_test runs the shipped gpuledger-reconciler against a real API server: with the
// shipped roles and policy, with real tokens, and with the audit log as the record of its writes.
// Exporters are HTTP servers of the tests.
package reconciler_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/test/e2e/cluster"
	"github.com/gpuledger/gpuledger/test/program"
)

// The folders with the policy and the roles for reading, and with the roles for writing.
const (
	manifests = "../../../manifests/base/reconciler"
	writes    = "../../../manifests/components/labels"
)

// The service account of the manifests.
const (
	namespace = "gpuledger"
	account   = "gpuledger-reconciler"
	username  = "system:serviceaccount:" + namespace + ":" + account
)

// world is shared by all tests. They run one after the other, and leave no node and no pod behind.
var world struct {
	*cluster.Cluster
	binary    string    // gpuledger-reconciler
	daemonSet types.UID // of the exporters
}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, prepare)) }

// prepare builds the reconciler, applies the manifests and starts the controllers that they need.
func prepare(ctx context.Context, c *cluster.Cluster, dir string) error {
	world.Cluster, world.binary = c, filepath.Join(dir, "gpuledger-reconciler")
	if err := program.Build(ctx, dir, "gpuledger-reconciler"); err != nil {
		return err
	}
	for _, folder := range []string{manifests, writes} {
		if err := c.Apply(ctx, folder); err != nil {
			return err
		}
	}
	daemonSet, err := c.Client.AppsV1().DaemonSets(exporterNamespace).Create(ctx, exporterDaemonSet(exporterNamespace), meta.CreateOptions{})
	if err != nil {
		return err
	}
	world.daemonSet = daemonSet.UID
	_, err = c.StartControllers("serviceaccount-controller", "clusterrole-aggregation-controller")
	return err
}
