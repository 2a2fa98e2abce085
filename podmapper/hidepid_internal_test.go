package podmapper

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/proc"
)

func TestHidingOf(t *testing.T) {
	const root = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
	mount := func(options string) string {
		return root + "24 22 0:22 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc " + options + "\n"
	}
	tests := []struct {
		name, mounts, want string
		group              int
	}{
		{"none", mount("rw"), "", 0},
		{"off", mount("rw,hidepid=off"), "", 0},
		{"by number", mount("rw,gid=987,hidepid=2"), "invisible", 987},
		{"by name", mount("rw,hidepid=invisible,gid=987"), "invisible", 987},
		{"without a group", mount("rw,hidepid=1"), "noaccess", 0},
		{"ptraceable", mount("rw,hidepid=4,gid=987"), "ptraceable", 987},
		{"mounted again", mount("rw,hidepid=2") + mount("rw"), "", 0},
		{"elsewhere", root + "24 22 0:22 / /srv/proc rw - proc proc rw,hidepid=2\n", "", 0},
		{"garbage", "24\n- - -\n", "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, group := hidingOf(tt.mounts, "/proc"); got != tt.want || group != tt.group {
				t.Errorf("hidingOf = %q, %d, want %q, %d", got, group, tt.want, tt.group)
			}
		})
	}
}

// TestHidden checks that the error contains the group in the mount options. The exporter must belong to this group.
func TestHidden(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "self"), 0o755); err != nil {
		t.Fatal(err)
	}
	line := "24 22 0:22 / " + dir + " rw - proc proc rw,hidepid=invisible,gid=98765\n"
	if err := os.WriteFile(filepath.Join(dir, "self/mountinfo"), []byte(line), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := checkHidden(proc.Tree{Root: dir}, false); err == nil || !strings.Contains(err.Error(), "SupplementaryGroups=98765") {
		t.Errorf("error %v, want one with the group", err)
	}
	if err := checkHidden(proc.Tree{Root: dir}, true); err != nil {
		t.Errorf("error %v for a process that may trace others, want nil", err)
	}
}

func FuzzHidingOf(f *testing.F) {
	f.Add("24 22 0:22 / /proc rw - proc proc rw,hidepid=2,gid=987\n")
	f.Fuzz(func(t *testing.T, mounts string) {
		if hidepid, _ := hidingOf(mounts, "/proc"); hidepid != "" && !strings.Contains(mounts, "hidepid=") {
			t.Errorf("hidepid %q in %q", hidepid, mounts)
		}
	})
}
