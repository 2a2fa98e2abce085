//go:build e2e

package cluster

import (
	"fmt"
	"strings"
)

// StartControllers runs kube-controller-manager with only the named controllers, until stop is called or the cluster is
// stopped. Each controller has its own account, as in most clusters, because a policy can depend on the account that
// creates a pod.
func (c *Cluster) StartControllers(names ...string) (stop func(), err error) {
	kubeconfig := c.path("controllers.kubeconfig")
	if err := WriteKubeconfig(kubeconfig, c.Admin); err != nil {
		return nil, fmt.Errorf("start controllers: %w", err)
	}
	p, err := c.start("kube-controller-manager",
		"--kubeconfig="+kubeconfig, "--controllers="+strings.Join(names, ","),
		"--root-ca-file="+c.certificate(), "--use-service-account-credentials", "--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000")
	if err != nil {
		return nil, err
	}
	return p.Kill, nil
}

// StartScheduler runs kube-scheduler, until stop is called or the cluster is stopped.
func (c *Cluster) StartScheduler() (stop func(), err error) {
	kubeconfig := c.path("scheduler.kubeconfig")
	if err := WriteKubeconfig(kubeconfig, c.Admin); err != nil {
		return nil, fmt.Errorf("start scheduler: %w", err)
	}
	p, err := c.start("kube-scheduler", "--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port=0")
	if err != nil {
		return nil, err
	}
	return p.Kill, nil
}
