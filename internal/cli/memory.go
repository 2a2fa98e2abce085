package cli

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// reserve is the least memory of a program outside Go's limit, in bytes: its code, and the C library, the
// driver's library and their data.
const reserve = 28 << 20

// LimitMemory makes Go collect garbage more often before the program reaches the memory limit of
// its cgroup, so that the kernel does not kill it. Go's limit is lower by an eighth, and at least
// by the reserve. $GOMEMLIMIT sets another one.
func LimitMemory() {
	limit := GroupLimit(procfs.DefaultMountPoint, "/sys/fs/cgroup")
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(max(limit-max(limit/8, reserve), limit/2))
	}
}

// MemoryLimit returns the memory limit of the program in bytes, or 0 for none. It is the lowest of
// $GOMEMLIMIT and the limits of the program's cgroup and its parents.
func MemoryLimit() int64 {
	limit := GroupLimit(procfs.DefaultMountPoint, "/sys/fs/cgroup")
	if soft := debug.SetMemoryLimit(-1); soft < math.MaxInt64 && (limit == 0 || soft < limit) {
		return soft
	}
	return limit
}

// GroupLimit returns the lowest memory limit of the program's cgroups, or 0 for none. It reads them
// in mounts of procfs and of cgroups. In a container the parents of its own cgroup are not mounted.
func GroupLimit(proc, mount string) (limit int64) {
	groups, err := cgroups(proc)
	if err != nil {
		return 0
	}
	for _, g := range groups {
		dir, file := mount, "memory.max"
		switch {
		case g.HierarchyID == 0: // version 2
		case slices.Contains(g.Controllers, "memory"):
			dir, file = filepath.Join(mount, "memory"), "memory.limit_in_bytes"
		default:
			continue
		}
		for group := path.Clean("/" + g.Path); ; group = path.Dir(group) {
			if found := readLimit(filepath.Join(dir, group, file)); found > 0 && (limit == 0 || found < limit) {
				limit = found
			}
			if group == "/" {
				break
			}
		}
	}
	return limit
}

// cgroups returns the program's cgroups in a mount of procfs.
func cgroups(proc string) ([]procfs.Cgroup, error) {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return nil, err
	}
	self, err := fs.Self()
	if err != nil {
		return nil, err
	}
	return self.Cgroups()
}

// unlimited is the size at which a limit counts as none: without a limit, version 1 of cgroups
// shows a number near 2^63.
const unlimited = 1 << 60

// readLimit returns a limit, or 0 for none.
func readLimit(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n >= unlimited {
		return 0 // "max"
	}
	return n
}
