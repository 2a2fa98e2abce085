package files

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// OpenBucket opens an archive in a bucket of an S3-compatible store for reading. It needs the rights to list
// the bucket and to read objects. Errors name the flag of the URL.
func OpenBucket(ctx context.Context, c S3, flag string) (*Reader, error) {
	o, err := newObjects(c, flag)
	if err != nil {
		return nil, err
	}
	if err := o.signed(); err != nil {
		return nil, err
	}
	return newReader(ctx, &bucketPlace{objects: o, url: c.URL, filed: make(map[string][]byte)})
}

// bucketPlace is a bucket. Objects are read as a whole: the files of a day are small.
type bucketPlace struct {
	*objects
	url   string
	names []string          // of the files of filed hours, listed once
	filed map[string][]byte // these files, which every question reads again
}

func (b *bucketPlace) name() string { return strings.TrimSuffix(b.url, "/") }

func (b *bucketPlace) hours(ctx context.Context) ([]string, error) {
	if b.names != nil {
		return b.names, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	prefix := path.Join(b.prefix, table.Hours.Name) + "/"
	for object := range b.client.Client.ListObjects(ctx, b.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if object.Err != nil {
			return nil, fmt.Errorf("list %s: %w", b.name(), object.Err)
		}
		name := strings.TrimPrefix(object.Key, prefix)
		if matched, err := path.Match("cluster=*/date=*/"+table.Hours.Name+".*", name); err == nil && matched {
			b.names = append(b.names, name)
		}
	}
	return b.names, nil
}

func (b *bucketPlace) open(ctx context.Context, name string) (content, error) {
	data, known := b.filed[name]
	if !known {
		var tag string
		var err error
		if data, tag, err = b.read(ctx, name, ""); err != nil {
			return nil, fmt.Errorf("read %s/%s: %w", b.name(), name, err)
		}
		if tag == "" {
			return nil, fs.ErrNotExist
		}
		if strings.HasPrefix(name, table.Hours.Name+"/") {
			b.filed[name] = data
		}
	}
	return object{bytes.NewReader(data)}, nil
}

type object struct{ *bytes.Reader }

// Size returns the size of the object.
func (o object) Size() (int64, error) { return o.Reader.Size(), nil }

// Close does nothing.
func (o object) Close() error { return nil }
