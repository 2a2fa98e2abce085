// Package files files the archive as CSV and Parquet, in a local folder or in a bucket of an
// S3-compatible store. Each table has a folder, with a file for each cluster and day, in the layout
// of Hive:
//
//	charges/cluster=east/date=2026-11-01/charges.csv
//
// Tables of events have files for each hour.
package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// format is a file format. Rows have values as in [table.Table].
type format struct {
	name  string // and the extension of its files
	write func(w io.Writer, t table.Table, rows [][]any) error
	read  func(data []byte, t table.Table) ([][]any, error)
	// scan calls each for every row, with the values of some columns.
	scan func(file content, t table.Table, columns []string, each func([]table.Cell)) error
}

var formats = []format{{"csv", writeCSV, readCSV, scanCSV}, {"parquet", writeParquet, readParquet, scanParquet}}

// Formats are the names of the file formats.
func Formats() []string {
	var all []string
	for _, f := range formats {
		all = append(all, f.name)
	}
	return all
}

// bucket holds files by name. The tag of a file identifies its content; it is empty if there is no
// file.
type bucket interface {
	// read returns a file and its tag, or no data if the file still has the known tag.
	read(ctx context.Context, name, known string) (data []byte, tag string, err error)
	// folders returns the names of the folders in a folder, none if it is missing.
	folders(ctx context.Context, name string) ([]string, error)
	// write replaces the file with a tag at once, and returns the new tag. The error is errChanged
	// if the file has another tag.
	write(ctx context.Context, name string, data []byte, tag string) (string, error)
	// files returns the files in a folder, without those in its folders; none if it is missing.
	files(ctx context.Context, name string) ([]info, error)
	// remove removes a file, if it exists.
	remove(ctx context.Context, name string) error
	Close() error
}

// info is a file in a folder of a bucket.
type info struct {
	name string // with its folder
	size int64
}

// The columns that every table has, and the one after them in corrections.
const (
	hourColumn     = 1
	revisionColumn = 2
)

// Sink files the archive in a bucket.
type Sink struct {
	bucket  bucket
	formats []format
	shared  bool // other programs may write to the bucket
	index   index
}

// newSink returns a sink. Every table is written in each of the formats.
func newSink(b bucket, formats []format, shared bool) *Sink {
	return &Sink{bucket: b, formats: formats, shared: shared, index: index{limit: maxIDs, hours: make(map[string]*hourIDs)}}
}

func choose(names []string) (chosen []format, err error) {
	for _, name := range names {
		i := slices.IndexFunc(formats, func(f format) bool { return f.name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown format %q: must be one of %s", name, strings.Join(Formats(), ", "))
		}
		chosen = append(chosen, formats[i])
	}
	if len(chosen) == 0 {
		return nil, errors.New("no format is given")
	}
	return chosen, nil
}

// Close closes the bucket.
func (s *Sink) Close() error { return s.bucket.Close() }

// hour returns the rows of an hour.
func (s *Sink) hour(ctx context.Context, as format, t table.Table, cluster string, hour time.Time) ([][]any, error) {
	name := file(as, t, cluster, hour)
	rows, _, err := s.read(ctx, as, t, name, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return of(rows, hour), nil
}

// of returns the rows of an hour.
func of(rows [][]any, hour time.Time) [][]any {
	var all [][]any
	for _, row := range rows {
		if row[hourColumn].(time.Time).Equal(hour) {
			all = append(all, row)
		}
	}
	return all
}

// read returns the rows of a file and its tag: no rows if there is no file, or if it still has the
// known tag.
func (s *Sink) read(ctx context.Context, as format, t table.Table, name, known string) (rows [][]any, tag string, err error) {
	data, tag, err := s.bucket.read(ctx, name, known)
	if err != nil || tag == known {
		return nil, tag, err
	}
	rows, err = as.read(data, t)
	return rows, tag, err
}

// file returns the name of the file of a day.
func file(as format, t table.Table, cluster string, hour time.Time) string {
	return path.Join(dayFolder(t, cluster, hour), t.Name+"."+as.name)
}

// dayFolder returns the name of the folder of a day.
func dayFolder(t table.Table, cluster string, hour time.Time) string {
	return path.Join(t.Name, clusterFolder(cluster), "date="+hour.UTC().Format(time.DateOnly))
}

// clusterFolder returns the name of the folder of a cluster.
func clusterFolder(cluster string) string { return "cluster=" + url.PathEscape(cluster) }

// byHour sorts rows by hour. Rows of an hour keep their order.
func byHour(rows [][]any) {
	slices.SortStableFunc(rows, func(a, b []any) int { return a[hourColumn].(time.Time).Compare(b[hourColumn].(time.Time)) })
}
