// Package files files the archive in a local folder, as CSV and Parquet. Each table has a folder,
// with a file for each cluster and day, in the layout of Hive:
//
//	charges/cluster=east/date=2026-11-01/charges.csv
package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// format is a file format. Rows have values as in [table.Table].
type format struct {
	name  string // and the extension of its files
	write func(w io.Writer, t table.Table, rows [][]any) error
	read  func(file *os.File, t table.Table) ([][]any, error)
}

var formats = []format{{"csv", writeCSV, readCSV}, {"parquet", writeParquet, readParquet}}

// Formats are the names of the file formats.
func Formats() []string {
	var all []string
	for _, f := range formats {
		all = append(all, f.name)
	}
	return all
}

// ErrLocked means that another process has the folder open.
var ErrLocked = errors.New("another gpuledger-archive writes this folder")

// Folder is a folder of the archive. Another process cannot open it at the same time.
type Folder struct {
	path    string
	lock    *os.File
	formats []format
}

// Open creates a folder if it is missing, and locks it. Every table is written in each of the
// formats.
func Open(path string, names []string) (*Folder, error) {
	var chosen []format
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
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("lock %s: %w: %w", path, err, ErrLocked)
	}
	return &Folder{path, lock, chosen}, nil
}

// Close unlocks the folder.
func (f *Folder) Close() error { return f.lock.Close() }

// Filed returns the row of an hour in the manifest, zero if the hour is not filed in all formats.
func (f *Folder) Filed(_ context.Context, cluster string, hour time.Time) (filed table.Filed, err error) {
	for i, as := range f.formats {
		rows, err := f.hour(as, table.Hours, cluster, hour)
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

// Replace files an hour. Its row in the manifest is removed first and written last, so an hour in
// the manifest is complete, also after a crash.
func (f *Folder) Replace(_ context.Context, h *table.Hour) error {
	for _, as := range f.formats {
		if err := f.replace(as, table.Hours, h, nil); err != nil {
			return err
		}
		for _, t := range append(slices.Clone(table.Data), table.Hours) {
			if err := f.replace(as, t, h, t.Rows(h)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Charges returns the filed charges of an hour, and its corrections.
func (f *Folder) Charges(_ context.Context, cluster string, hour time.Time) (charges []fold.Charge, err error) {
	for _, t := range []table.Table{table.Charges, table.Corrections} {
		rows, err := f.hour(f.formats[0], t, cluster, hour)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			charges = append(charges, table.ChargeIn(t, row))
		}
	}
	return charges, nil
}

// Correct files the corrections of an hour beside earlier ones, and its row in the manifest.
func (f *Folder) Correct(_ context.Context, h *table.Hour) error {
	for _, as := range f.formats {
		earlier, err := f.hour(as, table.Corrections, h.Cluster, h.Start)
		if err != nil {
			return err
		}
		if err := f.replace(as, table.Corrections, h, append(earlier, table.Corrections.Rows(h)...)); err != nil {
			return err
		}
		if err := f.replace(as, table.Hours, h, table.Hours.Rows(h)); err != nil {
			return err
		}
	}
	return nil
}

func (f *Folder) hour(as format, t table.Table, cluster string, hour time.Time) ([][]any, error) {
	rows, err := f.read(as, t, cluster, hour)
	return slices.DeleteFunc(rows, func(row []any) bool { return !row[1].(time.Time).Equal(hour) }), err
}

// replace writes the file of a day again, with other rows of the hour.
func (f *Folder) replace(as format, t table.Table, h *table.Hour, rows [][]any) error {
	all, err := f.read(as, t, h.Cluster, h.Start)
	if err != nil {
		return err
	}
	n := len(all)
	all = slices.DeleteFunc(all, func(row []any) bool { return row[1].(time.Time).Equal(h.Start) })
	if len(all) == n && len(rows) == 0 {
		return nil
	}
	all = append(all, rows...)
	slices.SortStableFunc(all, func(a, b []any) int { return a[1].(time.Time).Compare(b[1].(time.Time)) })
	return f.write(as, t, f.file(as, t, h.Cluster, h.Start), all)
}

func (f *Folder) file(as format, t table.Table, cluster string, hour time.Time) string {
	return filepath.Join(f.path, t.Name, "cluster="+url.PathEscape(cluster), "date="+hour.UTC().Format(time.DateOnly), t.Name+"."+as.name)
}

// read returns the rows of a day, none if there is no file.
func (f *Folder) read(as format, t table.Table, cluster string, hour time.Time) ([][]any, error) {
	path := f.file(as, t, cluster, hour)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rows, err := as.read(file, t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

// write replaces a file at once: readers have the old one or the new one.
func (f *Folder) write(as format, t table.Table, path string, rows [][]any) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	next, err := os.Create(path + ".next")
	if err != nil {
		return err
	}
	defer next.Close()
	if err := cmp.Or(as.write(next, t, rows), next.Sync()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(next.Name(), path); err != nil {
		return err
	}
	return sync(dir)
}

// sync makes a rename durable.
func sync(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
