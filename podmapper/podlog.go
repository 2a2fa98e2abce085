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

// podLogs is what the kubelet's directories of logs, <namespace>_<pod>_<uid>/<container>,
// say. They know the pods also where the runtime writes no log files and there are no
// links, but no ids of containers. It does not change.
type podLogs struct {
	root string
	pods map[string]podName // by UID
}

// readPodLogs lists the pods. Where the directory is missing the links may do.
func readPodLogs(root string, most int) (podLogs, error) {
	if root == "" {
		return podLogs{}, nil
	}
	names, err := readNames(root, most)
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

// only returns the container of a process of the given pod, if it can be no other:
// the only one that has logs, and the only one of its pod by the kubelet's word; else
// none. The kubelet makes a container's directory before the container, so that of a
// process that was seen before is there; and an init container has one too, that stays.
func (l podLogs) only(uid string, alone map[podName]string) gpu.Owner {
	name, ok := l.pods[uid]
	if !ok || alone[name] == "" {
		return gpu.Owner{}
	}
	containers, err := readNames(filepath.Join(l.root, name.namespace+"_"+name.pod+"_"+uid), maxLogs)
	if err != nil || len(containers) != 1 || containers[0] != alone[name] {
		return gpu.Owner{}
	}
	return gpu.Owner{Kind: gpu.OwnerPod, Scope: name.namespace, Name: name.pod, UID: uid, Part: alone[name]}
}

// parsePodDir reads <namespace>_<pod>_<uid>. No name of Kubernetes holds an
// underscore.
func parsePodDir(dir string) (gpu.Owner, bool) {
	part := strings.Split(dir, "_")
	if len(part) != 3 {
		return gpu.Owner{}, false
	}
	c := gpu.Owner{Kind: gpu.OwnerPod, Scope: part[0], Name: part[1], UID: part[2]}
	return c, validName(c.Scope) && validName(c.Name) && validUID(c.UID)
}

// maxLogs bounds the entries of a directory of logs. A node with 500 pods has some thousand
// links.
const maxLogs = 20_000

// readNames lists a directory, unsorted. One with more entries than most is an error: in a
// part of the list, what is missing would count as gone.
func readNames(dir string, most int) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(most + 1)
	if errors.Is(err, io.EOF) { // it is empty
		err = nil
	}
	if len(names) > most {
		names, err = nil, fmt.Errorf("more than %d entries in %s: %w", most, dir, stage.ErrOversized)
	}
	return names, errors.Join(err, d.Close())
}
