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

// The archive contains the names of people and their use of GPUs. With these modes, other users have no access to its
// folders and files. The umask may remove further permissions.
const (
	folderMode = 0o750
	fileMode   = 0o640
)

// folder is a local folder that this process has locked.
type folder struct {
	path string
	lock *os.File
}

// present is the tag of every existing file. Files need no other tags, because only this process changes the folder.
const present = "present"

// Open returns a sink in a local folder. It creates a missing folder, and locks the folder against other processes. The
// sink writes every table in each of the formats in names.
func Open(path string, names []string) (*Sink, error) { return open(path, names, ".lock") }

// OpenEvents returns a sink that is used only for [Sink.Append]. It has its own lock. Another sink can therefore write
// hours to the folder at the same time.
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

func (f *folder) Close() error { return f.lock.Close() }

func (f *folder) open(_ context.Context, name, _ string) (content, string, error) {
	file, err := os.Open(filepath.Join(f.path, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	}
	return localFile{file}, present, nil
}

type localFile struct{ *os.File }

func (f localFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *folder) list(ctx context.Context, of listing, each func(info)) error {
	all, err := f.entries(of.folder)
	if err != nil {
		return err
	}
	for _, entry := range all {
		if !of.deep || !entry.folder {
			each(entry)
		} else if err := f.list(ctx, listing{entry.name, true}, each); err != nil {
			return err
		}
	}
	return nil
}

// entries follows links.
func (f *folder) entries(name string) (all []info, err error) {
	entries, err := os.ReadDir(filepath.Join(f.path, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range entries {
		below := path.Join(name, entry.Name())
		found, err := os.Stat(filepath.Join(f.path, below))
		switch {
		case errors.Is(err, fs.ErrNotExist): // another process has removed the file
		case err != nil:
			return nil, err
		case found.IsDir() || found.Mode().IsRegular():
			all = append(all, info{below, found.Size(), found.IsDir()})
		}
	}
	return all, nil
}

// remove also removes folders that are then empty.
func (f *folder) remove(_ context.Context, name string) error {
	if err := os.Remove(filepath.Join(f.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if os.Remove(filepath.Join(f.path, dir)) != nil {
			break // the folder contains other files
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

// create flushes the file to disk.
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

// sync makes a rename in a folder durable.
func sync(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
