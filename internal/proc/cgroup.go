package proc

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Paths returns the path of each line <hierarchy>:<controllers>:<path> of a cgroup file, split into segments. Cgroup v1
// has a line for each hierarchy. Cgroup v2 has one line. The path of a malformed line is nil. Paths removes the suffix
// " (deleted)", which the kernel adds to the path of a removed cgroup.
func Paths(cgroup string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		for line := range strings.Lines(cgroup) {
			line = strings.TrimSuffix(line, "\n")
			hierarchy, rest, _ := strings.Cut(line, ":")
			_, path, _ := strings.Cut(rest, ":")
			var segments []string
			var err error
			if strings.Trim(hierarchy, "0123456789") != "" || hierarchy == "" || !strings.HasPrefix(path, "/") {
				err = fmt.Errorf("malformed line %.200q", line)
			} else {
				segments = strings.Split(strings.TrimSuffix(path, " (deleted)"), "/")[1:]
			}
			if !yield(segments, err) {
				return
			}
		}
	}
}

// IsUserSlice reports whether a segment is systemd's slice for all users, or the systemd manager of one user. Users
// choose the names of the cgroups below such a segment.
func IsUserSlice(segment string) bool {
	return segment == "user.slice" || strings.HasPrefix(segment, "user@") && strings.HasSuffix(segment, ".service")
}

// ContainerID returns the first container id in the content of a cgroup file, or "".
func ContainerID(cgroup string) string {
	for segments, err := range Paths(cgroup) {
		if id := ContainerIDIn(segments); err == nil && id != "" {
			return strings.Clone(id)
		}
	}
	return ""
}

// ContainerIDIn returns the first container id in the segments of a path, or "".
func ContainerIDIn(segments []string) string {
	i := slices.IndexFunc(segments, func(s string) bool { return ContainerIDOf(s) != "" })
	if i < 0 {
		return ""
	}
	return ContainerIDOf(segments[i])
}

// ContainerIDOf returns the container id in a segment, or "". Examples of segments are <id>, cri-containerd-<id>.scope,
// crio-conmon-<id>.scope, cri-containerd:<id> and kata_<id>.
func ContainerIDOf(segment string) string {
	s := strings.TrimSuffix(segment, ".scope")
	id := s[strings.LastIndexAny(s, "-:_")+1:]
	if !IsContainerID(id) {
		return ""
	}
	return id
}

// IsContainerID reports whether s is a container id of containerd, CRI-O or Docker: 256 bits in
// hexadecimal digits.
func IsContainerID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}
