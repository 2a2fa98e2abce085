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

	"golang.org/x/sys/unix"
)

// version is the format of the file. A file of another version is not read.
const version = 2

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

// A Dir is a locked state directory. Only one process holds it at a time.
type Dir struct {
	path string
	boot string
	lock *os.File
}

// header is the first line of the file.
type header struct {
	Version int    `json:"version"`
	BootID  string `json:"boot_id"`
}

// maxHeader is more than any header takes, in bytes. What is no file of ours may be of any
// size, and must not be in memory as a whole.
const maxHeader = 4096

// footer is the last line. A file without it was cut off.
type footer struct {
	Records *int `json:"records"`
}

// Open creates the directory if needed and locks it. The boot id is
// /proc/sys/kernel/random/boot_id; files of another boot are never loaded.
func Open(path, bootID string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("open state directory: %w (--state.path names another one)", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w (--state.path names another one)", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("open state directory %s: %w", path, ErrLocked)
		}
		return nil, fmt.Errorf("lock state directory %s: %w", path, err)
	}
	return &Dir{path: path, boot: bootID, lock: lock}, nil
}

// Close gives the directory free for another process.
func (d *Dir) Close() error { return d.lock.Close() }

func (d *Dir) file() string { return filepath.Join(d.path, "ledger.json") }

// Load hands the records that were last saved in this boot to add, in their order.
// Without a file it returns an error that is fs.ErrNotExist, for one that cannot be
// continued ErrUnusable; an error of add is one, too. After any error what was added
// is worth nothing.
func (d *Dir) Load(add func(record json.RawMessage) error) error {
	file, err := os.Open(d.file())
	if err != nil {
		return fmt.Errorf("load state: %w", err)
	}
	defer file.Close()
	if err := d.read(file, add); err != nil {
		return fmt.Errorf("load state %s: %w: %w", d.file(), ErrUnusable, err)
	}
	return nil
}

func (d *Dir) read(file io.Reader, add func(json.RawMessage) error) error {
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
	case h.Version != version:
		return fmt.Errorf("version %d, this program writes %d", h.Version, version)
	case h.BootID != d.boot:
		return errors.New("written in another boot")
	}
	lines := json.NewDecoder(buffer)
	var last json.RawMessage
	for n := 0; ; n++ {
		var line json.RawMessage
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			return checkEnd(last, n-1)
		case err != nil:
			return fmt.Errorf("read record %d: %w", n, err)
		}
		if n > 0 {
			if err := add(last); err != nil {
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
	if rm := os.Remove(d.file()); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
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
	there, err := os.Stat(filepath.Join(d.path, "lock"))
	return err == nil && os.SameFile(locked, there)
}

func (d *Dir) replace(records iter.Seq[any]) error {
	next, err := os.OpenFile(d.file()+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = d.write(next, records)
	if err := errors.Join(err, next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), d.file())
}

func (d *Dir) write(w io.Writer, records iter.Seq[any]) error {
	buffer := bufio.NewWriter(w)
	lines := json.NewEncoder(buffer)
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
