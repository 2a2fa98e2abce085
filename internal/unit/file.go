package unit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gpuledger/gpuledger/internal/stage"
)

// openTrusted opens a file or directory that only root and the exporter's user can write. It does not follow a symbolic
// link at the end of the path. It does not wait for a writer if the path is a pipe.
func openTrusted(path string, want os.FileMode) (*os.File, os.FileInfo, error) {
	return open(path, func(info os.FileInfo) error { return trusted(info, want) })
}

func open(path string, check func(os.FileInfo) error) (*os.File, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, nil, fmt.Errorf("%s: must not be a symbolic link", path)
	case err != nil:
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = check(info)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, info, nil
}

func trusted(info os.FileInfo, want os.FileMode) error {
	if info.Mode().Type() != want {
		if want.IsDir() {
			return errors.New("must be a directory")
		}
		return errors.New("must be a regular file")
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("belongs to the user %d, must belong to root", st.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("has the mode %v, must be writable by its owner only", info.Mode().Perm())
	}
	return nil
}

func readTrusted(path string, limit int64) ([]byte, os.FileInfo, error) {
	f, info, err := openTrusted(path, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err := readLimited(f, limit)
	return data, info, err
}

func readOwned(path string, limit int64, uid int) ([]byte, error) {
	f, _, err := open(path, func(info os.FileInfo) error {
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != uid || !info.Mode().IsRegular() {
			return fmt.Errorf("must be a regular file of the user %d", uid)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readLimited(f, limit)
}

func readLimited(f *os.File, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: more than %d bytes: %w", f.Name(), limit, stage.ErrOversized)
	}
	return data, err
}

func listTrusted(path string, limit int) ([]string, error) {
	f, _, err := openTrusted(path, os.ModeDir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(limit + 1)
	switch {
	case err != nil && err != io.EOF: //nolint:errorlint // as documented for Readdirnames
		return nil, fmt.Errorf("list %s: %w", filepath.Clean(path), err)
	case len(names) > limit:
		return nil, fmt.Errorf("%s: more than %d files: %w", path, limit, stage.ErrOversized)
	}
	return names, nil
}
