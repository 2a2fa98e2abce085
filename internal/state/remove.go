package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Remove removes a directory that Open created, and this package's files in it. A missing directory is not an error. If
// another process holds the directory, the error wraps [ErrLocked]. If the directory contains other files, Remove keeps
// them and the directory, and returns an error.
func Remove(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	d, err := Open(path, "")
	if err != nil {
		return err
	}
	defer d.Close()
	files := []string{ledgerFile, nextFile, keptFile}
	for _, t := range []Table{IdlePowers, Descriptions, Release} {
		files = append(files, t.file(), t.next(), t.bad())
	}
	for _, file := range append(files, lockFile) {
		if err := d.root.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove state: %w", err)
		}
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove state directory: %w", err)
	}
	return nil
}
