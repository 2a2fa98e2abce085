package simnode

import (
	"os"
	"path/filepath"
)

// logTree is the directory /var/log/containers, in which the kubelet keeps a link
// for every container. The target names the pod's UID; it is written as on a real
// node and so leads nowhere, which proves that nobody follows it.
type logTree struct{ dir string }

func (t logTree) start(c *container) error {
	target := filepath.Join("/var/log/pods", c.Namespace+"_"+c.Pod+"_"+c.PodUID, c.Container.Container, "0.log")
	return os.Symlink(target, t.link(c))
}

func (t logTree) end(c *container) error { return os.Remove(t.link(c)) }

func (t logTree) link(c *container) string {
	return filepath.Join(t.dir, c.Pod+"_"+c.Namespace+"_"+c.Container.Container+"-"+c.id+".log")
}
