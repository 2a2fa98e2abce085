//go:build e2e

// Package reconciler_test runs the shipped gpuledger-reconciler against a real API server, with the shipped roles and
// policy and with real tokens. The tests find its writes in the audit log. The exporters are HTTP servers in the tests.
package reconciler_test

import (
	"context"
	"os"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/test/e2e/cluster"
)

// manifests contains the policy and the roles for reading. writes contains the roles for writing.
const (
	manifests = "../../../manifests/base/reconciler"
	writes    = "../../../manifests/components/labels"
)

const (
	namespace = "gpuledger"
	account   = "gpuledger-reconciler"
	username  = "system:serviceaccount:" + namespace + ":" + account
)

// The tests run one after another. Each test removes its Nodes and pods.
var world struct {
	*cluster.Cluster
	daemonSet types.UID // UID of the exporters' DaemonSet
}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, prepare)) }

func prepare(ctx context.Context, c *cluster.Cluster, _ string) error {
	world.Cluster = c
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
