package podmapper

import (
	"path"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/proc"
)

// maxFileName is the maximum length of a file name. The kubelet truncates longer names of links at the end, so the
// container's id loses digits.
const maxFileName = 255

// logLink is the container to which a link in /var/log/containers refers.
type logLink struct {
	gpu.Owner
	// id is the container's id in the runtime. If the name of the link was truncated, id has fewer than 64 digits or is
	// empty.
	id string
}

// truncated reports whether the name of the link was too short for the whole id.
func (l logLink) truncated() bool { return len(l.id) < 64 }

// key returns the container's id, or all fields if the id is truncated.
func (l logLink) key() string {
	if l.truncated() {
		return strings.Join([]string{l.Scope, l.Name, l.UID, l.Part, l.id}, "/")
	}
	return l.id
}

// parseLogLink parses a link of the kubelet:
//
//	<pod>_<namespace>_<container>-<id>.log → /var/log/pods/<namespace>_<pod>_<uid>/<container>/<n>.log
//
// The function reads the names and the UID from the target, because the kubelet never truncates them there. The target
// need not exist. The function reads the id from the name of the link, which must match the target.
func parseLogLink(name, target string) (logLink, bool) {
	c, ok := parseLogPath(target)
	if !ok {
		return logLink{}, false
	}
	stem, isLog := strings.CutSuffix(name, ".log")
	want := c.Name + "_" + c.Scope + "_" + c.Part + "-"
	id, hasID := strings.CutPrefix(stem, want)
	switch {
	case !isLog:
		return logLink{}, false
	case hasID && proc.IsContainerID(id):
		return logLink{c, strings.Clone(id)}, true // id is cloned, so that the rest of the link name can be freed
	case len(name) != maxFileName:
		return logLink{}, false
	case hasID && len(id) < 64 && isHex(id):
		return logLink{c, id}, true
	}
	return logLink{Owner: c}, !hasID && strings.HasPrefix(want, stem)
}

// parseLogPath parses the target of a log link. It uses only the last three elements of the path.
func parseLogPath(target string) (gpu.Owner, bool) {
	dir, file := path.Split(target)
	n, isLog := strings.CutSuffix(file, ".log")
	dir, container := path.Split(strings.TrimSuffix(dir, "/"))
	c, ok := parsePodDir(path.Base(dir))
	c.Part = container
	return c, ok && isLog && isDigits(n) && validName(container)
}

// validName reports whether s can be the name of a namespace, a pod or a container (RFC 1123: lower-case letters,
// digits, dashes and dots).
func validName(s string) bool {
	return s != "" && len(s) <= 253 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}
