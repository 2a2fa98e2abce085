//go:build e2e

package kubelet_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type node struct {
	t       *testing.T
	dir     string
	kubelet *daemon
	plugin  *plugin
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, dir: os.Getenv(insideEnv), plugin: &plugin{}}
	check(t, os.MkdirAll(n.path("manifests"), 0o755))
	t.Cleanup(func() { showLogs(t, n.dir) }) // this cleanup function runs last
	return n
}

func startNode(t *testing.T) *node {
	t.Helper()
	n := newNode(t)
	n.startContainerd()
	t.Cleanup(n.plugin.stop)
	n.startKubelet()
	return n
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

// writeFile replaces DIR in the text with the path of the work folder.
func (n *node) writeFile(name, text string) {
	n.t.Helper()
	check(n.t, os.MkdirAll(filepath.Dir(n.path(name)), 0o755))
	check(n.t, os.WriteFile(n.path(name), []byte(strings.ReplaceAll(text, "DIR", n.dir)), 0o644))
}

// program returns the path of a program that the script run built.
func (n *node) program(name string) string { return filepath.Join(os.Getenv(programsEnv), name) }

func (n *node) run(t *testing.T, p pod) []running {
	t.Helper()
	n.write(t, p)
	t.Cleanup(func() { n.remove(t, p) })
	return n.await(t, p)
}

// await waits until exactly the given containers of a pod run. It omits the pause container.
func (n *node) await(t *testing.T, p pod) []running {
	t.Helper()
	var up []running
	eventually(t, p.fullName()+" runs", func() bool {
		up = slices.DeleteFunc(containers(t), func(r running) bool {
			return r.Sandbox || r.Name != p.fullName() || p.uid != "" && r.UID != p.uid
		})
		return len(up) == len(p.containers) && !slices.ContainsFunc(p.containers, func(c container) bool {
			return !slices.ContainsFunc(up, c.isUp)
		})
	})
	return up
}

// isUp also waits for the processes and the log link. The kubelet creates them just after the start.
func (c container) isUp(r running) bool {
	processes := 1
	if c.withChild {
		processes = 2
	}
	return r.Part == c.name && len(r.PIDs) == processes && isLinked(r)
}

func isLinked(r running) bool {
	links, _ := os.ReadDir(containerLogs) // the folder is missing before the first container starts
	return slices.ContainsFunc(links, func(l os.DirEntry) bool {
		log, _ := os.Readlink(filepath.Join(containerLogs, l.Name()))
		return strings.HasSuffix(filepath.Dir(log), "_"+r.UID+"/"+r.Part)
	})
}

func (n *node) write(t *testing.T, p pod) {
	t.Helper()
	n.writeManifest(t, p, p.manifest())
}

func (n *node) writeManifest(t *testing.T, p pod, manifest any) {
	t.Helper()
	data, err := json.Marshal(manifest)
	check(t, err)
	written := filepath.Join(n.dir, "manifest.json")
	check(t, os.WriteFile(written, data, 0o644))
	check(t, os.Rename(written, n.manifest(p)))
}

func (n *node) manifest(p pod) string { return filepath.Join(n.dir, "manifests", p.name+".json") }

func (n *node) remove(t *testing.T, p pod) {
	t.Helper()
	check(t, os.Remove(n.manifest(p)))
	eventually(t, p.fullName()+" has ended", func() bool {
		return !slices.ContainsFunc(containers(t), func(r running) bool { return r.Name == p.fullName() })
	})
}
