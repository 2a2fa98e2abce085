package files_test

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Even without a umask, other users must not be able to read the archive.
func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "archive")
	hours, err := files.Open(dir, files.Formats())
	check(t, err)
	defer hours.Close()
	events, err := files.OpenEvents(dir, files.Formats())
	check(t, err)
	defer events.Close()
	check(t, hours.Replace(t.Context(), sinktest.Hour(noon, 7)))
	for i := range 2 {
		check(t, events.Append(t.Context(), table.Events, changes(i, 1)))
	}
	found := 0
	check(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		want := fs.FileMode(0o640)
		if entry.IsDir() {
			want = 0o750
		}
		if found++; err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has the mode %o, want %o", path, info.Mode().Perm(), want)
		}
		return err
	}))
	if found < 20 {
		t.Errorf("%d files and folders", found)
	}
}
