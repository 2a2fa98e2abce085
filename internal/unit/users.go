package unit

import (
	"fmt"
	"slices"
	"strings"
)

// Users selects the data about users that pages show. It can be used with [flag.TextVar].
type Users int

// These are the possible selections.
const (
	UsersUID  Users = iota // only uids
	UsersName              // uids and names
	UsersNone              // neither uids nor names; processes in users' sessions belong to the host
)

var users = []string{"uid", "name", "none"}

// MarshalText implements [encoding.TextMarshaler].
func (u Users) MarshalText() ([]byte, error) { return []byte(users[u]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (u *Users) UnmarshalText(text []byte) error {
	i := slices.Index(users, string(text))
	if i < 0 {
		return fmt.Errorf("%q: must be one of %q", text, users)
	}
	*u = Users(i)
	return nil
}

// maxPasswd is the maximum size of the file with users, in bytes.
const maxPasswd = 4 << 20

// readUsers returns the names of users by uid. It reads a file such as /etc/passwd, which does not
// contain users of a directory service.
func readUsers(path string) (map[string]string, error) {
	data, _, err := readTrusted(path, maxPasswd)
	if err != nil {
		return nil, err
	}
	names := make(map[string]string)
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(line, ":")
		if len(fields) >= 3 && validName(fields[0]) && isNumber(fields[2]) && names[fields[2]] == "" {
			names[fields[2]] = fields[0]
		}
	}
	return names, nil
}
