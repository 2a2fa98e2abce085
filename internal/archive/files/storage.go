package files

import (
	"bytes"
	"context"
	"io"
)

// storage is a folder or bucket with files. The tag of a file identifies its content. It is empty if there is no file.
type storage interface {
	// open returns the content and the tag of a file. The content is nil if the file is missing, or if its tag is still
	// the known one.
	open(ctx context.Context, name, known string) (content, string, error)
	// list calls the function each for the files and folders in a folder. A deep list contains all files below the
	// folder, but no folders. A missing folder is empty.
	list(ctx context.Context, of listing, each func(info)) error
	// write replaces a file atomically, and returns its new tag. If the file no longer has the given tag, the error is
	// errChanged.
	write(ctx context.Context, name string, data []byte, tag string) (string, error)
	// remove removes a file, if it exists.
	remove(ctx context.Context, name string) error
	Close() error
}

// listing describes which files are listed.
type listing struct {
	folder string
	deep   bool
}

// info describes a file or folder in a list.
type info struct {
	name   string // name, including its folder
	size   int64
	folder bool
}

// content provides the content of a file and its size in bytes.
type content interface {
	io.Reader
	io.ReaderAt
	io.Closer
	Size() (int64, error)
}

// object is the content of a file in memory.
type object struct{ *bytes.Reader }

// Size returns the size of the object.
func (o object) Size() (int64, error) { return o.Reader.Size(), nil }

// Close does nothing.
func (o object) Close() error { return nil }

// find returns either the files or the folders in a folder.
func find(ctx context.Context, s storage, name string, folders bool) (all []info, err error) {
	err = s.list(ctx, listing{folder: name}, func(found info) {
		if found.folder == folders {
			all = append(all, found)
		}
	})
	return all, err
}
