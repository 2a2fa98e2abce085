// Package deadfs mounts file systems that never respond, like a network file system whose server is down.
package deadfs

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Mount mounts a FUSE file system over a directory. No program responds to its requests, so every call on it waits
// until the file system is unmounted. revive unmounts it, and so does the end of the test. Mount skips the test if
// mounting is not permitted.
func Mount(t testing.TB, dir string) (revive func()) {
	t.Helper()
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("file systems in user space are not available: %v", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", device.Fd(), os.Getuid(), os.Getgid())
	if err := unix.Mount("dead", dir, "fuse", unix.MS_NODEV|unix.MS_NOSUID, options); err != nil {
		_ = device.Close()
		t.Skipf("mounting requires root: %v", err)
	}
	mounted := true
	revive = func() {
		if mounted {
			mounted = false
			_ = unix.Unmount(dir, unix.MNT_DETACH)
			_ = device.Close() // this ends the waiting calls
		}
	}
	t.Cleanup(revive)
	return revive
}
