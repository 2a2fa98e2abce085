package cli

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxSecret is the maximum size of a file with secrets, in bytes.
const maxSecret = 1 << 20

// ReadSecret returns the content of a file with a password, tokens or a key. If other users may read or change the
// file, it returns an error.
func ReadSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkMode(path, info.Mode()); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err == nil && len(text) > maxSecret {
		err = fmt.Errorf("%s has more than %d bytes", path, maxSecret)
	}
	return text, err
}

// CheckSecret returns an error if other users may read or change the file of a flag. The error names the flag. A
// missing file is not an error, because a Secret may appear later.
func CheckSecret(flag, path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil // a later read returns the error
	}
	if err := checkMode(path, info.Mode()); err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return nil
}

// checkMode checks the mode of a file. It does not try to open the file, because root may open any file. It checks only
// regular files. Other files store no content that another user could read.
func checkMode(path string, mode fs.FileMode) error {
	rights := "read"
	switch perm := mode.Perm(); {
	case !mode.IsRegular():
		return nil
	case perm&0o022 != 0:
		rights = "change"
	case perm&0o004 == 0, inVolume(path):
		return nil
	}
	return fmt.Errorf("%s has the mode %04o, so other users may %s it: set 0600, or 0640 for a group", path, mode.Perm(), rights)
}

// inVolume reports whether a file is in a Secret volume. There, files have the mode 0644 by default, because a program
// without fsGroup could not read them otherwise. This mode is safe, because only the pod can read the volume. The
// kubelet creates these files as links to a folder such as ..2026_11_01_12_00_00.123456789.
func inVolume(path string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	path, err = filepath.EvalSymlinks(path)
	return err == nil && slices.ContainsFunc(strings.Split(path, string(filepath.Separator)), func(name string) bool {
		return strings.HasPrefix(name, "..2")
	})
}
