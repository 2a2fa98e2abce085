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

// The table of measured idle powers. It is valid in every boot, unlike the ledger's file.
const (
	tableFile = "idle-power.json"
	tableNext = "idle-power.json.new"
	tableBad  = "idle-power.json.bad" // a table that could not be read

	maxTable = 64 << 10
)

// LoadTable decodes the table of idle powers. A missing file is fs.ErrNotExist. A file that cannot be
// read or that check rejects is ErrUnusable; it is renamed, so that the next table does not replace it.
func (d *Dir) LoadTable(table any, check func() error) error {
	err := d.readTable(table)
	if err == nil {
		err = check()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("load idle powers: %w", err)
	}
	path := filepath.Join(d.path, tableFile)
	if mv := d.root.Rename(tableFile, tableBad); mv != nil {
		return fmt.Errorf("load idle powers %s: %w: %w; keep the file: %w", path, ErrUnusable, err, mv)
	}
	return fmt.Errorf("load idle powers %s: %w: %w; the file is now %s", path, ErrUnusable, err, tableBad)
}

func (d *Dir) readTable(table any) error {
	// Opening a named pipe must not wait for its writer.
	file, err := d.root.OpenFile(tableFile, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := checkFile(file); err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxTable+1))
	switch {
	case err != nil:
		return err
	case len(data) > maxTable:
		return fmt.Errorf("more than %d bytes: %w", maxTable, ErrOversized)
	}
	return json.Unmarshal(data, table)
}

// SaveTable replaces the table of idle powers, by write and rename. If that fails, the old table
// remains.
func (d *Dir) SaveTable(table any) error {
	data, err := json.MarshalIndent(table, "", "  ")
	if err == nil && len(data) > maxTable {
		err = fmt.Errorf("more than %d bytes: %w", maxTable, ErrOversized)
	}
	if err == nil {
		err = d.writeTable(append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("save idle powers: %w", err)
	}
	return nil
}

func (d *Dir) writeTable(data []byte) error {
	if err := d.root.Remove(tableNext); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a killed program
		return err
	}
	next, err := d.root.OpenFile(tableNext, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = next.Write(data)
	if err = errors.Join(err, next.Close()); err == nil {
		err = d.root.Rename(tableNext, tableFile)
	}
	if err != nil {
		_ = d.root.Remove(tableNext)
	}
	return err
}
