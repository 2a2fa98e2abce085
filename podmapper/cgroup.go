package podmapper

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unique"

	"github.com/gpuledger/gpuledger/internal/proc"
)

// cgroup is what /proc/<pid>/cgroup reports about a process. Its zero value is a
// process that belongs to a pod, or may belong to one, which cannot be named.
type cgroup struct {
	// podUID is empty for a container next to ours, seen from a private cgroup
	// namespace: its path does not reach up to the pod.
	podUID string
	// containerID is empty for a process of a pod outside the pod's containers.
	// A host process has one if a container engine started it.
	containerID string
	// host is set if the process is in no pod.
	host bool
}

// readCgroup reads the cgroup of the process whose stat was just read, as [proc.Tree.Cgroup]
// does. A thread of the kernel is the host's.
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

// parseCgroup reads the lines of the file. A line that names a pod decides,
// since the kubelet need not use every hierarchy; lines that name different
// containers name nobody; and a line that cannot be read might have named a pod,
// so what remains is no proof of a host process. The answer is made of pieces of the
// file: who remembers it does so by unique.Make, which copies them.
func parseCgroup(file string) (cgroup, error) {
	var pod, host cgroup
	var unread error
	for segments, err := range proc.Paths(file) {
		c := parsePath(segments)
		if err == nil && c == (cgroup{}) {
			err = fmt.Errorf("no pod UID in %.200q", strings.Join(segments, "/"))
		}
		switch {
		case err != nil:
			unread = err
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
	case unread != nil:
		return cgroup{}, unread
	case !host.host:
		return cgroup{}, errors.New("empty")
	}
	return host, nil
}

// merge joins what two lines say, or fails if they contradict each other.
func (c cgroup) merge(d cgroup) (cgroup, error) {
	uid, id := cmp.Or(c.podUID, d.podUID), cmp.Or(c.containerID, d.containerID)
	if cmp.Or(d.podUID, uid) != uid || cmp.Or(d.containerID, id) != id {
		return cgroup{}, fmt.Errorf("conflicting lines: pod %q and %q, container %.12q and %.12q",
			c.podUID, d.podUID, c.containerID, d.containerID)
	}
	return cgroup{podUID: uid, containerID: id}, nil
}

// parsePath finds the pod and the container in a path. The first pod from
// the root counts: what a container makes below itself is its own affair. Nothing
// below the slice of a user is a pod.
func parsePath(segments []string) cgroup {
	var ofUser []string
	if i := slices.IndexFunc(segments, proc.IsUserSlice); i >= 0 {
		segments, ofUser = segments[:i+1], segments[i+1:]
	}
	c := parseSegments(segments)
	if c.host {
		c.containerID = cmp.Or(c.containerID, proc.ContainerIDIn(ofUser)) // rootless Docker or Podman
	}
	return c
}

// parseSegments reads the segments of a path.
func parseSegments(segments []string) cgroup {
	for i, s := range segments {
		slice, rest, _ := strings.Cut(s, ":") // runc writes <slice>:<prefix>:<id> where the kubelet means systemd and it does not
		uid, isPod := podOfSegment(slice, segments[:i])
		switch {
		case isPod && validUID(uid):
			return cgroup{podUID: uid, containerID: cmp.Or(proc.ContainerIDOf(rest), proc.ContainerIDIn(segments[i+1:]))}
		case isPod:
			return cgroup{}
		}
	}
	return parsePodlessPath(segments)
}

// dashes gives a UID its dashes back, which in the name of a slice separate its
// parents.
var dashes = strings.NewReplacer("_", "-", `\x2d`, "-")

// podOfSegment returns the pod's UID, not yet checked, if the segment is the
// cgroup of a pod: kubepods[-<class>]-pod<uid>.slice by the systemd driver, with
// the UID's dashes as underscores or escaped as systemd does, or pod<uid> below
// kubepods[/<class>] by the cgroupfs driver. Elsewhere, "pod" inside a name means
// nothing.
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
	case "..": // the parent is ours too, and hidden by a private cgroup namespace
		return uid, validUID(uid)
	}
	return "", false
}

// parsePodlessPath reads a path in which no segment is a pod's.
func parsePodlessPath(segments []string) cgroup {
	for _, s := range segments {
		if isKubepods(strings.TrimSuffix(s, ".slice")) {
			return cgroup{}
		}
	}
	up := 0
	for up < len(segments) && segments[up] == ".." {
		up++
	}
	if up == len(segments) {
		return cgroup{}
	}
	id := proc.ContainerIDIn(segments)
	if id != "" && (up > 0 && proc.ContainerIDOf(segments[up]) != "" || slices.ContainsFunc(segments, isRuntimes)) {
		return cgroup{containerID: id}
	}
	return cgroup{host: true, containerID: id}
}

// isRuntimes reports whether a segment is made by a runtime for containers of pods
// only: containerd's namespace of the kubelet and the scopes of both runtimes, where
// the kubelet has no cgroups for its pods, and Kata's cgroup of what it needs itself.
func isRuntimes(s string) bool {
	return s == "k8s.io" || s == "kata_overhead" ||
		strings.HasPrefix(s, "cri-containerd-") || strings.HasPrefix(s, "crio-")
}

// isKubepods reports whether the name of a slice says that it holds pods. Names
// of slices spell their path: kubelet-kubepods-burstable is inside kubelet.
func isKubepods(slice string) bool {
	for name := range strings.SplitSeq(slice, "-") {
		if name == "kubepods" {
			return true
		}
	}
	return false
}
