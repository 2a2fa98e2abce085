// Package files writes the archive as CSV and Parquet files to a local folder or to a bucket of an S3-compatible store.
// Each table has a folder with a file for each cluster and day, in Hive's layout:
//
//	charges/cluster=east/date=2026-11-01/charges.csv
//
// The tables for events have one file per hour instead.
package files

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// The first columns of every table are the cluster and the hour. The third column of the table of corrections is the
// revision.
const (
	hourColumn     = 1
	revisionColumn = 2
)

// Sink writes the archive to a folder or a bucket.
type Sink struct {
	storage storage
	formats []format
	shared  bool // other programs may write the same files
	index   index
	signer  *chain.Signer // nil if there is no chain
}

func newSink(s storage, formats []format, shared bool) *Sink {
	return &Sink{storage: s, formats: formats, shared: shared, index: index{limit: maxIDs, hours: make(map[string]*hourIDs)}}
}

// Close closes the folder or bucket.
func (s *Sink) Close() error { return s.storage.Close() }

func (s *Sink) first(t table.Table, cluster string, day time.Time) file {
	return dayFile(s.formats[0], t, cluster, day)
}

func (s *Sink) hour(ctx context.Context, f file, hour time.Time) ([][]any, error) {
	rows, err := s.rows(ctx, f)
	return of(rows, hour), err
}

// rows returns no rows for a missing file.
func (s *Sink) rows(ctx context.Context, f file) ([][]any, error) {
	rows, _, err := s.read(ctx, f, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	return rows, nil
}

func of(rows [][]any, hour time.Time) [][]any {
	var all [][]any
	for _, row := range rows {
		if row[hourColumn].(time.Time).Equal(hour) {
			all = append(all, row)
		}
	}
	return all
}

// read returns no rows if the file is missing, or if its present tag equals known.
func (s *Sink) read(ctx context.Context, f file, known string) (rows [][]any, tag string, err error) {
	in, tag, err := s.storage.open(ctx, f.name, known)
	if err != nil || in == nil {
		return nil, tag, err
	}
	defer in.Close()
	rows, err = f.decode(in)
	return rows, tag, err
}

func dayFile(as format, t table.Table, cluster string, day time.Time) file {
	return file{as, t, path.Join(dayFolder(t, cluster, day), t.Name+"."+as.name)}
}

func dayFolder(t table.Table, cluster string, hour time.Time) string {
	return path.Join(t.Name, clusterFolder(cluster), "date="+hour.UTC().Format(time.DateOnly))
}

func clusterFolder(cluster string) string { return "cluster=" + url.PathEscape(cluster) }

// byHour does not change the order of the rows within an hour.
func byHour(rows [][]any) {
	slices.SortStableFunc(rows, func(a, b []any) int { return a[hourColumn].(time.Time).Compare(b[hourColumn].(time.Time)) })
}
