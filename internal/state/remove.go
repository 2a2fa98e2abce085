package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Remove removes a directory that Open made, with the files that this package wrote
// into it. Without such a directory it does nothing. The error wraps [ErrLocked] while
// another process holds the directory; a file of somebody else stays, and the
// directory with it.
func Remove(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	d, err := Open(path, "")
	if err != nil {
		return err
	}
	defer d.Close()
	for _, file := range []string{ledgerFile, nextFile, lockFile} {
		if err := d.root.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove state: %w", err)
		}
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove state directory: %w", err)
	}
	return nil
}
