// Package state keeps the ledger's file in a directory that has the life of the
// node's boot, such as a tmpfs. It survives a killed process and a replaced pod, and
// is worth nothing after a reboot.
//
// The file has a JSON document on each line: a header, the records, and their number.
// So no more of it than one record is in memory while it is written.
//
// A file is replaced by write and rename without fsync: it only has to survive
// the process, and the page cache does that.
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

// version is the format of the records that are written. Files of the oldest version and
// later ones are read.
const (
	version = 3
	oldest  = 2
)

// ErrLocked is returned by Open while another process holds the directory.
var ErrLocked = errors.New("locked by another gpuledger on this node")

// ErrGone is wrapped by the error of Save if the directory is not the one that was
// opened: somebody removed or replaced it, and the lock on it is worth nothing. The
// caller closes it and opens it anew.
var ErrGone = errors.New("the state directory was removed or replaced")

// ErrStale is wrapped by the error of Save if an older file could not even be
// removed. A restart would continue from it, so nothing newer may be shown.
var ErrStale = errors.New("an older state is still there")

// ErrUnusable is wrapped by the errors of Load for a file that is there, but
// cannot be continued: corrupt, or of another boot or version.
var ErrUnusable = errors.New("unusable")

// ErrOversized is wrapped by the errors of Load and Save for a file or a record that exceeds
// its limit.
var ErrOversized = errors.New("longer than its limit")

// A Dir is a locked state directory. Only one process holds it at a time.
type Dir struct {
	path string
	boot string
	root *os.Root
	lock *os.File
}

// header is the first line of the file.
type header struct {
	Version int    `json:"version"`
	BootID  string `json:"boot_id"`
}

// Bounds in bytes. The first two are more than any header and any record take. The state of
// a thousand processes takes half a MiB; a file of the last size is read in half of the
// container's memory limit.
const (
	maxHeader = 4 << 10
	maxRecord = 256 << 10
	maxFile   = 32 << 20
)

// The files in the directory.
const (
	ledgerFile = "ledger.json"
	nextFile   = "ledger.json.new"
	lockFile   = "lock"
)

// footer is the last line. A file without it was cut off.
type footer struct {
	Records *int `json:"records"`
}

// Open creates the directory if needed and locks it. The boot id is
// /proc/sys/kernel/random/boot_id; files of another boot are never loaded. It refuses a
// directory in which other users could place a file of false books.
func Open(path, bootID string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("open state directory: %w (--state.path names another one)", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w (--state.path names another one)", err)
	}
	lock, err := lockRoot(root)
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return &Dir{path: path, boot: bootID, root: root, lock: lock}, nil
}

// lockRoot locks a directory that is safe to use.
func lockRoot(root *os.Root) (*os.File, error) {
	if err := checkOwner(root); err != nil {
		return nil, err
	}
	lock, err := root.OpenFile(lockFile, os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open state directory %s: %w (--state.path names another one)", root.Name(), err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("open state directory %s: %w", root.Name(), ErrLocked)
		}
		return nil, fmt.Errorf("lock state directory %s: %w", root.Name(), err)
	}
	return lock, nil
}

// checkOwner returns an error for a directory that other users can write to: it must be
// owned by this user or root, and writable by no more than this process's group or root's.
func checkOwner(root *os.Root) error {
	info, err := root.Stat(".")
	if err != nil {
		return fmt.Errorf("open state directory %s: %w", root.Name(), err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("open state directory %s: owner is unknown", root.Name())
	}
	uid, gid, mode := os.Geteuid(), os.Getegid(), info.Mode().Perm()
	if stat.Uid != 0 && int(stat.Uid) != uid {
		return fmt.Errorf("open state directory %s: it belongs to uid %d, and must belong to uid %d or 0: change its owner or remove it, or set --state.path to another one",
			root.Name(), stat.Uid, uid)
	}
	ownGroup := stat.Gid == 0 || int(stat.Gid) == gid
	if mode&0o002 != 0 || mode&0o020 != 0 && !ownGroup {
		return fmt.Errorf("open state directory %s: other users can write to it (mode %04o): run chmod go-w on it, or set --state.path to a new directory, such as %s",
			root.Name(), mode, filepath.Join(root.Name(), "gpuledger"))
	}
	return nil
}

// Close gives the directory free for another process.
func (d *Dir) Close() error { return errors.Join(d.lock.Close(), d.root.Close()) }

func (d *Dir) file() string { return filepath.Join(d.path, ledgerFile) }

// Load hands the records that were last saved in this boot to add, in their order, with the
// version of the file.
// Without a file it returns an error that is fs.ErrNotExist, for one that cannot be
// continued ErrUnusable; an error of add is one, too. After any error what was added
// is worth nothing.
func (d *Dir) Load(add func(version int, record json.RawMessage) error) error {
	// Opening a named pipe must not wait for its writer.
	file, err := d.root.OpenFile(ledgerFile, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("load state: %w", err)
	}
	defer file.Close()
	err = checkFile(file)
	if err == nil {
		err = d.read(file, add)
	}
	if err != nil {
		return fmt.Errorf("load state %s: %w: %w", d.file(), ErrUnusable, err)
	}
	return nil
}

// checkFile returns an error for what is not worth reading.
func checkFile(file *os.File) error {
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("not a regular file but %v", info.Mode())
	case info.Size() > maxFile:
		return fmt.Errorf("%d bytes, at most %d are read: %w", info.Size(), maxFile, ErrOversized)
	}
	return nil
}

// shortReader fails instead of reading more than left bytes.
type shortReader struct {
	io.Reader
	left int
}

func (r *shortReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, fmt.Errorf("more than %d bytes: %w", maxRecord, ErrOversized)
	}
	n, err := r.Reader.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

func (d *Dir) read(file io.Reader, add func(int, json.RawMessage) error) error {
	buffer := bufio.NewReaderSize(file, maxHeader)
	first, err := buffer.ReadSlice('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read header of at most %d bytes: %w", maxHeader, err)
	}
	var h header
	if err := json.NewDecoder(bytes.NewReader(first)).Decode(&h); err != nil {
		return fmt.Errorf("read header: %w", err)
	}
	switch {
	case h.Version < oldest || h.Version > version:
		return fmt.Errorf("version %d, this program reads %d to %d", h.Version, oldest, version)
	case h.BootID != d.boot:
		return errors.New("written in another boot")
	}
	short := &shortReader{Reader: io.LimitReader(buffer, maxFile)}
	lines := json.NewDecoder(short)
	var last json.RawMessage
	for n := 0; ; n++ {
		var line json.RawMessage
		short.left = maxRecord
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			return checkEnd(last, n-1)
		case err != nil:
			return fmt.Errorf("read record %d: %w", n, err)
		}
		if n > 0 {
			if err := add(h.Version, last); err != nil {
				return fmt.Errorf("read record %d: %w", n-1, err)
			}
		}
		last = line
	}
}

// checkEnd tells whether a file ends with the number of its records.
func checkEnd(line json.RawMessage, records int) error {
	var f footer
	if err := json.Unmarshal(line, &f); err != nil || f.Records == nil {
		return errors.New("the file was cut off")
	}
	if *f.Records != records {
		return fmt.Errorf("%d records of %d", records, *f.Records)
	}
	return nil
}

// Save replaces the file by one of the given records, which are written one by one. If
// that is not possible the old one is removed: what it says is no longer what was
// shown, and counters must not fall back to it. Without an error, or with one that is
// neither ErrStale nor ErrGone, the caller may show what it saved.
func (d *Dir) Save(records iter.Seq[any]) error {
	if !d.ours() {
		return fmt.Errorf("save state: %w", ErrGone)
	}
	err := d.replace(records)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("save state: %w", err)
	if rm := d.root.Remove(ledgerFile); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
		return fmt.Errorf("%w; %w: %w", err, ErrStale, rm)
	}
	return err
}

// ours reports whether the locked file is still the one at its path.
func (d *Dir) ours() bool {
	locked, err := d.lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(filepath.Join(d.path, lockFile))
	return err == nil && os.SameFile(locked, there)
}

func (d *Dir) replace(records iter.Seq[any]) error {
	next, err := d.create()
	if err != nil {
		return err
	}
	err = d.write(next, records)
	if err := errors.Join(err, next.Close()); err != nil {
		return err
	}
	return d.root.Rename(nextFile, ledgerFile)
}

// create makes the next file. One that a killed program left behind is removed; a link,
// pipe or folder in its place is not ours, and stays.
func (d *Dir) create() (*os.File, error) {
	info, err := d.root.Lstat(nextFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file but %v: remove it", filepath.Join(d.path, nextFile), info.Mode())
	default:
		if err := d.root.Remove(nextFile); err != nil {
			return nil, err
		}
	}
	return d.root.OpenFile(nextFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// shortWriter fails instead of writing a line, or a file, that would not be read again.
// It gets a line at each call.
type shortWriter struct {
	io.Writer
	left int
}

func (w *shortWriter) Write(line []byte) (int, error) {
	if len(line) > maxRecord {
		return 0, fmt.Errorf("a record of %d bytes: %w", len(line), ErrOversized)
	}
	if w.left -= len(line); w.left < 0 {
		return 0, fmt.Errorf("more than %d bytes, lower --collector.process.max: %w", maxFile, ErrOversized)
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
