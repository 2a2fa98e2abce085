package podmapper

import (
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/proc"
)

// begin returns the index of the first segment that the kubelet or its runtime creates, or -1. It accepts this segment
// only if uid 0 must have created all cgroups above it. Such cgroups are levels above the exporter's cgroup namespace,
// systemd slices except user slices, the root cgroup of the kubelet, and one container of a container engine. A node of
// kind is such a container. Cgroups of system services, LXC containers and virtual machines are not accepted. A user
// other than uid 0 may own such a cgroup, and could create cgroups with the name of a pod's cgroup inside it.
func begin(segments []string) int {
	inContainer := false
	for i := 0; i < len(segments); i++ {
		if IsPod(segments[i], segments[:i]) {
			return i
		}
		length := engineContainer(segments[i:])
		switch {
		case isParent(segments[i], segments[:i]):
		case length > 0 && !inContainer:
			inContainer = true
			i += length - 1
		default:
			return -1
		}
	}
	return -1
}

// IsPod reports whether a segment of a cgroup path is the cgroup of a pod, of a container in a pod, or of several pods.
// The caller must ensure that only uid 0 can create cgroups in the segments above.
func IsPod(segment string, above []string) bool {
	slice, _, _ := strings.Cut(segment, ":")
	_, isPod := podOfSegment(slice, above)
	return isNestedIn(segment, last(above)) && (isPod || isKubepods(strings.TrimSuffix(slice, ".slice"))) ||
		isHiddenClass(segment, above) || isBeside(segment, above) || isRuntimeSegment(segment)
}

// isKubepods reports whether a slice contains pods. The name of a slice contains its path. For example,
// kubelet-kubepods-burstable is inside kubelet.
func isKubepods(slice string) bool {
	return slices.Contains(strings.Split(slice, "-"), "kubepods")
}

// isNestedIn reports whether a segment can be directly inside the parent. The name of a slice inside another slice
// begins with the name of the outer slice.
func isNestedIn(segment, parent string) bool {
	if strings.HasSuffix(parent, ".service") {
		return slices.Contains(runtimeServices, parent) && strings.Contains(segment, ":")
	}
	slice, ok := strings.CutSuffix(parent, ".slice")
	return !ok || strings.HasPrefix(segment, slice+"-")
}

// runtimeServices contains the services of container runtimes, which run as uid 0. If the kubelet uses the systemd
// driver but the runtime does not, runc creates cgroups in the cgroup of such a service. Their names are
// <slice>:<prefix>:<id>.
var runtimeServices = []string{"containerd.service", "k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service"}

// isParent reports whether only uid 0 can create cgroups inside the segment.
func isParent(segment string, above []string) bool {
	switch {
	case segment == "..":
		return onlyAbove(above)
	case strings.HasSuffix(segment, ".slice"):
		return !proc.IsUserSlice(segment) && isNestedIn(segment, last(above))
	case strings.HasSuffix(segment, ".service"):
		return last(above) == "system.slice" && slices.Contains(runtimeServices, segment)
	}
	return strings.HasPrefix(segment, "kubelet") && !strings.HasSuffix(segment, ".scope") && isNestedIn(segment, last(above))
}

// engineContainer returns the number of segments at the beginning of a path that belong to a Docker, Podman or nerdctl
// container. If there is no such container, it returns 0.
func engineContainer(segments []string) int {
	first, below := segments[0], segments[1:]
	if (first == "docker" || first == "libpod_parent" || first == "default") && len(below) > 0 {
		if proc.IsContainerID(strings.TrimPrefix(below[0], "libpod-")) {
			return 2
		}
		return 0
	}
	engine, id, _ := strings.Cut(strings.TrimSuffix(first, ".scope"), "-")
	switch {
	case !proc.IsContainerID(id):
		return 0
	case engine == "libpod" && len(below) > 0 && below[0] == "container":
		return 2
	case engine == "docker" || engine == "libpod" || engine == "nerdctl":
		return 1
	}
	return 0
}

// isHiddenClass reports whether the segment is the cgroup of a QoS class. The segment must be directly below the levels
// that a private cgroup namespace hides.
func isHiddenClass(segment string, above []string) bool {
	return last(above) == ".." && (segment == "burstable" || segment == "besteffort")
}

// isBeside reports whether the segment is another container of the exporter's pod. If the exporter has a private cgroup
// namespace, the path of such a container begins with "..".
func isBeside(segment string, above []string) bool {
	return last(above) == ".." && proc.ContainerIDOf(segment) != ""
}

// onlyAbove reports whether all segments are levels above the exporter's cgroup namespace.
func onlyAbove(segments []string) bool {
	return !slices.ContainsFunc(segments, func(s string) bool { return s != ".." })
}

func last(segments []string) string {
	if len(segments) == 0 {
		return ""
	}
	return segments[len(segments)-1]
}
