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
	"sync"

	"github.com/prometheus/procfs"
)

// At least this memory, in bytes, remains outside Go's limit. The program needs it for its code, the C library, the
// driver's library and their data.
const reserve = 28 << 20

// LimitMemory makes Go collect garbage more often before the memory reaches the limit of the program's cgroup.
// Otherwise the kernel could kill the program. Go's limit is lower than the cgroup's limit by an eighth, but at least
// by reserve. $GOMEMLIMIT overrides Go's limit.
func LimitMemory() {
	limit := groupLimit()
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(max(limit-max(limit/8, reserve), limit/2))
	}
}

// MemoryLimit returns the program's memory limit in bytes. It returns 0 if there is no limit. The result is the lowest
// of these limits: $GOMEMLIMIT, the limit of the program's cgroup, and the limits of the cgroup's parents.
func MemoryLimit() int64 {
	limit := groupLimit()
	if soft := debug.SetMemoryLimit(-1); soft < math.MaxInt64 && (limit == 0 || soft < limit) {
		return soft
	}
	return limit
}

// The limit of the cgroup is read only once, because the archive uses it for every response of the store.
var groupLimit = sync.OnceValue(func() int64 { return GroupLimit(procfs.DefaultMountPoint, "/sys/fs/cgroup") })

// GroupLimit returns the lowest memory limit of the program's cgroups and their parents, in bytes. It returns 0 if
// there is no limit. The arguments are the mount points of procfs and of the cgroup file systems. In a container, the
// parents of the container's cgroup are not mounted. Their limits are therefore unknown.
func GroupLimit(proc, mount string) (limit int64) {
	groups, err := cgroups(proc)
	if err != nil {
		return 0
	}
	for _, g := range groups {
		dir, file := mount, "memory.max"
		switch {
		case g.HierarchyID == 0: // cgroup v2
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

// If there is no limit, cgroup v1 shows a number near 2^63. All numbers from unlimited on mean no limit.
const unlimited = 1 << 60

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
