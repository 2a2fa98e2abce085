//go:build e2e

package cluster

import (
	"fmt"
	"strings"
)

// StartControllers runs kube-controller-manager with the named controllers only.
func (c *Cluster) StartControllers(names ...string) error {
	kubeconfig := c.path("controllers.kubeconfig")
	if err := WriteKubeconfig(kubeconfig, c.Admin); err != nil {
		return fmt.Errorf("start controllers: %w", err)
	}
	return c.start("kube-controller-manager",
		"--kubeconfig="+kubeconfig, "--controllers="+strings.Join(names, ","),
		"--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000")
}
