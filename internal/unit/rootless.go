package unit

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/proc"
)

// maxRootlessFile is the maximum size in bytes of a user's file with names. It is enough for about 500 containers.
const maxRootlessFile = 64 << 10

// containerName matches valid names of containers in Docker and Podman. It excludes @.
var containerName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`)

// key returns the key of a container in the maps of a Mapper. It includes the user, because users can choose the names
// of cgroups below their own slice. Otherwise a user could copy the id of another container.
func (m match) key() string {
	if m.account == "" {
		return m.id
	}
	return m.account + "/" + m.id
}

func idOf(key string) string { return key[strings.LastIndex(key, "/")+1:] }

// qualify returns the name of the unit for a container. For a user's container, the name ends with the user. Otherwise
// two users' containers with the same name would become one unit. If pages must not contain data about users, the name
// is the id.
func (m *Mapper) qualify(c match, name string) string {
	if c.account == "" || m.cfg.Users == UsersNone {
		return name
	}
	return name + "@" + c.account
}

func (m *Mapper) newRootless(found live) map[string][]match {
	users := make(map[string][]match)
	for u := range found.units {
		if _, known := m.containers[u.key()]; !known && u.account != "" && m.enabled(u.manager) {
			users[u.account] = append(users[u.account], u)
		}
	}
	return users
}

// readRootless returns the containers of users by key. For each user, it reads the file <dir>/<uid>, which a helper
// program of the user writes. Only this file can name the user's containers. A missing or invalid file is not an error,
// so a user cannot cause an alert.
func (m *Mapper) readRootless(users map[string][]match) map[string]container {
	all := make(map[string]container)
	if m.cfg.RootlessDir == "" || m.cfg.Users == UsersNone {
		return all
	}
	for account, units := range users {
		uid, err := strconv.Atoi(account)
		if err != nil {
			continue
		}
		data, err := readOwned(filepath.Join(m.cfg.RootlessDir, account), maxRootlessFile, uid)
		if err != nil {
			continue
		}
		names := parseRootless(string(data))
		for _, u := range units {
			if c, ok := names[u.id]; ok {
				c.manager, c.name = u.manager, m.qualify(u, c.name)
				all[u.key()] = c.checked()
			}
		}
	}
	return all
}

// parseRootless parses lines with an id, comma-separated names, and an image. If several lines have the same id, the
// first line counts. An incomplete last line is ignored, because the helper is still writing it.
func parseRootless(text string) map[string]container {
	all := make(map[string]container)
	for line := range strings.Lines(text) {
		line, complete := strings.CutSuffix(line, "\n")
		id, rest, _ := strings.Cut(line, " ")
		names, image, _ := strings.Cut(rest, " ")
		name, _, _ := strings.Cut(names, ",")
		if _, known := all[id]; complete && !known && proc.IsContainerID(id) && containerName.MatchString(name) {
			all[id] = container{name: name, image: image}
		}
	}
	return all
}
