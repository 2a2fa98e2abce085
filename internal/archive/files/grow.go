package files

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// grow adds rows to the end of an hour's CSV file. A file of an earlier version with fewer columns
// does not grow: another file follows it.
func (f *folder) grow(ctx context.Context, t table.Table, name string, known *hourIDs, rows [][]any) error {
	as := formats[0]
	if known.end < 0 {
		if err := f.load(as, t, name, known); err != nil {
			return err
		}
	}
	if rows = unknown(rows, known, nil); len(rows) == 0 {
		return nil
	}
	if len(known.ids) >= known.limit {
		return ErrFull
	}
	sortRows(rows)
	part := partFile(as, name, known.parts)
	var data bytes.Buffer
	var err error
	if known.end == 0 {
		if err = writeCSV(&data, t, rows); err == nil {
			_, err = f.write(ctx, part, data.Bytes(), "")
		}
	} else if err = writeRows(csv.NewWriter(&data), rows); err == nil {
		err = extend(filepath.Join(f.path, part), known.end, data.Bytes())
	}
	if err != nil {
		return err
	}
	known.end += int64(data.Len())
	for _, row := range rows {
		known.add(row[idColumn].(string))
	}
	return nil
}

// extend writes data at the end of a file, and makes them durable. It first removes the bytes that a crash
// or a full disk left after the end.
func extend(path string, end int64, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && info.Size() < end {
		err = errChanged
	}
	if err == nil && info.Size() > end {
		err = file.Truncate(end)
	}
	if err != nil {
		return err
	}
	if _, err := file.WriteAt(data, end); err != nil {
		return errors.Join(err, file.Truncate(end))
	}
	return file.Sync()
}

// load reads the ids in the CSV files of an hour, and finds the end of the last one.
func (f *folder) load(as format, t table.Table, name string, known *hourIDs) error {
	for {
		part := partFile(as, name, known.parts)
		end, grows, err := f.scan(part, t, known)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			known.end = 0
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", path.Base(part), err)
		case grows:
			known.end = end
			return nil
		}
		known.parts++
	}
}

// scan adds the ids in a CSV file, and returns the end of its last complete row. It reports whether the
// file has all columns of the table. After a crash the last row may be incomplete: it has no end of
// a line, or an open quote.
func (f *folder) scan(name string, t table.Table, known *hourIDs) (end int64, grows bool, err error) {
	file, err := os.Open(filepath.Join(f.path, name))
	if err != nil {
		return 0, false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, false, err
	}
	in := csv.NewReader(file)
	head, err := in.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, false, err
	}
	if written, _ := placesIn(t, head); !slices.Equal(head, written) {
		return 0, false, errColumns
	}
	grows = len(head) == len(t.Columns)
	in.ReuseRecord = true
	for {
		end = in.InputOffset()
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return end, grows, nil
		}
		if in.InputOffset() == info.Size() && (err != nil || !endsLine(file, info.Size())) {
			return end, grows, nil
		}
		if err != nil {
			return 0, false, err
		}
		known.add(row[idColumn])
	}
}

// endsLine reports whether the last byte of a file is the end of a line.
func endsLine(file io.ReaderAt, size int64) bool {
	last := make([]byte, 1)
	_, err := file.ReadAt(last, size-1)
	return err == nil && last[0] == '\n'
}
