//go:build e2e

package kubelet_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	podResources  = kubeletRoot + "/pod-resources/kubelet.sock"
	podsAPI       = kubeletRoot + "/pods-api/pods-api.sock"
	containerLogs = "/var/log/containers"
	nodeName      = "e2e-node"
)

// kubeletConfig makes the kubelet run without an API server: it authorizes every request, and reads
// pods from a folder. It supports both versions of cgroups.
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
	"address": "127.0.0.1",
	"resolvConf": "",
	"imageGCHighThresholdPercent": 100,
	"imageGCLowThresholdPercent": 99,
	"evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"}
}`

// startKubelet starts the kubelet and waits for its new sockets.
func (n *node) startKubelet() {
	n.t.Helper()
	before, beforePlugins := inode(podResources), inode(deviceplugin.KubeletSocket)
	config := filepath.Join(n.dir, "kubelet.json")
	check(n.t, os.WriteFile(config, []byte(strings.ReplaceAll(kubeletConfig, "DIR", n.dir)), 0o644))
	n.kubelet = start(n.t, n.dir, n.program("kubelet"),
		"--config="+config, "--hostname-override="+nodeName, "--node-ip="+nodeIP, "--v=2")
	eventually(n.t, "the kubelet responds", func() bool {
		_, err := listPodResources()
		return err == nil && inode(podResources) != before && inode(deviceplugin.KubeletSocket) != beforePlugins
	})
	n.plugin.register(n.t)
}

// inode returns the inode of a socket, or 0 if there is none. It distinguishes sockets of one name.
func inode(path string) uint64 {
	var s syscall.Stat_t
	if syscall.Stat(path, &s) != nil {
		return 0
	}
	return s.Ino
}
