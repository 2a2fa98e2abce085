//go:build e2e

package kubelet_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuledger/gpuledger/test/e2e/cluster"
)

const podNetwork = `{
	"cniVersion": "1.0.0",
	"name": "e2e",
	"plugins": [{
		"type": "bridge", "bridge": "e2e0", "isGateway": true,
		"ipam": {"type": "host-local", "dataDir": "DIR/addresses", "ranges": [[{"subnet": "198.51.100.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}
	}]
}`

// dnsConfig makes CoreDNS resolve only the names of the cluster.
const dnsConfig = `.:53 {
	bind ` + nodeIP + `
	errors
	kubernetes cluster.local {
		kubeconfig DIR/kubeconfig
	}
}`

// startCluster starts a cluster with one node, a scheduler, Services and DNS. The kubeconfig in the work folder grants
// all rights.
func startCluster(t *testing.T) *node {
	t.Helper()
	n := newNode(t)
	c, err := cluster.Start(t.Context(), "--bind-address=0.0.0.0", "--advertise-address="+nodeIP,
		"--endpoint-reconciler-type=lease", "--kubelet-preferred-address-types=InternalIP", "--runtime-config=admissionregistration.k8s.io/v1beta1=true")
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			c.Logs(t.Output())
		}
		c.Stop()
	})
	kubeconfig := n.path("kubeconfig")
	check(t, cluster.WriteKubeconfig(kubeconfig, c.Admin))
	_, err = c.StartControllers("serviceaccount-controller", "root-ca-certificate-publisher-controller", "node-lifecycle-controller",
		"daemonset-controller", "deployment-controller", "replicaset-controller", "job-controller", "endpointslice-controller",
		"clusterrole-aggregation-controller", "garbage-collector-controller", "namespace-controller")
	check(t, err)
	_, err = c.StartScheduler()
	check(t, err)

	n.writeFile("network/e2e.conflist", podNetwork)
	n.startContainerd()
	t.Cleanup(n.plugin.stop)
	n.startKubelet("--kubeconfig="+kubeconfig, "--node-labels=nvidia.com/gpu.present=true")
	start(t, n.dir, n.program("kube-proxy"), "--kubeconfig="+kubeconfig, "--hostname-override="+nodeName, "--proxy-mode=nftables",
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0", // keeps the settings of the machine
		"--healthz-bind-address=127.0.0.1:10256", "--metrics-bind-address=127.0.0.1:10249")
	n.writeFile("Corefile", dnsConfig)
	start(t, n.dir, filepath.Join(os.Getenv("GPULEDGER_E2E_COREDNS"), "coredns"), "-conf="+n.path("Corefile"))
	return n
}
