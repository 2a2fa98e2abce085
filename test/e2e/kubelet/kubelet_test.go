//go:build e2e

package kubelet_test

import (
	"syscall"

	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	podResources  = kubeletRoot + "/pod-resources/kubelet.sock"
	podsAPI       = kubeletRoot + "/pods-api/pods-api.sock"
	containerLogs = "/var/log/containers"
	nodeName      = "e2e-node"
)

// This configuration works with and without an API server, and with both versions of cgroups. The kubelet authorizes
// every request, and reads pods from a folder.
const kubeletConfig = `{
	"apiVersion": "kubelet.config.k8s.io/v1beta1",
	"kind": "KubeletConfiguration",
	"staticPodPath": "DIR/manifests",
	"fileCheckFrequency": "1s",
	"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
	"cgroupDriver": "cgroupfs",
	"failCgroupV1": false,
	"failSwapOn": false,
	"authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
	"authorization": {"mode": "AlwaysAllow"},
	"address": "` + nodeIP + `",
	"resolvConf": "",
	"clusterDomain": "cluster.local",
	"clusterDNS": ["` + nodeIP + `"],
	"imageGCHighThresholdPercent": 100,
	"imageGCLowThresholdPercent": 99,
	"evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"}
}`

// startKubelet waits for the kubelet's new sockets.
func (n *node) startKubelet(args ...string) {
	n.t.Helper()
	before, beforePlugins := inode(podResources), inode(deviceplugin.KubeletSocket)
	n.writeFile("kubelet.json", kubeletConfig)
	n.kubelet = start(n.t, n.dir, n.program("kubelet"), append(args,
		"--config="+n.path("kubelet.json"), "--hostname-override="+nodeName, "--node-ip="+nodeIP, "--v=2")...)
	eventually(n.t, "the kubelet responds", func() bool {
		_, err := listPodResources()
		return err == nil && inode(podResources) != before && inode(deviceplugin.KubeletSocket) != beforePlugins
	})
	n.plugin.register(n.t)
}

// inode returns 0 if there is no socket. A new socket at the same path has another inode.
func inode(path string) uint64 {
	var s syscall.Stat_t
	if syscall.Stat(path, &s) != nil {
		return 0
	}
	return s.Ino
}
