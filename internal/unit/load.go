package unit

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxManagerFile is the maximum size of a file in bytes. maxManagerFiles is the maximum number of files in a
	// directory.
	maxManagerFile  = 64 << 10
	maxManagerFiles = 256
	managerSuffix   = ".conf"
)

var managerName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// LoadManagers returns the managers that the directories define and the built-in managers, sorted by precedence. If
// several directories contain a file with the same name, the file in the last directory counts. A file also replaces
// the built-in manager with its name, but does not change the order.
//
// New managers come before the built-in managers, and managers from later directories come before managers from earlier
// directories. A missing directory is not an error.
func LoadManagers(dirs []string) (all []Manager, err error) {
	loaded := slices.Clone(builtIn)
	for _, dir := range dirs {
		managers, err := loadDir(dir)
		if err != nil {
			return nil, err
		}
		var added []Manager
		for _, m := range managers {
			if i := slices.IndexFunc(loaded, func(o Manager) bool { return o.Name == m.Name }); i >= 0 {
				loaded[i] = m
			} else {
				added = append(added, m)
			}
		}
		loaded = slices.Concat(added, loaded)
	}
	return append(loaded, last...), nil
}

func loadDir(dir string) (all []Manager, err error) {
	names, err := listTrusted(dir, maxManagerFiles)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasSuffix(name, managerSuffix) {
			continue // for example, an editor's backup file or a disabled file
		}
		file := filepath.Join(dir, name)
		text, _, err := readTrusted(file, maxManagerFile)
		if err != nil {
			return nil, err
		}
		m, err := parseManager(name, file, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, err
}

// parseManager parses a file with lines of the form name = value. The file is named after the
// manager.
func parseManager(base, file, text string) (m Manager, err error) {
	m.Name, m.File = strings.TrimSuffix(base, managerSuffix), file
	if !managerName.MatchString(m.Name) || m.Name == Systemd || m.Name == User {
		return m, fmt.Errorf("%s: %q is an invalid name of a manager: rename the file; a name has lower-case letters, digits, - and _, and is neither %s nor %s", file, m.Name, Systemd, User)
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || value == "" {
			return m, fmt.Errorf("%s:%d: %.80q: must be name = value, or begin with #", file, n, line)
		}
		if err := m.set(name, value); err != nil {
			return m, fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
	if len(m.Paths) == 0 {
		return m, fmt.Errorf("%s: has no path: add a line path = …; to disable the manager, omit it from --units", file)
	}
	m.Unit = cmp.Or(m.Unit, "unit")
	return m, nil
}

func (m *Manager) set(name, value string) error {
	switch name {
	case "unit":
		if m.Unit != "" {
			return errors.New("unit is set twice")
		}
		m.Unit = value
	case "path":
		p, err := parsePattern(value)
		if err == nil && m.File != BuiltIn {
			err = p.check()
		}
		if err != nil {
			return fmt.Errorf("path = %w", err)
		}
		m.Paths = append(m.Paths, p)
	case "uid":
		if !isNumber(value) || value == "0" {
			return fmt.Errorf("uid = %.40q: must be the number of a user other than root, as id -u prints it", value)
		}
		m.UIDs = append(m.UIDs, value)
	case "held":
		if !filepath.IsAbs(value) {
			return fmt.Errorf("held = %.80q: must be an absolute path of a directory", value)
		}
		m.Held = append(m.Held, value)
	default:
		return fmt.Errorf("%.40q is unknown: must be unit, path, uid or held", name)
	}
	return nil
}
