package podmapper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/proc"
)

// checkHidden returns an error if the /proc tree hides processes of other users from the exporter. If the exporter may
// trace other processes, no process is hidden from it.
func checkHidden(t proc.Tree, mayTrace bool) error {
	mounts, err := os.ReadFile(filepath.Join(t.Root, "self", "mountinfo"))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) { // without mountinfo, the tree is not a mounted procfs
			return nil
		}
		return fmt.Errorf("read own mounts: %w", err)
	}
	hidepid, group := hidingOf(string(mounts), t.Root)
	if hidepid == "" || mayTrace || hidepid != "ptraceable" && inGroup(group) {
		return nil
	}
	err = fmt.Errorf("%s is mounted with hidepid=%s,gid=%d, so processes of other users are not visible and energy is charged by allocation only", t.Root, hidepid, group)
	if hidepid == "ptraceable" {
		return fmt.Errorf("%w; give the exporter CAP_SYS_PTRACE, or mount /proc with hidepid=invisible", err)
	}
	return fmt.Errorf("%w; run the exporter with the supplementary group %[2]d (systemd: SupplementaryGroups=%[2]d)", err, group)
}

// hidingOf returns the hidepid option of the mount at root, and the group that sees all processes. The option is empty
// if no process is hidden. If there are several mounts at this path, the last mount is used, because it covers the
// others.
func hidingOf(mountinfo, root string) (hidepid string, group int) {
	for line := range strings.Lines(mountinfo) {
		place, fstype, _ := strings.Cut(line, " - ") // proc_pid_mountinfo(5)
		left, right := strings.Fields(place), strings.Fields(fstype)
		if len(left) < 5 || len(right) < 3 || left[4] != root || right[0] != "proc" {
			continue
		}
		hidepid, group = "", 0
		for option := range strings.SplitSeq(right[2], ",") {
			switch name, value, _ := strings.Cut(option, "="); name {
			case "hidepid":
				hidepid = hiding(value)
			case "gid":
				group, _ = strconv.Atoi(value)
			}
		}
	}
	return hidepid, group
}

// hiding returns the name of a hidepid value, or "" if the value hides no processes. Kernels before 5.8 use numbers.
func hiding(value string) string {
	switch value {
	case "0", "off":
		return ""
	case "1":
		return "noaccess"
	case "2":
		return "invisible"
	case "4":
		return "ptraceable"
	}
	return value
}

func inGroup(group int) bool {
	groups, err := os.Getgroups()
	return os.Getegid() == group || err == nil && slices.Contains(groups, group)
}

// mayTrace reports whether this process has CAP_SYS_PTRACE. In this case /proc hides no processes.
func mayTrace() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}
