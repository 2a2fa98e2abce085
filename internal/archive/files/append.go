package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// These are indexes of columns in the tables [table.Appended]. The first two columns are the cluster and the hour.
const (
	atColumn = 2
	idColumn = 3
)

// If the values in a file have this size in bytes, the file is full. Further rows of the hour are written to another
// file. This limits the cost of a request, which rewrites a file that it cannot extend.
const maxPart = 512 << 10

// Append adds rows to one of the tables [table.Appended]. It skips rows whose keys are already in the table. Each hour
// has its own files. In a folder, Append extends CSV files. In all other cases, it rewrites the last file of the hour
// until this file is full.
func (s *Sink) Append(ctx context.Context, t table.Table, rows [][]any) error {
	hours := make(map[string][][]any)
	for _, row := range rows {
		name := hourFile(t, row)
		hours[name] = append(hours[name], row)
	}
	for _, name := range slices.Sorted(maps.Keys(hours)) {
		for _, as := range s.formats {
			hour := hourFiles{as, t, name}
			if err := s.add(ctx, hour, hours[name]); err != nil {
				return fmt.Errorf("%s: %w", hour.part(0).name, err)
			}
		}
	}
	return nil
}

func hourFile(t table.Table, row []any) string {
	cluster, hour := row[0].(string), row[hourColumn].(time.Time).UTC()
	return path.Join(dayFolder(t, cluster, hour), t.Name+hour.Format("-15"))
}

type hourFiles struct {
	format
	table table.Table
	name  string // name of the first file, without its extension
}

// part returns the file of the hour with the given number. The first file is number 0, which is not in its name.
func (h hourFiles) part(number int) file {
	name := h.name
	if number > 0 {
		name += "-" + strconv.Itoa(number)
	}
	return file{h.format, h.table, name + "." + h.format.name}
}

func (s *Sink) add(ctx context.Context, hour hourFiles, rows [][]any) error {
	first := hour.part(0).name
	known := s.index.of(first)
	var err error
	if f, ok := s.storage.(*folder); ok && hour.format.name == "csv" {
		err = f.grow(ctx, hour, known, rows)
	} else {
		err = s.extend(ctx, hour, known, rows)
	}
	if err != nil {
		s.index.forget(first)
		return err
	}
	s.index.keep(first)
	return nil
}

// extend adds rows to the last file of an hour. If this file is full, it continues in new files. It writes a file only
// if no other program has changed the file. Full files never change, so it reads their ids only once.
func (s *Sink) extend(ctx context.Context, hour hourFiles, known *hourIDs, rows [][]any) error {
	for conflicts := 0; conflicts < attempts; {
		last, tag, err := s.last(ctx, hour, known)
		if err != nil {
			return err
		}
		if rows = unknown(rows, known, last); len(rows) == 0 {
			return nil
		}
		if len(known.ids) >= known.limit {
			return ErrFull
		}
		n := fitting(last, rows)
		last = append(last, rows[:n]...)
		sortRows(last)
		f := hour.part(known.parts)
		data, err := f.encode(last)
		if err != nil {
			return err
		}
		switch _, err := s.storage.write(ctx, f.name, data, tag); {
		case err == nil:
			if rows = rows[n:]; len(rows) == 0 {
				return nil
			}
			if sizeOf(last) >= maxPart {
				known.addRows(last)
				known.parts++
			}
		case !errors.Is(err, errChanged):
			return err
		default:
			conflicts++
			if err := pause(ctx); err != nil {
				return err
			}
		}
	}
	return errChanged
}

// fitting returns the number of rows that still fit into the file. last contains the rows in the file.
func fitting(last, rows [][]any) (n int) {
	for size := sizeOf(last); n < len(rows) && size < maxPart; n++ {
		size += sizeOf(rows[n : n+1])
	}
	return n
}

// last returns the rows of the last file of an hour, or no rows if there is no such file. It adds the ids in full files
// to known.
func (s *Sink) last(ctx context.Context, hour hourFiles, known *hourIDs) (rows [][]any, tag string, err error) {
	for {
		f := hour.part(known.parts)
		in, tag, err := s.storage.open(ctx, f.name, "")
		if err != nil || in == nil {
			return nil, "", err
		}
		rows, full, err := f.grown(in, known)
		switch err = errors.Join(err, in.Close()); {
		case err != nil:
			return nil, "", fmt.Errorf("%s: %w", path.Base(f.name), err)
		case !full:
			return rows, tag, nil
		}
		known.parts++
	}
}

// grown returns the rows of a file that is not full. If the file is full, grown adds its ids to known instead.
func (f file) grown(in content, known *hourIDs) (rows [][]any, full bool, err error) {
	size, err := in.Size()
	if err != nil {
		return nil, false, err
	}
	if size >= maxPart { // an earlier version may have written a larger file
		return nil, true, f.scan(in, []string{f.table.Columns[idColumn].Name}, func(row []table.Cell) { known.add(row[0].Text) })
	}
	if rows, err = f.decode(in); err != nil || sizeOf(rows) < maxPart {
		return rows, false, err
	}
	known.addRows(rows)
	return nil, true, nil
}

func unknown(rows [][]any, known *hourIDs, others [][]any) (all [][]any) {
	ids := make(map[id]bool, len(others)+len(rows))
	for _, row := range others {
		ids[digest(row[idColumn].(string))] = true
	}
	for _, row := range rows {
		id := digest(row[idColumn].(string))
		if _, found := known.ids[id]; !found && !ids[id] {
			ids[id] = true
			all = append(all, row)
		}
	}
	return all
}

func sortRows(rows [][]any) {
	slices.SortFunc(rows, func(a, b []any) int {
		return cmp.Or(a[atColumn].(time.Time).Compare(b[atColumn].(time.Time)), cmp.Compare(a[idColumn].(string), b[idColumn].(string)))
	})
}

func sizeOf(rows [][]any) (size int) {
	for _, row := range rows {
		for _, value := range row {
			text, _ := value.(string)
			size += 8 + len(text)
		}
	}
	return size
}
