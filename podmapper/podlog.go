package podmapper

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// podLogs contains the names of the kubelet's log directories, <namespace>_<pod>_<uid>/<container>. These directories
// exist even if the runtime writes no log files and there are no log links. Their names contain no container ids. A
// podLogs is immutable.
type podLogs struct {
	root string
	pods map[string]podName // pod names by UID
}

// readPodLogs reads the names of the log directories. It returns no error if the root is missing, because the log links
// may suffice.
func readPodLogs(root string, limit int) (podLogs, error) {
	if root == "" {
		return podLogs{}, nil
	}
	names, err := readNames(root, limit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return podLogs{}, fmt.Errorf("list pod logs: %w", err)
	}
	l := podLogs{root, make(map[string]podName, len(names))}
	for _, dir := range names {
		if c, ok := parsePodDir(dir); ok {
			l.pods[c.UID] = podName{c.Scope, c.Name}
		}
	}
	return l, nil
}

// single returns the container of a pod if only one container of the pod has a log directory. The kubelet's list must
// contain no other container of the pod. The kubelet creates a container's directory before it creates the container,
// so each running container has a directory. The directory of an init container remains after its end.
func (l podLogs) single(uid string, single map[podName]string) gpu.Owner {
	name, ok := l.pods[uid]
	if !ok || single[name] == "" {
		return gpu.Owner{}
	}
	containers, err := readNames(filepath.Join(l.root, name.namespace+"_"+name.pod+"_"+uid), maxLogs)
	if err != nil || len(containers) != 1 || containers[0] != single[name] {
		return gpu.Owner{}
	}
	return gpu.Owner{Kind: gpu.OwnerPod, Scope: name.namespace, Name: name.pod, UID: uid, Part: single[name]}
}

// parsePodDir parses <namespace>_<pod>_<uid>. Kubernetes names contain no underscores.
func parsePodDir(dir string) (gpu.Owner, bool) {
	part := strings.Split(dir, "_")
	if len(part) != 3 {
		return gpu.Owner{}, false
	}
	c := gpu.Owner{Kind: gpu.OwnerPod, Scope: part[0], Name: part[1], UID: part[2]}
	return c, validName(c.Scope) && validName(c.Name) && validUID(c.UID)
}

// maxLogs is the maximum number of entries in a log directory. A node with 500 pods has a few thousand links.
const maxLogs = 20_000

// readNames returns the names in a directory, unsorted. It returns an error if there are more than limit names. Names
// that are missing from a partial list would count as removed.
func readNames(dir string, limit int) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(limit + 1)
	if errors.Is(err, io.EOF) { // the directory is empty
		err = nil
	}
	if len(names) > limit {
		names, err = nil, fmt.Errorf("more than %d entries in %s: %w", limit, dir, stage.ErrOversized)
	}
	return names, errors.Join(err, d.Close())
}
