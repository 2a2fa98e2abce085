package files

import (
	"bytes"
	"context"
	"io"
)

// storage is a folder or bucket with files. The tag of a file identifies its content. A missing file has an empty tag.
type storage interface {
	// open returns the content and the tag of a file. The content is nil if the file is missing, or if its tag equals
	// known.
	open(ctx context.Context, name, known string) (content, string, error)
	// list calls the function each for the files and folders in a folder. A deep list contains all files below the
	// folder, but no folders. A missing folder is empty.
	list(ctx context.Context, of listing, each func(info)) error
	// write replaces a file atomically, and returns its new tag. If the present tag of the file differs from tag, it
	// returns errChanged.
	write(ctx context.Context, name string, data []byte, tag string) (string, error)
	// remove accepts a missing file.
	remove(ctx context.Context, name string) error
	Close() error
}

type listing struct {
	folder string
	deep   bool
}

type info struct {
	name   string // name, including its folder
	size   int64
	folder bool
}

type content interface {
	io.Reader
	io.ReaderAt
	io.Closer
	Size() (int64, error)
}

type object struct{ *bytes.Reader }

func (o object) Size() (int64, error) { return o.Reader.Size(), nil }

func (o object) Close() error { return nil }

// find returns the folders in a folder if folders is set, and the files otherwise.
func find(ctx context.Context, s storage, name string, folders bool) (all []info, err error) {
	err = s.list(ctx, listing{folder: name}, func(found info) {
		if found.folder == folders {
			all = append(all, found)
		}
	})
	return all, err
}
