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
)

// grow extends the CSV file of an hour. If an earlier version wrote this file with fewer columns, grow writes the rows
// to a new file.
func (f *folder) grow(ctx context.Context, hour hourFiles, known *hourIDs, rows [][]any) error {
	if known.end < 0 {
		if err := f.load(hour, known); err != nil {
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
	part := hour.part(known.parts)
	var data bytes.Buffer
	var err error
	if known.end == 0 {
		if err = part.write(&data, part.table, rows); err == nil {
			_, err = f.write(ctx, part.name, data.Bytes(), "")
		}
	} else if err = writeRows(csv.NewWriter(&data), rows); err == nil {
		err = extend(filepath.Join(f.path, part.name), known.end, data.Bytes())
	}
	if err != nil {
		return err
	}
	known.end += int64(data.Len())
	known.addRows(rows)
	return nil
}

// extend writes data after the last complete row, and flushes the file to disk. It first removes incomplete data, which
// a crash or a full disk can leave.
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

func (f *folder) load(hour hourFiles, known *hourIDs) error {
	for {
		part := hour.part(known.parts)
		end, grows, err := f.scan(part, known)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			known.end = 0
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", path.Base(part.name), err)
		case grows:
			known.end = end
			return nil
		}
		known.parts++
	}
}

// scan adds the ids in a CSV file to known. It returns the end of the last complete row. grows is set if the file has
// all columns of the table.
func (f *folder) scan(part file, known *hourIDs) (end int64, grows bool, err error) {
	file, err := os.Open(filepath.Join(f.path, part.name))
	if err != nil {
		return 0, false, err
	}
	defer file.Close()
	in, err := openCSVFile(file, part.table)
	if err != nil {
		return 0, false, err
	}
	if !in.current() {
		return 0, false, errColumns
	}
	end, err = in.complete(localFile{file}, func(row []string) { known.add(row[idColumn]) })
	return end, len(in.head) == len(part.table.Columns), err
}

// complete calls the function each for every complete row, and returns the end of the last complete row. A crash can
// cut the last row, so that its line break or a quotation mark is missing.
func (f *csvFile) complete(file localFile, each func(row []string)) (end int64, err error) {
	size, err := file.Size()
	if err != nil {
		return 0, err
	}
	for {
		end = f.InputOffset()
		row, err := f.Read()
		switch {
		case errors.Is(err, io.EOF), f.InputOffset() == size && (err != nil || !endsLine(file, size)):
			return end, nil
		case err != nil:
			return 0, err
		}
		each(row)
	}
}

func endsLine(file io.ReaderAt, size int64) bool {
	last := make([]byte, 1)
	_, err := file.ReadAt(last, size-1)
	return err == nil && last[0] == '\n'
}
