//go:build e2e

package cluster

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// Main runs the tests of a package with a shared cluster, and returns the exit status. Before the tests, it calls
// prepare with a folder for temporary files. It passes the flags to kube-apiserver.
func Main(m *testing.M, prepare func(ctx context.Context, c *Cluster, dir string) error, flags ...string) int {
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		fmt.Println("e2e:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	c, err := Start(ctx, flags...)
	if err != nil {
		fmt.Println("e2e:", err)
		return 1
	}
	defer c.Stop()
	if err := prepare(ctx, c, dir); err != nil {
		fmt.Println("e2e:", err)
		c.Logs(os.Stdout)
		return 1
	}
	status := m.Run()
	if status != 0 {
		c.Logs(os.Stdout)
	}
	return status
}
