package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A Table is a file that contains one JSON document. Unlike the ledger's file, it is valid in every boot.
type Table struct {
	name    string // name of the file, without .json
	content string
	limit   int // maximum size in bytes
}

// The tables in the directory.
var (
	IdlePowers   = Table{"idle-power", "idle powers", 64 << 10}
	Descriptions = Table{"jobs", "descriptions of jobs", 1 << 20}
	// Release contains another process's request to close the driver.
	Release = Table{"release", "the request to release the driver", 4 << 10}
)

func (t Table) file() string { return t.name + ".json" }
func (t Table) next() string { return t.file() + ".new" }
func (t Table) bad() string  { return t.file() + ".bad" } // name of a table that could not be read

// LoadTable decodes a table. If the file is missing, the error is fs.ErrNotExist. If the file cannot be read, or if
// check rejects the table, the error is ErrUnusable. LoadTable renames an unusable file, so that the next table does
// not replace it.
func (d *Dir) LoadTable(t Table, table any, check func() error) error {
	err := d.readTable(t, table)
	if err == nil {
		err = check()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("load %s: %w", t.content, err)
	}
	path := filepath.Join(d.path, t.file())
	if mv := d.root.Rename(t.file(), t.bad()); mv != nil {
		return fmt.Errorf("load %s %s: %w: %w; cannot rename the file: %w", t.content, path, ErrUnusable, err, mv)
	}
	return fmt.Errorf("load %s %s: %w: %w; the file was renamed to %s", t.content, path, ErrUnusable, err, t.bad())
}

func (d *Dir) readTable(t Table, table any) error {
	// Opening a named pipe must not wait for a writer.
	file, err := d.root.OpenFile(t.file(), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := checkFile(file); err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(file, int64(t.limit)+1))
	switch {
	case err != nil:
		return err
	case len(data) > t.limit:
		return fmt.Errorf("more than %d bytes: %w", t.limit, ErrOversized)
	}
	return json.Unmarshal(data, table)
}

// SaveTable replaces a table by write and rename. If this fails, the old table stays.
func (d *Dir) SaveTable(t Table, table any) error {
	data, err := json.MarshalIndent(table, "", "  ")
	if err == nil && len(data) > t.limit {
		err = fmt.Errorf("more than %d bytes: %w", t.limit, ErrOversized)
	}
	if err == nil {
		err = d.writeTable(t, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("save %s: %w", t.content, err)
	}
	return nil
}

// RemoveTable removes a table. A missing file is not an error.
func (d *Dir) RemoveTable(t Table) error {
	if err := d.root.Remove(t.file()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", t.content, err)
	}
	return nil
}

func (d *Dir) writeTable(t Table, data []byte) error {
	if err := d.root.Remove(t.next()); err != nil && !errors.Is(err, fs.ErrNotExist) { // a killed program may have left this file
		return err
	}
	next, err := d.root.OpenFile(t.next(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = next.Write(data)
	if err = errors.Join(err, next.Close()); err == nil {
		err = d.root.Rename(t.next(), t.file())
	}
	if err != nil {
		_ = d.root.Remove(t.next())
	}
	return err
}
