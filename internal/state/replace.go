package state

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// room is the unit of file sizes, in bytes. Files are padded with empty lines to a multiple of room. Thus the next file
// can contain slightly more records even if the file system is full. A reader skips the empty lines.
const room = 64 << 10

// replace writes the records into the next file. Then it exchanges the names of the next file and the current file. The
// next file reuses the space of the file before the current one.
func (d *Dir) replace(records iter.Seq[any]) error {
	next, err := d.create()
	if err != nil {
		return err
	}
	err = d.write(next, records)
	if err == nil {
		err = fill(next)
	}
	if err := errors.Join(err, next.Close()); err != nil {
		return err
	}
	return d.exchange()
}

// create opens the next file for writing without releasing its space. If a link, a pipe or a directory has the name of
// this file, create fails and removes nothing.
func (d *Dir) create() (*os.File, error) {
	info, err := d.root.Lstat(nextFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file but %v: remove it", filepath.Join(d.path, nextFile), info.Mode())
	case private(info):
		return d.root.OpenFile(nextFile, os.O_WRONLY|unix.O_NONBLOCK, 0)
	default:
		if err := d.root.Remove(nextFile); err != nil {
			return nil, err
		}
	}
	return d.root.OpenFile(nextFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// A file is private if it belongs to this user, other users cannot access it, and it has no other hard link.
func private(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 1 && int(stat.Uid) == os.Geteuid() && info.Mode().Perm() == 0o600
}

// fill pads a file with empty lines. They replace older content after the last record. If the file system is full, the
// file has no padding.
func fill(file *os.File) error {
	end, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	whole := (end + room - 1) / room * room
	if _, err := file.Write(bytes.Repeat([]byte{'\n'}, int(whole-end))); err != nil {
		whole = end
	}
	return file.Truncate(whole)
}

// If the file system cannot exchange names, the next file replaces the current file.
func (d *Dir) exchange() error {
	if info, err := d.root.Lstat(ledgerFile); err == nil && info.Mode().IsRegular() && d.swap() == nil {
		return nil
	}
	return d.root.Rename(nextFile, ledgerFile)
}

func (d *Dir) swap() error {
	dir, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	fd := int(dir.Fd())
	return unix.Renameat2(fd, nextFile, fd, ledgerFile, unix.RENAME_EXCHANGE)
}

// shortWriter returns an error without writing if a line or the whole file is too long for Load. Each call must write
// one line.
type shortWriter struct {
	io.Writer
	left int
}

func (w *shortWriter) Write(line []byte) (int, error) {
	if len(line) > maxRecord {
		return 0, fmt.Errorf("a record of %d bytes: %w", len(line), ErrOversized)
	}
	if w.left -= len(line); w.left < 0 {
		return 0, fmt.Errorf("more than %d bytes; lower --collector.process.max: %w", maxFile, ErrOversized)
	}
	return w.Writer.Write(line)
}

func (d *Dir) write(w io.Writer, records iter.Seq[any]) error {
	buffer := bufio.NewWriter(w)
	lines := json.NewEncoder(&shortWriter{Writer: buffer, left: maxFile})
	if err := lines.Encode(header{Version: version, BootID: d.boot}); err != nil {
		return err
	}
	n := 0
	for r := range records {
		if err := lines.Encode(r); err != nil {
			return err
		}
		n++
	}
	if err := lines.Encode(footer{Records: &n}); err != nil {
		return err
	}
	return buffer.Flush()
}
