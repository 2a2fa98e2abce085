package unit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The managers whose units are recognised without a pattern.
const (
	Slurm   = "slurm"
	Docker  = "docker"
	Podman  = "podman"
	Systemd = "systemd"
	User    = "user"
)

// ManagerInfo describes a manager, in Markdown: the name of its units, and where the name is read.
type ManagerInfo struct{ Name, Unit, Source string }

// ManagerInfos contains a row for each manager. The help of --units and the table of docs/machine.md are made from it. If lines of a
// cgroup file match different managers, the first one in this list counts.
var ManagerInfos = []ManagerInfo{
	{Slurm, "job id", "cgroup: [slurm.md](slurm.md)"},
	{Docker, "container name; image and Compose project on `gpuledger_unit_info`", "cgroup, and Docker's files below `--units.docker-root`"},
	{Podman, "name of root's container", "cgroup, and Podman's files"},
	{Systemd, "service, except the driver's services", "cgroup"},
	{User, "uid of a session, rootless containers included", "cgroup"},
}

// Managers contains the names of ManagerInfos.
var Managers = func() (names []string) {
	for _, m := range ManagerInfos {
		names = append(names, m.Name)
	}
	return names
}()

// Patterns are a site's own managers, in the order of their precedence. It is a value of
// [flag.Var].
type Patterns []Pattern

// Pattern recognises the units of a manager in a cgroup path.
type Pattern struct {
	Manager string
	// Path matches a part of a path such as /a/b/c. Its only group is the unit's name.
	Path *regexp.Regexp
}

var managerName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// Set adds a pattern, given as manager=regexp.
func (p *Patterns) Set(s string) error {
	manager, expr, ok := strings.Cut(s, "=")
	switch {
	case !ok || !managerName.MatchString(manager):
		return fmt.Errorf("%q: must be manager=regexp, with a manager of lower-case letters, digits, - and _", s)
	case slices.Contains(Managers, manager):
		return fmt.Errorf("%q: the units of %s are recognised without a pattern", s, manager)
	}
	path, err := regexp.Compile(expr)
	if err != nil {
		return err
	}
	if path.NumSubexp() != 1 {
		return fmt.Errorf("%q: must have one group, which is the unit's name", s)
	}
	*p = append(*p, Pattern{manager, path})
	return nil
}

// String returns the patterns as they are given.
func (p *Patterns) String() string {
	if p == nil {
		return ""
	}
	var all []string
	for _, q := range *p {
		all = append(all, q.Manager+"="+q.Path.String())
	}
	return strings.Join(all, " ")
}
