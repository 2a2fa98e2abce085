package unit

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gpuledger/gpuledger/internal/proc"
)

// match describes a unit that a cgroup path names.
type match struct {
	manager string
	// id is the name of the unit, with two exceptions. For a Slurm job with a SLUID, id is the SLUID. For a container,
	// id is the container id. In these cases the name comes from files.
	id string
	// uid is empty if the path does not contain the uid of the unit's user.
	uid string
	// account is the uid of the trusted user who owns the container. It is empty for containers of root.
	account string
	inPod   bool
	// daemon is set for the Slurm daemon that runs a step of the job.
	daemon bool
}

func (m match) named() bool {
	if m.manager == Slurm {
		return !isSLUID(m.id)
	}
	return m.container() == ""
}

// engines lists the managers whose files contain the names of containers.
var engines = []string{Docker, Podman, Nerdctl}

// container returns "" for units that are not containers of these engines.
func (m match) container() string {
	if slices.Contains(engines, m.manager) && proc.IsContainerID(m.id) {
		return m.id
	}
	return ""
}

type parser struct {
	// managers is sorted by precedence.
	managers []Manager
	// isPod reports whether a segment of a path belongs to a pod. above contains the preceding segments of the path.
	isPod func(segment string, above []string) bool
}

// parse returns the unit that a cgroup file names. Not every manager uses every hierarchy of cgroup v1, so the lines of
// the file may name units of different managers. parse uses the manager with the highest precedence. If the lines name
// different units of this manager, or if any line is malformed, the file names no unit.
func (p *parser) parse(file string) (found match, ok bool) {
	pod := false
	var all []match
	for segments, err := range proc.Paths(file) {
		if err != nil {
			return match{}, false
		}
		m, inPod := p.parsePath(segments)
		pod = pod || inPod
		if m.manager != "" {
			all = append(all, m)
		}
	}
	all = slices.DeleteFunc(all, func(m match) bool { return pod && !m.inPod })
	for _, m := range all {
		switch {
		case !ok || p.rank(m.manager) < p.rank(found.manager):
			found, ok = m, true
		case m.manager == found.manager && m.key() != found.key():
			return match{}, false
		case m.manager == found.manager:
			found.daemon = found.daemon || m.daemon
		}
	}
	return found, ok
}

// rank returns 0 for the manager with the highest precedence, and -1 for an unknown manager.
func (p *parser) rank(manager string) int {
	return slices.IndexFunc(p.managers, func(m Manager) bool { return m.Name == manager })
}

// parsePath returns the unit that is nearest to the root of a path, and reports whether the path is in a pod. If there
// is no unit, the match is empty. In a pod only Slurm jobs are units.
//
// Systemd slices belong to root, except for the slices of users. The search stops at any other segment that is not a
// unit, because the owner of this segment can choose all names below it.
func (p *parser) parsePath(segments []string) (m match, inPod bool) {
	outside := aboveUsers(segments)
	for i, s := range segments {
		if p.isPod != nil && p.isPod(s, segments[:i]) {
			inPod = true
		}
		switch {
		case inPod:
			if m, ok := p.unitAt(segments, i, func(m *Manager) bool { return m.Name == Slurm }); ok {
				m.inPod = true
				return m, true
			}
			continue
		case proc.IsUserSlice(s):
			return p.ofUser(segments[i:]), false
		}
		if m, ok := p.unitAt(outside, i, nil); ok {
			return m, false
		}
		if p.services() && isSystem(segments[:i]) && strings.HasSuffix(s, ".service") {
			return ofService(unescape(strings.TrimSuffix(s, ".service"))), false
		}
		if !isParent(s) {
			return match{}, false
		}
	}
	return match{}, inPod
}

func (p *parser) services() bool { return p.rank(Systemd) >= 0 }

// unitAt returns the unit that a manager's pattern finds if the match begins at segment i. It prefers the unit nearest
// to the root, because the owner of a unit can choose all names below the unit. If several units are equally near to
// the root, it returns the unit of the first manager. If only is not nil, unitAt skips managers for which only returns
// false.
func (p *parser) unitAt(segments []string, i int, only func(*Manager) bool) (m match, ok bool) {
	at := len(segments)
	for k := range p.managers {
		manager := &p.managers[k]
		if only != nil && !only(manager) {
			continue
		}
		for j := range manager.Paths {
			if f, matched := manager.Paths[j].match(segments, i); matched && f.at < at {
				at, m, ok = f.at, manager.unit(f, segments), true
			}
		}
	}
	return m, ok
}

func (m *Manager) unit(f found, segments []string) match {
	u := match{manager: m.Name, id: strings.Clone(f.name), uid: strings.Clone(f.uid)}
	switch below := segments[f.at+1:]; {
	case m.Name == Slurm:
		u.daemon = len(below) == 2 && strings.HasPrefix(below[0], "step_") && below[1] == "slurm"
	case proc.IsContainerID(u.id) && u.container() == "":
		u.id = u.id[:12] // no file contains the name of the container
	}
	return u
}

// isParent reports whether only root can create cgroups directly below the segment. Such a segment
// is a systemd slice, the parent of Podman's containers, or a level above the exporter's cgroup
// namespace.
func isParent(s string) bool {
	return strings.HasSuffix(s, ".slice") || s == "libpod_parent" || s == ".."
}

func aboveUsers(segments []string) []string {
	if i := slices.IndexFunc(segments, proc.IsUserSlice); i >= 0 {
		return segments[:i]
	}
	return segments
}

// isSystem reports whether a service below the given segments is a system service. The caller has already excluded
// slices of users. The segment .. does not count as a slice, because it may be a slice of a user in a private cgroup
// namespace.
func isSystem(above []string) bool {
	outside := func(s string) bool { return !strings.HasSuffix(s, ".slice") || s == "machine.slice" }
	return slices.Contains(above, "system.slice") || len(above) > 0 && !slices.ContainsFunc(above, outside)
}

// hiddenService returns a service from a cgroup file if the exporter's cgroup namespace hides the service's slice.
// Otherwise it returns "". Such a service may belong to the system or to a user.
func hiddenService(file string) string {
	for segments, err := range proc.Paths(file) {
		if err != nil || len(segments) == 0 || segments[0] != ".." {
			continue
		}
		i := slices.IndexFunc(segments, func(s string) bool { return s != ".." && !strings.HasSuffix(s, ".slice") })
		if i > 0 && strings.HasSuffix(segments[i], ".service") && !slices.ContainsFunc(segments[:i+1], func(s string) bool { return proc.IsUserSlice(s) || s == "machine.slice" }) {
			return segments[i]
		}
	}
	return ""
}

// sluid matches a SLUID, which is Slurm's id for a run of a job. A SLUID consists of 64 bits in Crockford's base 32
// (src/common/sluid.c).
var sluid = regexp.MustCompile(`^s[0-9A-HJKMNP-TV-Z]{13}$`)

func isSLUID(s string) bool { return sluid.MatchString(s) }

// hostServices contains services of drivers and of the vendors' monitoring tools. They belong to the host, because they
// serve all owners of the GPUs.
var hostServices = []string{
	"nvidia-persistenced", "nvidia-fabricmanager", "nvidia-imex", "nvidia-powerd", "nvidia-topologyd", "nvidia-gridd", "nvidia-vgpud", "nvidia-vgpu-mgr",
	"nvidia-suspend", "nvidia-resume", "nvidia-hibernate", "nvidia-suspend-then-hibernate", "nvidia-cdi-refresh", "nvidia-mig-manager", "nvidia-mps",
	"nvidia-dcgm", "dcgm", "dcgm-exporter", "nvidia-dcgm-exporter",
}

func ofService(name string) match {
	if slices.Contains(hostServices, name) || !validName(name) {
		return match{}
	}
	return match{manager: Systemd, id: name}
}

// ofUser returns the unit for a path that begins with user.slice. If a manager trusts the user and finds a unit in
// the path, ofUser returns this unit. Otherwise the unit is the user. Root's processes belong to the host.
func (p *parser) ofUser(segments []string) match {
	if segments[0] != "user.slice" || len(segments) == 1 {
		return match{}
	}
	uid, isUser := strings.CutPrefix(strings.TrimSuffix(segments[1], ".slice"), "user-")
	if !isUser || !isNumber(uid) || uid == "0" {
		return match{}
	}
	if len(segments) > 3 && segments[2] == "user@"+uid+".service" {
		trusts := func(m *Manager) bool { return slices.Contains(m.UIDs, uid) }
		for i := 3; i == 3 || i < len(segments) && isParent(segments[i-1]); i++ {
			if m, ok := p.unitAt(segments, i, trusts); ok {
				if m.container() != "" {
					m.account = uid
				}
				return m
			}
		}
	}
	if p.rank(User) < 0 {
		return match{}
	}
	return match{manager: User, id: uid}
}

// isNumber reports whether s is a decimal number without leading zeros. It accepts at most 10 digits, which is enough
// for 32 bits.
func isNumber(s string) bool {
	return len(s) > 0 && len(s) <= 10 && strings.Trim(s, "0123456789") == "" && (s == "0" || s[0] != '0')
}

// maxName is in bytes. The kernel has the same limit for the names of cgroups.
const maxName = 255

func validName(s string) bool {
	return s != "" && len(s) <= maxName && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

var escape = regexp.MustCompile(`\\x[0-9a-f]{2}`)

// unescape restores the bytes that systemd escapes in unit names, such as \x2d.
func unescape(s string) string {
	return escape.ReplaceAllStringFunc(s, func(e string) string {
		hex := strings.IndexByte("0123456789abcdef", e[2])<<4 | strings.IndexByte("0123456789abcdef", e[3])
		return string([]byte{byte(hex)})
	})
}
