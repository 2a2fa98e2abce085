package unit

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Pattern matches consecutive segments in a cgroup path. Slices may precede these segments.
type Pattern struct {
	text     string
	root     bool // set if no segments may precede the match
	segments []*regexp.Regexp
	prefix   string // literal prefix of the first segment
	// name is the group that matches the unit's name. uid is the group that matches the uid of the unit's user.
	// uid.group is 0 if the pattern contains no such group.
	name, uid groupAt
}

// groupAt identifies a group by the index of its segment and by its index in the regexp of this segment.
type groupAt struct{ segment, group int }

const uidGroup = "uid"

// parsePattern parses a pattern: a regexp for each segment, separated by /. One of the groups in these regexps matches
// the name of the unit.
func parsePattern(text string) (p Pattern, err error) {
	p.text = text
	expr, root := strings.CutPrefix(text, "^")
	p.root = root
	// Regexps need not exclude /, because a segment contains no /.
	expr = strings.NewReplacer("[^/]", ".", "[^/", "[^").Replace(expr)
	if !strings.HasPrefix(expr, "/") {
		return p, fmt.Errorf("%q: must begin with /; slices such as system.slice may precede the match", text)
	}
	names := 0
	for i, s := range strings.Split(expr[1:], "/") {
		if s == "" {
			return p, fmt.Errorf("%q: has an empty segment", text)
		}
		alone, err := regexp.Compile(s) // each regexp is compiled separately, because an unmatched parenthesis would end the group below
		if err != nil {
			return p, fmt.Errorf("%q: segment %q is not a regexp: no group may contain /: %w", text, s, err)
		}
		re, err := regexp.Compile(`^(?:` + s + `)$`)
		if err != nil {
			return p, fmt.Errorf("%q: segment %q: %w", text, s, err)
		}
		p.segments = append(p.segments, re)
		if i == 0 {
			p.prefix, _ = alone.LiteralPrefix()
		}
		for group, name := range re.SubexpNames() {
			switch {
			case group == 0:
			case name == uidGroup && p.uid.group == 0:
				p.uid = groupAt{i, group}
			default:
				p.name = groupAt{i, group}
				names++
			}
		}
	}
	if names != 1 {
		return p, fmt.Errorf("%q: has %d groups, must have one, which is the unit's name; write other groups as (?:…)", text, names)
	}
	if p.uid.group > 0 && p.uid.segment > p.name.segment {
		return p, fmt.Errorf("%q: the group uid must not follow the unit's name, because the unit itself chooses the names of the cgroups below", text)
	}
	return p, nil
}

// fillers contains the names that check inserts for % in ownedNames. No manager uses these names. Each name has a
// different form.
var fillers = []string{"zz", "Zz42", "z", "4242", "zz-y_x.w", strings.Repeat("0123456789abcdef", 4)}

// ownedNames contains the forms of cgroup names below which users other than root may choose the names of cgroups.
var ownedNames = []string{
	"%", "%.service", "%.scope", "user@%.service", "session-%.scope", "docker-%.scope", "libpod-%.scope", "nerdctl-%.scope",
	"cri-containerd-%.scope", "crio-%.scope", "lxc.payload.%", "machine-%.scope", "systemd-nspawn@%.service",
}

// ownedAbove contains the parent paths of the cgroups in ownedNames.
var ownedAbove = [][]string{
	{},
	{"system.slice"},
	{"machine.slice"},
	{"zz.slice"},
	{"docker"},
	{"lxc"},
	{"lxc.payload"},
	{"libpod_parent"},
	{"ecs", "zz"},
	{"default"},
	{"kubepods"},
	{"kubepods", "burstable"},
	{"kubepods.slice"},
	{"slurmstepd.scope"},
	{"slurm", "uid_4242"},
}

var userManager = []string{"user.slice", "user-4242.slice", "user@4242.service"}

var errUser = errors.New("users choose the names there")

// check returns an error if a user other than root could create a cgroup that the pattern matches.
func (p *Pattern) check() error {
	for _, above := range ownedAbove {
		for _, form := range ownedNames {
			for _, f := range fillers {
				owned := append(slices.Clip(above), strings.ReplaceAll(form, "%", f))
				if p.below(owned) {
					return fmt.Errorf("%q: matches below any cgroup such as /%.80s: %w. Begin with the name of a cgroup that only root creates, such as /pbs_jobs\\.service", p.text, strings.Join(owned, "/"), errUser)
				}
			}
		}
	}
	for n := 1; n <= len(userManager); n++ {
		if p.below(userManager[:n]) {
			return fmt.Errorf("%q: matches below %s: %w. Omit the slices and user@<uid>.service, and add a line uid = with the uid of the manager's account", p.text, userManager[n-1], errUser)
		}
	}
	return nil
}

// below reports whether the pattern can take the unit's name from a segment below the path owned.
func (p *Pattern) below(owned []string) bool {
	if len(owned) > p.name.segment {
		return false
	}
	for i, s := range owned {
		if !p.segments[i].MatchString(s) {
			return false
		}
	}
	return true
}

type found struct {
	name, uid string
	at        int
}

func (p *Pattern) match(segments []string, i int) (f found, ok bool) {
	if i+len(p.segments) > len(segments) || p.root && slices.ContainsFunc(segments[:i], func(s string) bool { return s != ".." }) {
		return f, false
	}
	if !strings.HasPrefix(plain(segments[i]), p.prefix) {
		return f, false
	}
	for n, re := range p.segments {
		s := plain(segments[i+n])
		if n != p.name.segment && n != p.uid.segment {
			if !re.MatchString(s) {
				return f, false
			}
			continue
		}
		groups := re.FindStringSubmatch(s)
		if groups == nil {
			return f, false
		}
		if n == p.name.segment {
			f.name, f.at = groups[p.name.group], i+n
		}
		if n == p.uid.segment && p.uid.group > 0 {
			f.uid = groups[p.uid.group]
		}
	}
	return f, validName(f.name)
}

// plain removes systemd's escapes from a segment. It returns the segment unchanged if the result
// would contain a /.
func plain(segment string) string {
	if !strings.Contains(segment, `\x`) {
		return segment
	}
	if s := unescape(segment); !strings.Contains(s, "/") {
		return s
	}
	return segment
}
