// Package files files the archive as CSV and Parquet, in a local folder or in a bucket of an
// S3-compatible store. Each table has a folder, with a file for each cluster and day, in the layout
// of Hive:
//
//	charges/cluster=east/date=2026-11-01/charges.csv
//
// Tables of events have files for each hour.
package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
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

var (
	errChanged   = errors.New("another program changes it at the same time")
	errUnchanged = errors.New("the rows do not change")
	errContended = errors.New("another program files other data of the same hour at the same time")
)

// attempts is the number of times that a file or an hour is written while other programs change it.
const attempts = 20

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

// Filed returns the row of an hour in the manifest, zero if the hour is not filed in all formats.
func (s *Sink) Filed(ctx context.Context, cluster string, hour time.Time) (filed table.Filed, err error) {
	for i, as := range s.formats {
		rows, err := s.hour(ctx, as, table.Hours, cluster, hour)
		if err != nil {
			return table.Filed{}, err
		}
		found := table.Filed{}
		if len(rows) > 0 {
			found = table.FiledIn(rows[0])
		}
		if i > 0 && found != filed {
			return table.Filed{}, nil
		}
		filed = found
	}
	return filed, nil
}

// Nodes returns the nodes with GPUs in the last hour of a cluster that is filed in a period, the end
// not included.
func (s *Sink) Nodes(ctx context.Context, cluster string, from, until time.Time) ([]string, error) {
	for day := until.Add(-1).UTC().Truncate(24 * time.Hour); day.Add(24 * time.Hour).After(from); day = day.AddDate(0, 0, -1) {
		name := file(s.formats[0], table.Hours, cluster, day)
		rows, _, err := s.read(ctx, s.formats[0], table.Hours, name, "")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, row := range slices.Backward(rows) {
			if hour := row[hourColumn].(time.Time); !hour.Before(from) && hour.Before(until) {
				gpus, err := s.hour(ctx, s.formats[0], table.GPUHours, cluster, hour)
				return table.NodesIn(gpus), err
			}
		}
	}
	return nil, nil
}

// Clusters returns the filed hours of each cluster that are not before a moment.
func (s *Sink) Clusters(ctx context.Context, since time.Time) (map[string]table.Span, error) {
	folders, err := s.clusters(ctx, table.Hours)
	if err != nil {
		return nil, err
	}
	spans := make(map[string]table.Span)
	for folder, cluster := range folders {
		span, err := s.span(ctx, cluster, folder, since)
		if err != nil {
			return nil, err
		}
		if span != (table.Span{}) {
			spans[cluster] = span
		}
	}
	return spans, nil
}

// clusters returns the clusters of a table by folder.
func (s *Sink) clusters(ctx context.Context, t table.Table) (map[string]string, error) {
	names, err := s.bucket.folders(ctx, t.Name)
	if err != nil {
		return nil, err
	}
	clusters := make(map[string]string)
	for _, name := range names {
		escaped, found := strings.CutPrefix(name, "cluster=")
		if cluster, err := url.PathUnescape(escaped); found && err == nil {
			clusters[name] = cluster
		}
	}
	return clusters, nil
}

// days returns the days in the folder of a cluster.
func (s *Sink) days(ctx context.Context, t table.Table, folder string) (days []time.Time, err error) {
	names, err := s.bucket.folders(ctx, path.Join(t.Name, folder))
	for _, name := range names {
		if day, err := time.Parse("date="+time.DateOnly, name); err == nil {
			days = append(days, day)
		}
	}
	return days, err
}

// span returns the filed hours of a cluster that are not before a moment.
func (s *Sink) span(ctx context.Context, cluster, folder string, since time.Time) (span table.Span, err error) {
	days, err := s.days(ctx, table.Hours, folder)
	if err != nil {
		return span, err
	}
	for _, day := range days {
		if !day.AddDate(0, 0, 1).After(since) {
			continue
		}
		rows, _, err := s.read(ctx, s.formats[0], table.Hours, file(s.formats[0], table.Hours, cluster, day), "")
		if err != nil {
			return span, fmt.Errorf("manifest of %s: %w", day.Format(time.DateOnly), err)
		}
		for _, row := range rows {
			if hour := row[hourColumn].(time.Time); !hour.Before(since) {
				span = span.Extend(hour)
			}
		}
	}
	return span, nil
}

// Intact reports whether the rows of a filed hour have the digest in the manifest, in a bucket that
// programs share: two programs that file different data of an hour, and are killed before their last
// check, may leave rows of both. Corrections are not part of the digest.
func (s *Sink) Intact(ctx context.Context, cluster string, hour time.Time) (bool, error) {
	if !s.shared {
		return true, nil
	}
	for _, as := range s.formats {
		filed, err := s.hour(ctx, as, table.Hours, cluster, hour)
		if err != nil || len(filed) == 0 || table.StateIn(filed[0]) == table.Corrected || table.StateIn(filed[0]) == table.Pruned {
			return err == nil, err
		}
		digest := table.DigestRows(func(t table.Table) [][]any {
			rows, e := s.hour(ctx, as, t, cluster, hour)
			err = errors.Join(err, e)
			return rows
		})
		if err != nil || digest != table.FiledIn(filed[0]).Digest {
			return false, err
		}
	}
	return true, nil
}

// change returns the new rows of an hour in a table.
type change struct {
	table table.Table
	rows  func(old [][]any) [][]any
}

// Replace files an hour. Its row in the manifest is removed first and written last, so an hour in
// the manifest is complete, also after a crash.
func (s *Sink) Replace(ctx context.Context, h *table.Hour) error {
	none := func([][]any) [][]any { return nil }
	changes := []change{{table.Hours, none}, {table.Corrections, none}}
	for _, t := range append(slices.Clone(table.Data), table.Hours) {
		changes = append(changes, change{t, func([][]any) [][]any { return t.Rows(h) }})
	}
	return s.apply(ctx, h, changes)
}

// Charges returns the filed charges of an hour, and its corrections. Corrections of a later
// revision than that in the manifest are left from a crash.
func (s *Sink) Charges(ctx context.Context, cluster string, hour time.Time) (charges []fold.Charge, err error) {
	filed, err := s.Filed(ctx, cluster, hour)
	if err != nil {
		return nil, err
	}
	for _, t := range []table.Table{table.Charges, table.Corrections} {
		rows, err := s.hour(ctx, s.formats[0], t, cluster, hour)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if t.Name == table.Charges.Name || row[revisionColumn].(int64) <= filed.Revision {
				charges = append(charges, table.ChargeIn(t, row))
			}
		}
	}
	return charges, nil
}

// Correct files the corrections of an hour beside earlier ones, and its row in the manifest.
func (s *Sink) Correct(ctx context.Context, h *table.Hour) error {
	return s.apply(ctx, h, []change{
		{table.Corrections, func(old [][]any) [][]any {
			earlier := slices.DeleteFunc(old, func(row []any) bool { return row[revisionColumn].(int64) >= h.Revision })
			return append(earlier, table.Corrections.Rows(h)...)
		}},
		{table.Hours, func([][]any) [][]any { return table.Hours.Rows(h) }},
	})
}

// apply makes changes in their order. In a shared bucket it checks afterwards that they were all
// kept: two programs may file different data of an hour at the same time, and the program that ends
// last repeats its changes.
func (s *Sink) apply(ctx context.Context, h *table.Hour, changes []change) error {
	for range attempts {
		tags := make(map[string]string)
		for _, as := range s.formats {
			for _, c := range changes {
				name := file(as, c.table, h.Cluster, h.Start)
				tag, err := s.update(ctx, as, name, h.Start, c)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				tags[name] = tag
			}
		}
		if !s.shared {
			return nil
		}
		if kept, err := s.kept(ctx, h, changes, tags); err != nil || kept {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	return errContended
}

// update changes the rows of an hour in a file, and returns the file's tag.
func (s *Sink) update(ctx context.Context, as format, name string, hour time.Time, c change) (string, error) {
	return s.rewrite(ctx, as, c.table, name, func(all [][]any) ([][]any, error) {
		n := len(all)
		before := of(all, hour)
		if c.table.Name == table.Hours.Name && len(before) > 0 && table.StateIn(before[0]) == table.Pruned {
			return nil, table.ErrPruned
		}
		rows := c.rows(before)
		all = slices.DeleteFunc(all, func(row []any) bool { return row[hourColumn].(time.Time).Equal(hour) })
		if len(all) == n && len(rows) == 0 {
			return nil, errUnchanged
		}
		all = append(all, rows...)
		slices.SortStableFunc(all, func(a, b []any) int { return a[hourColumn].(time.Time).Compare(b[hourColumn].(time.Time)) })
		return all, nil
	})
}

// rewrite changes the rows of a file, again if another program changes it at the same time. It returns the
// file's tag. The file stays as it is if change returns errUnchanged.
func (s *Sink) rewrite(ctx context.Context, as format, t table.Table, name string, change func(rows [][]any) ([][]any, error)) (string, error) {
	for range attempts {
		rows, tag, err := s.read(ctx, as, t, name, "")
		if err != nil {
			return "", err
		}
		switch rows, err = change(rows); {
		case errors.Is(err, errUnchanged):
			return tag, nil
		case err != nil:
			return "", err
		}
		var data bytes.Buffer
		if err := as.write(&data, t, rows); err != nil {
			return "", err
		}
		if tag, err = s.bucket.write(ctx, name, data.Bytes(), tag); !errors.Is(err, errChanged) {
			return tag, err
		}
		if err := pause(ctx); err != nil {
			return "", err
		}
	}
	return "", errChanged
}

// kept reports whether files have the rows of the changes, the last change of each table. Files
// that still have their tags are not read.
func (s *Sink) kept(ctx context.Context, h *table.Hour, changes []change, tags map[string]string) (bool, error) {
	last := make(map[string]change)
	for _, c := range changes {
		last[c.table.Name] = c
	}
	for _, as := range s.formats {
		for _, c := range last {
			name := file(as, c.table, h.Cluster, h.Start)
			all, tag, err := s.read(ctx, as, c.table, name, tags[name])
			if err != nil {
				return false, err
			}
			if found := of(all, h.Start); tag != tags[name] && !same(found, c.rows(slices.Clone(found))) {
				return false, nil
			}
		}
	}
	return true, nil
}

// same reports whether rows have the same values.
func same(a, b [][]any) bool {
	return slices.EqualFunc(a, b, func(a, b []any) bool {
		return slices.EqualFunc(a, b, func(a, b any) bool { return table.Format(a) == table.Format(b) })
	})
}

// pause waits for a random time, so that programs that change the same file get out of step.
func pause(ctx context.Context) error {
	select {
	case <-time.After(rand.N(200 * time.Millisecond)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

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
	return path.Join(t.Name, "cluster="+url.PathEscape(cluster), "date="+hour.UTC().Format(time.DateOnly), t.Name+"."+as.name)
}
