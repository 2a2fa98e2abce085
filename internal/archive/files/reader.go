package files

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Reader reads the files of an archive. It needs no lock, because writers replace files atomically.
type Reader struct {
	storage storage
	place   string // folder or bucket, for errors
	format  format
}

// Day is a day of a cluster, in UTC.
type Day struct {
	Cluster string
	Date    time.Time
}

// File is the file with the rows of a table for one day.
type File struct {
	Table table.Table
	Day
}

// Of returns the file of a table.
func (d Day) Of(t table.Table) File { return File{t, d} }

// OpenReader opens an archive in a local folder for reading. If the folder contains Parquet files, it ignores CSV
// files.
func OpenReader(ctx context.Context, path string) (*Reader, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	return newReader(ctx, &folder{path: path}, path)
}

// OpenBucket opens an archive in an S3-compatible store for reading. It needs permission to list the bucket and to read
// objects. Errors name the flag that sets the URL.
func OpenBucket(ctx context.Context, c S3, flag string) (*Reader, error) {
	b, err := newBucket(c, flag)
	if err != nil {
		return nil, err
	}
	if err := b.signed(); err != nil {
		return nil, err
	}
	place := strings.TrimSuffix(c.URL, "/")
	return newReader(ctx, &cache{storage: b, place: place, filed: make(map[string][]byte)}, place)
}

func newReader(ctx context.Context, s storage, place string) (*Reader, error) {
	r := &Reader{storage: s, place: place}
	names, err := r.hours(ctx)
	if err != nil {
		return nil, err
	}
	for _, r.format = range slices.Backward(formats) {
		if slices.ContainsFunc(names, r.hasFormat) {
			return r, nil
		}
	}
	return nil, fmt.Errorf("%s has no files of the archive: it must contain %s/cluster=…/date=…", place, table.Hours.Name)
}

func (r *Reader) hasFormat(name string) bool {
	return path.Base(name) == table.Hours.Name+"."+r.format.name
}

func (r *Reader) hours(ctx context.Context) (names []string, err error) {
	err = r.storage.list(ctx, listing{table.Hours.Name, true}, func(found info) {
		if matched, err := path.Match(table.Hours.Name+"/cluster=*/date=*/"+table.Hours.Name+".*", found.name); err == nil && matched {
			names = append(names, found.name)
		}
	})
	return names, err
}

// Days returns the days in the manifest, sorted by time.
func (r *Reader) Days(ctx context.Context) (days []Day, err error) {
	names, err := r.hours(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !r.hasFormat(name) {
			continue
		}
		day, err := dayOf(name)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", r.place, name, err)
		}
		days = append(days, day)
	}
	slices.SortFunc(days, func(a, b Day) int {
		if c := a.Date.Compare(b.Date); c != 0 {
			return c
		}
		return strings.Compare(a.Cluster, b.Cluster)
	})
	return days, nil
}

func dayOf(name string) (day Day, err error) {
	date := path.Dir(name)
	if day.Cluster, err = clusterOf(path.Base(path.Dir(date))); err != nil {
		return day, err
	}
	day.Date, err = time.Parse("date="+time.DateOnly, path.Base(date))
	return day, err
}

// clusterOf accepts only the canonical encoding of a cluster's name. Otherwise two folders could have the same cluster.
func clusterOf(folder string) (string, error) {
	cluster, err := url.PathUnescape(strings.TrimPrefix(folder, "cluster="))
	if err == nil && clusterFolder(cluster) != folder {
		err = fmt.Errorf("the folder of the cluster %q must be %s", cluster, clusterFolder(cluster))
	}
	return cluster, err
}

// Read calls the function each for every row of a file, with the values of the given columns. The row is valid only
// during the call. A missing file has no rows.
func (r *Reader) Read(ctx context.Context, of File, columns []string, each func(row []table.Cell)) error {
	f := dayFile(r.format, of.Table, of.Cluster, of.Date)
	in, _, err := r.storage.open(ctx, f.name, "")
	if err != nil || in == nil {
		return err
	}
	defer in.Close()
	if err := f.scan(in, columns, each); err != nil {
		return fmt.Errorf("%s/%s: %w", r.place, f.name, err)
	}
	return nil
}

// cache keeps the list of the manifest's files and their content in memory, because every query reads them.
type cache struct {
	storage
	place  string
	listed []info
	filed  map[string][]byte
}

func (c *cache) list(ctx context.Context, of listing, each func(info)) error {
	if of != (listing{table.Hours.Name, true}) {
		return c.storage.list(ctx, of, each)
	}
	if c.listed == nil {
		if err := c.storage.list(ctx, of, func(found info) { c.listed = append(c.listed, found) }); err != nil {
			return fmt.Errorf("list %s: %w", c.place, err)
		}
	}
	for _, found := range c.listed {
		each(found)
	}
	return nil
}

func (c *cache) open(ctx context.Context, name, known string) (content, string, error) {
	if data, ok := c.filed[name]; ok {
		return object{bytes.NewReader(data)}, "", nil
	}
	in, tag, err := c.storage.open(ctx, name, known)
	if err != nil {
		return nil, "", fmt.Errorf("read %s/%s: %w", c.place, name, err)
	}
	if in == nil || !strings.HasPrefix(name, table.Hours.Name+"/") {
		return in, tag, nil
	}
	data, err := io.ReadAll(in)
	c.filed[name] = data
	return object{bytes.NewReader(data)}, tag, err
}
