package app

import (
	"cmp"
	"os"
	"path/filepath"
	"syscall"
)

// auto is the value of flags with a default that depends on the machine; see [Config.Adapt].
const auto = "auto"

// These are the paths of the kubelet and of the books.
const (
	kubelet       = "/var/lib/kubelet"
	kubeletSocket = kubelet + "/pod-resources/kubelet.sock"
	systemState   = "/run/gpuledger"
)

// Machine contains the data on which defaults depend.
type Machine struct {
	Getenv func(string) string
	UID    int
	// Hostname is the name of the machine, or empty if it is unknown.
	Hostname string
	// Owner returns the owner of a file or directory, or false if there is none.
	Owner func(path string) (uid int, exists bool)
}

// ThisMachine returns the machine of this process.
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

// Adapt replaces the value auto in the flags. The flags of Kubernetes are set in a pod, and on a
// machine that has the directory of the kubelet. Elsewhere the node has the name of the machine. A
// user who does not own the system's directory keeps the books in $XDG_RUNTIME_DIR.
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
