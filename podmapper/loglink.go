package podmapper

import (
	"path"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/proc"
)

// maxFileName is the longest name a file can have. The kubelet cuts longer link
// names, and what is lost is the container's id at the end.
const maxFileName = 255

// logLink is what one link of /var/log/containers says about a container.
type logLink struct {
	gpu.Owner
	// id is the runtime's id; shorter than 64 digits, even empty, in a link
	// whose name was cut.
	id string
}

// cut reports whether the link's name was too long to hold the whole id.
func (l logLink) cut() bool { return len(l.id) < 64 }

// key is what the link is found by: the container's id, or all there is if that was cut.
func (l logLink) key() string {
	if l.cut() {
		return strings.Join([]string{l.Scope, l.Name, l.UID, l.Part, l.id}, "/")
	}
	return l.id
}

// parseLogLink reads a link of the kubelet:
//
//	<pod>_<namespace>_<container>-<id>.log → /var/log/pods/<namespace>_<pod>_<uid>/<container>/<n>.log
//
// Names and UID come from the target, which need not exist, since no name is
// cut there; the link's own name adds the id, and has to agree with the target.
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
		return logLink{c, strings.Clone(id)}, true // which is remembered, without the rest of the name
	case len(name) != maxFileName:
		return logLink{}, false
	case hasID && len(id) < 64 && isHex(id):
		return logLink{c, id}, true
	}
	return logLink{Owner: c}, !hasID && strings.HasPrefix(want, stem)
}

// parseLogPath reads the path of a container's log file, of which only the last
// three elements matter.
func parseLogPath(target string) (gpu.Owner, bool) {
	dir, file := path.Split(target)
	n, isLog := strings.CutSuffix(file, ".log")
	dir, container := path.Split(strings.TrimSuffix(dir, "/"))
	c, ok := parsePodDir(path.Base(dir))
	c.Part = container
	return c, ok && isLog && isDigits(n) && validName(container)
}

// validName reports whether s can be the name of a namespace, a pod or a
// container (RFC 1123: lower-case letters, digits, dashes and dots).
func validName(s string) bool {
	return s != "" && len(s) <= 253 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}
