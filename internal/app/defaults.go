package app

import (
	"cmp"
	"os"
	"path/filepath"
	"syscall"
)

// auto is the default of flags that [Config.Adapt] sets according to the machine.
const auto = "auto"

const (
	kubelet       = "/var/lib/kubelet"
	kubeletSocket = kubelet + "/pod-resources/kubelet.sock"
	systemState   = "/run/gpuledger"
)

// Machine contains the properties of a machine that determine the defaults of flags.
type Machine struct {
	Getenv func(string) string
	UID    int
	// Hostname is the name of the machine, or empty if it is unknown.
	Hostname string
	// Owner returns the user ID of a path's owner, or false if the path does not exist.
	Owner func(path string) (uid int, exists bool)
}

// ThisMachine returns the properties of the machine that runs this process.
func ThisMachine() Machine {
	name, _ := os.Hostname()
	return Machine{Getenv: os.Getenv, UID: os.Geteuid(), Hostname: name, Owner: func(path string) (int, bool) {
		info, err := os.Stat(path)
		if err != nil {
			return 0, false
		}
		of, ok := info.Sys().(*syscall.Stat_t)
		return int(of.Uid), ok
	}}
}

// Adapt replaces the value auto in the flags. In a pod, and on a machine with the kubelet's
// directory, Adapt enables the parts that need Kubernetes. On other machines the node name
// defaults to the host name. If the user is not root and does not own the system's state
// directory, the state is stored in $XDG_RUNTIME_DIR.
func (c *Config) Adapt(m Machine) {
	if c.PodResources == auto {
		c.PodResources = kubeletSocket
		if _, exists := m.Owner(kubelet); !exists && m.Getenv("KUBERNETES_SERVICE_HOST") == "" {
			c.PodResources = ""
		}
	}
	if c.PodResources == "" {
		c.NodeName = cmp.Or(c.NodeName, m.Hostname)
	}
	if c.StatePath == auto {
		c.StatePath = systemState
		own := m.Getenv("XDG_RUNTIME_DIR")
		if owner, exists := m.Owner(systemState); filepath.IsAbs(own) && m.UID != 0 && (!exists || owner != m.UID) {
			c.StatePath = filepath.Join(own, "gpuledger")
		}
	}
}
