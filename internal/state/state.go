// Package state keeps the ledger's file: one JSON document in a directory that
// has the life of the node's boot, such as a tmpfs. It survives a killed process
// and a replaced pod, and is worth nothing after a reboot.
//
// A file is replaced by write and rename without fsync: it only has to survive
// the process, and the page cache does that.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// version is the format of the file. A file of another version is not read.
const version = 1

// ErrLocked is returned by Open while another process holds the directory.
var ErrLocked = errors.New("locked by another gpuledger on this node")

// ErrGone is wrapped by the error of Save if the directory is not the one that was
// opened: somebody removed or replaced it, and the lock on it is worth nothing. The
// caller closes it and opens it anew.
var ErrGone = errors.New("the state directory was removed or replaced")

// ErrUnusable is wrapped by the errors of Load for a file that is there, but
// cannot be continued: corrupt, or of another boot or version.
var ErrUnusable = errors.New("unusable")

// A Dir is a locked state directory. Only one process holds it at a time.
type Dir struct {
	path string
	boot string
	lock *os.File
}

// envelope is what the file holds.
type envelope struct {
	Version int    `json:"version"`
	BootID  string `json:"boot_id"`
	Data    any    `json:"data"`
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

// Load reads what was last saved in this boot into v. Without a file it returns
// an error that is fs.ErrNotExist, for one that cannot be continued ErrUnusable.
// In both cases v must be taken as empty.
func (d *Dir) Load(v any) error {
	data, err := os.ReadFile(d.file())
	if err != nil {
		return fmt.Errorf("load state: %w", err)
	}
	var content json.RawMessage // read once it is known to be ours
	e := envelope{Data: &content}
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("load state %s: %w: %w", d.file(), ErrUnusable, err)
	}
	switch {
	case e.Version != version:
		return fmt.Errorf("load state %s: %w: version %d, this program writes %d", d.file(), ErrUnusable, e.Version, version)
	case e.BootID != d.boot:
		return fmt.Errorf("load state %s: %w: written in another boot", d.file(), ErrUnusable)
	}
	if err := json.Unmarshal(content, v); err != nil {
		return fmt.Errorf("load state %s: %w: %w", d.file(), ErrUnusable, err)
	}
	return nil
}

// Save replaces the file. If that is not possible the old one is removed: what it
// says is no longer what was shown, and counters must not fall back to it.
// Without an error, or with one that is neither ErrStale nor ErrGone, the caller may
// show v.
func (d *Dir) Save(v any) error {
	if !d.ours() {
		return fmt.Errorf("save state: %w", ErrGone)
	}
	err := d.replace(v)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("save state: %w", err)
	if rm := os.Remove(d.file()); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
		return fmt.Errorf("%w; %w: %w", err, ErrStale, rm)
	}
	return err
}

// ErrStale is wrapped by the error of Save if an older file could not even be
// removed. A restart would continue from it, so nothing newer may be shown.
var ErrStale = errors.New("an older state is still there")

// ours reports whether the locked file is still the one at its path.
func (d *Dir) ours() bool {
	locked, err := d.lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(filepath.Join(d.path, "lock"))
	return err == nil && os.SameFile(locked, there)
}

func (d *Dir) replace(v any) error {
	next, err := os.OpenFile(d.file()+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = json.NewEncoder(next).Encode(envelope{Version: version, BootID: d.boot, Data: v})
	if err := errors.Join(err, next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), d.file())
}
