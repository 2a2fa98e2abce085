package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/archive/permanent"
)

// ErrLocked means that another process has the folder open.
var ErrLocked = errors.New("another gpuledger-archive writes this folder")

// The modes of folders and files, from which the process' umask may remove bits. The archive contains
// names of people and their use of GPUs.
const (
	folderMode = 0o750
	fileMode   = 0o640
)

// folder is a local folder, locked by this process.
type folder struct {
	path string
	lock *os.File
}

// present is the tag of every file in a folder. Tags need not differ, because only this process changes files.
const present = "present"

// Open returns a sink in a local folder, which is created if it is missing, and locked: another
// process cannot open it at the same time. Every table is written in each of the formats.
func Open(path string, names []string) (*Sink, error) { return open(path, names, ".lock") }

// OpenEvents returns a sink in a local folder for [Sink.Append] only. It has a lock of its own, so
// hours can be filed in the folder at the same time.
func OpenEvents(path string, names []string) (*Sink, error) {
	return open(path, names, ".events.lock")
}

func open(path string, names []string, lockName string) (*Sink, error) {
	formats, err := choose(names)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, folderMode); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("lock %s: %w: %w", path, err, ErrLocked)
	}
	return newSink(&folder{path, lock}, formats, false), nil
}

// Close unlocks the folder.
func (f *folder) Close() error { return f.lock.Close() }

func (f *folder) read(_ context.Context, name, _ string) (data []byte, tag string, err error) {
	data, err = os.ReadFile(filepath.Join(f.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	return data, present, err
}

func (f *folder) folders(_ context.Context, name string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(f.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

func (f *folder) files(_ context.Context, name string) (all []info, err error) {
	entries, err := os.ReadDir(filepath.Join(f.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		found, e := entry.Info()
		if err = errors.Join(err, e); e == nil && found.Mode().IsRegular() {
			all = append(all, info{path.Join(name, entry.Name()), found.Size()})
		}
	}
	return all, err
}

// remove also removes the folders of the file that become empty.
func (f *folder) remove(_ context.Context, name string) error {
	if err := os.Remove(filepath.Join(f.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if os.Remove(filepath.Join(f.path, dir)) != nil {
			break // it has other files
		}
	}
	return nil
}

func (f *folder) write(_ context.Context, name string, data []byte, _ string) (string, error) {
	path := filepath.Join(f.path, name)
	dir := filepath.Dir(path)
	err := os.MkdirAll(dir, folderMode)
	if err == nil {
		err = create(path+".next", data)
	}
	if err != nil {
		return "", permanent.If(permanent.Path(err), err)
	}
	if err := os.Rename(path+".next", path); err != nil {
		return "", err
	}
	return present, sync(dir)
}

// create writes a durable file.
func create(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// sync makes a rename durable.
func sync(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
