// Package state stores the ledger's file in a directory that is cleared at boot, such as a tmpfs. The file survives the
// end of a process or a pod. It is invalid after a reboot.
//
// The file contains one JSON document per line: a header, the records, and the number of records. Therefore writing
// needs memory for only one record.
//
// A file is replaced by write and rename without fsync. The page cache suffices, because the file need not survive the
// machine. Two files exchange their names at each save, so the next file has space even if the file system is full.
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

// New files have the record format version. Load reads files from oldest to version.
const (
	version = 3
	oldest  = 2
)

// ErrLocked means that another process holds the directory.
var ErrLocked = errors.New("locked by another gpuledger on this node")

// ErrGone is in the error chain of Save if the directory was removed or replaced. The lock then has no effect, so the
// caller must close the directory and open it again.
var ErrGone = errors.New("the state directory was removed or replaced")

// ErrStale is in the error chain of Save if an older file could not be removed. A restart would continue from this
// file, so newer values must not be published.
var ErrStale = errors.New("an older state file remains")

// ErrUnusable is in the error chain of Load if the file exists but cannot be continued. It is corrupt, from another
// boot, or of an unsupported version. Load keeps a file of a newer version under another name.
var ErrUnusable = errors.New("unusable")

// ErrOversized is in the error chain of Load and Save if a file or a record exceeds its size limit.
var ErrOversized = errors.New("the size exceeds the limit")

// A Dir is a locked state directory. Only one process can hold it at a time.
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

// The state of a thousand processes takes half a MiB. Reading a file of maxFile bytes needs half of the container's
// memory limit. The limits are in bytes.
const (
	maxHeader = 4 << 10
	maxRecord = 256 << 10
	maxFile   = 32 << 20
)

const (
	ledgerFile = "ledger.json"
	nextFile   = "ledger.json.new"
	keptFile   = "ledger.json.newer" // file of a newer version
	lockFile   = "lock"
)

// footer is the last line of the file. A file without a footer was truncated.
type footer struct {
	Records *int `json:"records"`
}

// Open creates the directory if needed and locks it. The boot id comes from /proc/sys/kernel/random/boot_id. Files from
// another boot are never loaded. Open rejects a directory in which other users could place a forged file. It accepts a
// read-only directory only if the directory was used before.
func Open(path, bootID string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("open state directory: %w (set --state.path to another directory)", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w (set --state.path to another directory)", err)
	}
	lock, err := lockRoot(root)
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return &Dir{path: path, boot: bootID, root: root, lock: lock}, nil
}

// Share opens a directory without locking it, to access its tables. It returns an error if the directory is missing, or
// if Open would reject it.
func Share(path string) (*Dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	if err = checkOwner(root); err == nil {
		var lock *os.File
		if lock, err = root.OpenFile(lockFile, os.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
			return &Dir{path: path, root: root, lock: lock}, nil
		}
	}
	_ = root.Close()
	return nil, err
}

// Held reports whether another process has locked a directory from Share.
func (d *Dir) Held() bool {
	if unix.Flock(int(d.lock.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
		return true
	}
	_ = unix.Flock(int(d.lock.Fd()), unix.LOCK_UN)
	return false
}

func lockRoot(root *os.Root) (*os.File, error) {
	if err := checkOwner(root); err != nil {
		return nil, err
	}
	lock, err := root.OpenFile(lockFile, os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK, 0o600)
	if errors.Is(err, unix.EROFS) {
		// A read-only directory is accepted, because its books must continue, even if it becomes writable later.
		if file, missing := root.OpenFile(lockFile, os.O_RDONLY|unix.O_NONBLOCK, 0); missing == nil {
			lock, err = file, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open state directory %s: %w (set --state.path to another directory)", root.Name(), err)
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

// checkOwner requires that the directory belongs to this user or root. Only this user, root, the group of this process
// and root's group may write to it.
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
		return fmt.Errorf("open state directory %s: the directory is owned by uid %d, but must be owned by uid %d or 0: change its owner or remove it, or set --state.path to another directory",
			root.Name(), stat.Uid, uid)
	}
	ownGroup := stat.Gid == 0 || int(stat.Gid) == gid
	if mode&0o002 != 0 || mode&0o020 != 0 && !ownGroup {
		return fmt.Errorf("open state directory %s: other users can write to it (mode %04o): run chmod go-w on this directory, or set --state.path to a new directory, such as %s",
			root.Name(), mode, filepath.Join(root.Name(), "gpuledger"))
	}
	return nil
}

// Close releases the directory.
func (d *Dir) Close() error { return errors.Join(d.lock.Close(), d.root.Close()) }

func (d *Dir) file() string { return filepath.Join(d.path, ledgerFile) }

// Load reads the records that were last saved in this boot. It calls add for each record, in the saved order, with the
// version of the file. If the file is missing, the error is fs.ErrNotExist. If the file cannot be continued, or if add
// returns an error, the error is ErrUnusable. After an error, the caller must discard all records.
func (d *Dir) Load(add func(version int, record json.RawMessage) error) error {
	// Opening a named pipe must not wait for a writer.
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

func checkFile(file *os.File) error {
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("not a regular file but %v", info.Mode())
	case info.Size() > maxFile:
		return fmt.Errorf("the file has %d bytes, but the limit is %d bytes: %w", info.Size(), maxFile, ErrOversized)
	}
	return nil
}

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
	case h.Version > version:
		return d.keep(h.Version)
	case h.Version < oldest:
		return fmt.Errorf("unsupported version %d; this program reads versions %d to %d", h.Version, oldest, version)
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

// keep renames a file of a newer version, because the next save would replace it.
func (d *Dir) keep(newer int) error {
	err := fmt.Errorf("version %d was written by a newer gpuledger; this program reads versions %d to %d", newer, oldest, version)
	if mv := d.root.Rename(ledgerFile, keptFile); mv != nil {
		return fmt.Errorf("%w; cannot rename the file: %w", err, mv)
	}
	return fmt.Errorf("%w; the file was renamed to %s", err, filepath.Join(d.path, keptFile))
}

// The last line of a file must contain the number of its records.
func checkEnd(line json.RawMessage, records int) error {
	var f footer
	if err := json.Unmarshal(line, &f); err != nil || f.Records == nil {
		return errors.New("the file is truncated")
	}
	if *f.Records != records {
		return fmt.Errorf("the file contains %d records, must contain %d", records, *f.Records)
	}
	return nil
}

// Save replaces the file. If this fails, Save removes the old file. Otherwise the counters would return to the old
// values after a restart. If the file system was full, Save then tries again in the space of the old file. The caller
// may publish the new values even after an error, unless the error is ErrStale or ErrGone.
func (d *Dir) Save(records iter.Seq[any]) error {
	if !d.ours() {
		return fmt.Errorf("save state: %w", ErrGone)
	}
	err := d.replace(records)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("save state: %w", err)
	if rm := d.root.Remove(ledgerFile); rm != nil && d.remains() {
		return fmt.Errorf("%w; %w: %w", err, ErrStale, rm)
	}
	if errors.Is(err, unix.ENOSPC) && d.replace(records) == nil {
		return nil
	}
	return err
}

// remains reports whether the old file still exists, so that a restart could continue from it.
func (d *Dir) remains() bool {
	file, err := d.root.OpenFile(ledgerFile, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer file.Close()
	var h header
	err = json.NewDecoder(io.LimitReader(file, maxHeader)).Decode(&h)
	return err != nil || h.BootID == d.boot
}

// ours reports whether the locked file is still at its path. If it is not, the lock has no effect.
func (d *Dir) ours() bool {
	locked, err := d.lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(filepath.Join(d.path, lockFile))
	return err == nil && os.SameFile(locked, there)
}
