package unit

import (
	"errors"
	"io/fs"
	"path/filepath"
)

const maxNamespaces = 256

// readNerdctl reads a container from the directory of containerd's runtime,
// <run>/io.containerd.runtime.v2.task/<namespace>/<id>. nerdctl stores the container's name in the annotations for its
// hooks. A container that ctr started has no name.
func readNerdctl(run, id, procFS string) (container, error) {
	c := container{manager: Nerdctl}
	tasks := filepath.Join(run, "io.containerd.runtime.v2.task")
	namespaces, err := listTrusted(tasks, maxNamespaces)
	if err != nil {
		return c, err
	}
	for _, namespace := range namespaces {
		var spec runtimeSpec
		err := readDocument(filepath.Join(tasks, namespace, id, "config.json"), maxContainerFile, spec.read)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			c.name = spec.name
			c.devices, err = spec.devices(procFS)
		}
		return c, err
	}
	return c, &fs.PathError{Op: "find container", Path: tasks, Err: fs.ErrNotExist}
}
