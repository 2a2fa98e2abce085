//go:build e2e

// Package reconciler_test runs gpuledger-reconciler as it is shipped against a real
// API server: with the shipped roles and policy, by real tokens, and with the audit
// log as the witness of what it wrote. Exporters are HTTP servers of the tests.
package reconciler_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gpuledger/gpuledger/test/e2e/cluster"
)

// The folders with the policy and the roles: of what reads, and of what writes.
const (
	manifests = "../../../manifests/base/reconciler"
	writes    = "../../../manifests/components/labels"
)

// The account that the manifests make.
const (
	namespace = "gpuledger"
	account   = "gpuledger-reconciler"
	username  = "system:serviceaccount:" + namespace + ":" + account
)

// world is what all tests share: they run one after the other, and leave no node and
// no pod behind.
var world struct {
	*cluster.Cluster
	binary string // gpuledger-reconciler
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "reconciler")
	if err != nil {
		fmt.Println("e2e:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := create(context.Background(), dir); err != nil {
		fmt.Println("e2e:", err)
		return 1
	}
	defer world.Stop()
	status := m.Run()
	if status != 0 {
		world.Logs(os.Stdout)
	}
	return status
}

// create builds the reconciler and starts a cluster that is ready for it.
func create(ctx context.Context, dir string) error {
	world.binary = filepath.Join(dir, "gpuledger-reconciler")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", world.binary, "github.com/gpuledger/gpuledger/cmd/gpuledger-reconciler")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", build.Args, err, out)
	}
	c, err := cluster.Start(ctx)
	if err != nil {
		return err
	}
	world.Cluster = c
	if err := prepare(ctx, c); err != nil {
		c.Stop()
		return err
	}
	return nil
}

// prepare applies the manifests and starts what a cluster's controllers do for them.
func prepare(ctx context.Context, c *cluster.Cluster) error {
	for _, folder := range []string{manifests, writes} {
		if err := c.Apply(ctx, folder); err != nil {
			return err
		}
	}
	_, err := c.StartControllers("serviceaccount-controller", "clusterrole-aggregation-controller")
	return err
}
