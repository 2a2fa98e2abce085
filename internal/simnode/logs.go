package simnode

import (
	"os"
	"path/filepath"
)

// logTree simulates two directories of the kubelet: /var/log/containers with a link for every container, and
// /var/log/pods with a directory for every container. The target of a link contains the pod's UID. The target does not
// exist, so that a test fails if a reader follows the link.
type logTree struct{ links, pods string }

func (t logTree) start(c *container) error {
	if err := os.MkdirAll(filepath.Join(t.pods, podDir(c), c.Part), 0o755); err != nil {
		return err
	}
	target := filepath.Join("/var/log/pods", podDir(c), c.Part, "0.log")
	return os.Symlink(target, t.link(c))
}

func (t logTree) end(c *container) error {
	if err := os.RemoveAll(filepath.Join(t.pods, podDir(c))); err != nil {
		return err
	}
	return os.Remove(t.link(c))
}

func podDir(c *container) string { return c.Scope + "_" + c.Name + "_" + c.UID }

// The kubelet truncates the name of a link that is too long for a file (pkg/kubelet/kuberuntime, legacyLogSymlink).
func (t logTree) link(c *container) string {
	name := c.Name + "_" + c.Scope + "_" + c.Part + "-" + c.id
	return filepath.Join(t.links, name[:min(len(name), 251)]+".log")
}
