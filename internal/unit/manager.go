package unit

import (
	"cmp"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Each of these managers needs its own code, which finds the names of units or the position of a unit in a path.
const (
	Slurm   = "slurm"
	Docker  = "docker"
	Podman  = "podman"
	Nerdctl = "nerdctl"
	Systemd = "systemd"
	User    = "user"
)

// A Manager recognises its units in cgroup paths. docs/managers.md describes the file that defines
// a manager.
type Manager struct {
	Name string
	// Unit describes the meaning of a unit's name, in Markdown.
	Unit  string
	Paths []Pattern
	// UIDs contains the uids of trusted users. The manager finds units below user@<uid>.service of a trusted
	// user, although the user can choose the names there.
	UIDs []string
	// Held contains directories with files that list the GPUs held by units.
	Held []string
	// File is the file or flag that defines the manager.
	File string
}

// BuiltIn is the value of File for the managers that are built into this program.
const BuiltIn = "built in"

// last contains the managers with the lowest precedence. They have no patterns, because the parser recognises their
// units by slices.
var last = []Manager{
	{Name: Systemd, Unit: "service, except the driver's services", File: BuiltIn},
	{Name: User, Unit: "uid of a session, including rootless containers", File: BuiltIn},
}

// sources describes where unit names come from if they are not in the cgroup path, in Markdown.
var sources = map[string]string{
	Slurm:   "cgroup: [slurm.md](slurm.md)",
	Docker:  "cgroup, and Docker's files below `--units.docker-root`",
	Podman:  "cgroup, and Podman's files",
	Nerdctl: "cgroup, and containerd's files below `--units.containerd-run`",
}

// Source describes where the names of the manager's units come from, in Markdown.
func (m *Manager) Source() string { return cmp.Or(sources[m.Name], "cgroup") }

//go:embed managers/*.conf
var files embed.FS

// builtIn contains the managers with patterns, sorted by name.
var builtIn = func() (all []Manager) {
	entries, err := files.ReadDir("managers")
	if err != nil {
		panic(err) // impossible, because the files are part of the program
	}
	for _, e := range entries {
		text, err := files.ReadFile(path.Join("managers", e.Name()))
		if err == nil {
			var m Manager
			m, err = parseManager(e.Name(), BuiltIn, string(text))
			all = append(all, m)
		}
		if err != nil {
			panic(fmt.Sprintf("managers/%s: %v", e.Name(), err))
		}
	}
	return all
}()

// BuiltInManagers returns the managers that are built into this program. The help of --units and the table in
// docs/managers.md are generated from this list.
func BuiltInManagers() []Manager { return slices.Concat(builtIn, last) }

// Managers contains the names of the built-in managers.
var Managers = Names(BuiltInManagers())

// Names returns the names of managers.
func Names(managers []Manager) (names []string) {
	for i := range managers {
		names = append(names, managers[i].Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Patterns contains managers that a flag defines, sorted by precedence. It can be used with [flag.Var].
type Patterns []Manager

// Set adds a manager, in the form manager=path.
func (p *Patterns) Set(s string) error {
	name, expr, ok := strings.Cut(s, "=")
	switch {
	case !ok || !managerName.MatchString(name):
		return fmt.Errorf("%q: must be manager=path, with a manager of lower-case letters, digits, - and _", s)
	case slices.Contains([]string{Slurm, Docker, Podman, Nerdctl, Systemd, User}, name):
		return fmt.Errorf("%q: %s is built in, and its units need no pattern", s, name)
	}
	q, err := parsePattern(expr)
	if err == nil {
		err = q.check()
	}
	if err != nil {
		return err
	}
	*p = append(*p, Manager{Name: name, Paths: []Pattern{q}, File: "--units.pattern"})
	return nil
}

// String returns the patterns in the form of the flag.
func (p *Patterns) String() string {
	if p == nil {
		return ""
	}
	var all []string
	for _, m := range *p {
		all = append(all, m.Name+"="+m.Paths[0].text)
	}
	return strings.Join(all, " ")
}
