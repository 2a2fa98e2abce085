package podmapper

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unique"

	"github.com/gpuledger/gpuledger/internal/proc"
)

// cgroup is the parsed content of /proc/<pid>/cgroup. The zero value means that the process is, or may be, in a pod
// that cannot be identified.
type cgroup struct {
	// If the exporter has a private cgroup namespace, podUID is empty for processes in other containers of the
	// exporter's pod. The paths of these processes do not contain the pod.
	podUID string
	// containerID is empty for a process in a pod but outside the pod's containers. A host process has a container id
	// if a container engine started it.
	containerID string
	// host is set if the process does not belong to a pod.
	host bool
}

// readCgroup reads the cgroup of a process with [proc.Tree.Cgroup]. A kernel thread belongs to the host.
func readCgroup(tree proc.Tree, pid uint32, st proc.Stat) (proc.Stat, unique.Handle[cgroup], error) {
	st, text, err := tree.Cgroup(pid, st)
	c := cgroup{host: st.Kernel}
	if err == nil && !st.Kernel {
		if c, err = parseCgroup(text); err != nil {
			err = fmt.Errorf("read %s: %w", tree.File(pid, "cgroup"), err)
		}
	}
	return st, unique.Make(c), err
}

// parseCgroup parses the lines of the file. A line with a pod has precedence over lines without a pod, because the
// kubelet may use only some cgroup hierarchies. Lines with different containers are an error. If a line cannot be
// parsed, the process never counts as a host process, because the line may name a pod. The strings in the result share
// memory with the argument file until unique.Make copies them.
func parseCgroup(file string) (cgroup, error) {
	var pod, host cgroup
	var unreadable error
	for segments, err := range proc.Paths(file) {
		c := parsePath(segments)
		if err == nil && c == (cgroup{}) {
			err = fmt.Errorf("no pod UID in %.200q", strings.Join(segments, "/"))
		}
		switch {
		case err != nil:
			unreadable = err
		case c.host:
			host = cgroup{host: true, containerID: cmp.Or(host.containerID, c.containerID)}
		default:
			if pod, err = pod.merge(c); err != nil {
				return cgroup{}, err
			}
		}
	}
	switch {
	case pod != cgroup{}:
		return pod, nil
	case unreadable != nil:
		return cgroup{}, unreadable
	case !host.host:
		return cgroup{}, errors.New("empty")
	}
	return host, nil
}

// merge returns an error if the two lines name different pods or containers.
func (c cgroup) merge(d cgroup) (cgroup, error) {
	uid, id := cmp.Or(c.podUID, d.podUID), cmp.Or(c.containerID, d.containerID)
	if cmp.Or(d.podUID, uid) != uid || cmp.Or(d.containerID, id) != id {
		return cgroup{}, fmt.Errorf("conflicting lines: pod %q and %q, container %.12q and %.12q",
			c.podUID, d.podUID, c.containerID, d.containerID)
	}
	return cgroup{podUID: uid, containerID: id}, nil
}

// parsePath finds the pod and the container in a path. If the path contains several pods, it returns the pod nearest to
// the root. A container can create cgroups with any name below its own cgroup.
func parsePath(segments []string) cgroup {
	at := begin(segments)
	switch {
	case at < 0 && onlyAbove(segments):
		return cgroup{}
	case at < 0: // the id belongs to a container on the host, such as a Docker or Podman container
		return cgroup{host: true, containerID: proc.ContainerIDIn(segments)}
	case isBeside(segments[at], segments[:at]) || isRuntimeSegment(segments[at]):
		id := proc.ContainerIDIn(segments[at:])
		return cgroup{host: id == "", containerID: id}
	}
	for i, s := range segments[at:] {
		slice, rest, _ := strings.Cut(s, ":") // runc creates the name <slice>:<prefix>:<id> if the kubelet uses the systemd driver but runc does not
		uid, isPod := podOfSegment(slice, segments[:at+i])
		switch {
		case isPod && validUID(uid):
			return cgroup{podUID: uid, containerID: cmp.Or(proc.ContainerIDOf(rest), proc.ContainerIDIn(segments[at+i+1:]))}
		case isPod:
			return cgroup{}
		}
	}
	return cgroup{}
}

// dashes restores the dashes in a UID. In the name of a slice, a dash separates the slice from its parent, so the
// dashes of a UID are replaced or escaped.
var dashes = strings.NewReplacer("_", "-", `\x2d`, "-")

// podOfSegment returns the pod's UID if the segment is the cgroup of a pod. It does not check the format of the UID.
// With the systemd driver, the cgroup is named kubepods[-<class>]-pod<uid>.slice. The dashes of the UID are replaced by
// underscores or escaped. With the cgroupfs driver, the cgroup is named pod<uid> below kubepods[/<class>]. Other
// cgroups whose names contain "pod" are not cgroups of pods.
func podOfSegment(s string, above []string) (uid string, ok bool) {
	if slice, ok := strings.CutSuffix(s, ".slice"); ok {
		i := strings.LastIndex(slice, "-pod")
		if i < 0 || !isKubepods(slice[:i]) {
			return "", false
		}
		return dashes.Replace(slice[i+len("-pod"):]), true
	}
	uid, ok = strings.CutPrefix(s, "pod")
	if !ok || len(above) == 0 {
		return "", false
	}
	switch above[len(above)-1] {
	case "kubepods", "burstable", "besteffort":
		return uid, true
	case "..": // the common parent of both pods, which the private cgroup namespace hides
		return uid, validUID(uid)
	}
	return "", false
}

// isRuntimeSegment reports whether the segment is a cgroup that a runtime creates only for containers of pods. There
// are three such cgroups: the kubelet's containerd namespace, the cgroup of Kata's own processes, and a scope of
// containerd or CRI-O if the kubelet creates no cgroups for its pods.
func isRuntimeSegment(s string) bool {
	return s == "k8s.io" || s == "kata_overhead" ||
		strings.HasPrefix(s, "cri-containerd-") || strings.HasPrefix(s, "crio-")
}
