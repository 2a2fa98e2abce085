// Package files files the archive in a local folder, as CSV. Each table has a folder, with a file
// for each cluster and day, in the layout of Hive:
//
//	charges/cluster=east/date=2026-11-01/charges.csv
package files

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Folder is a folder of the archive. Another process cannot open it at the same time.
type Folder struct {
	path string
	lock *os.File
}

// Open creates a folder if it is missing, and locks it.
func Open(path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("lock %s: %w: another gpuledger-archive writes this folder", path, err)
	}
	return &Folder{path, lock}, nil
}

// Close unlocks the folder.
func (f *Folder) Close() error { return f.lock.Close() }

// Filed returns the digest of an hour, empty if the hour is not filed.
func (f *Folder) Filed(_ context.Context, cluster string, hour time.Time) (string, error) {
	rows, err := f.read(table.Hours, cluster, hour)
	if err != nil {
		return "", err
	}
	for _, row := range rows {
		if row[1] == table.Format(hour) {
			return row[len(row)-1], nil
		}
	}
	return "", nil
}

// Replace files an hour. Its row in the manifest is removed first and written last, so an hour in
// the manifest is complete, also after a crash.
func (f *Folder) Replace(ctx context.Context, h *fold.Hour) error {
	filed, err := f.Filed(ctx, h.Cluster, h.Start)
	if err != nil {
		return err
	}
	if filed != "" {
		if err := f.replace(table.Hours, h, nil); err != nil {
			return err
		}
	}
	for _, t := range append(slices.Clone(table.Data), table.Hours) {
		if err := f.replace(t, h, t.Rows(h)); err != nil {
			return err
		}
	}
	return nil
}

// replace writes the file of a day again, with other rows of the hour.
func (f *Folder) replace(t table.Table, h *fold.Hour, rows [][]any) error {
	all, err := f.read(t, h.Cluster, h.Start)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(row []string) bool { return row[1] == table.Format(h.Start) })
	for _, row := range rows {
		texts := make([]string, len(row))
		for i, value := range row {
			texts[i] = table.Format(value)
		}
		all = append(all, texts)
	}
	slices.SortStableFunc(all, func(a, b []string) int { return cmp.Compare(a[1], b[1]) })
	return f.write(t, f.file(t, h.Cluster, h.Start), all)
}

func (f *Folder) file(t table.Table, cluster string, hour time.Time) string {
	return filepath.Join(f.path, t.Name, "cluster="+url.PathEscape(cluster), "date="+hour.UTC().Format(time.DateOnly), t.Name+".csv")
}

// read returns the rows of a day, none if there is no file.
func (f *Folder) read(t table.Table, cluster string, hour time.Time) ([][]string, error) {
	path := f.file(t, cluster, hour)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r := csv.NewReader(bufio.NewReader(file))
	head, err := r.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !slices.Equal(head, names(t)) {
		return nil, fmt.Errorf("%s has other columns than this version of gpuledger-archive writes: move it away to file the day again", path)
	}
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

func names(t table.Table) []string {
	all := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		all[i] = c.Name
	}
	return all
}

// write replaces a file at once: readers have the old one or the new one.
func (f *Folder) write(t table.Table, path string, rows [][]string) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	next, err := os.Create(path + ".next")
	if err != nil {
		return err
	}
	defer next.Close()
	w := csv.NewWriter(next)
	if err := errors.Join(w.Write(names(t)), w.WriteAll(rows), next.Sync()); err != nil {
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
