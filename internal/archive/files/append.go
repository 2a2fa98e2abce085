package files

import (
	"bytes"
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

// The columns of [table.Appended] after cluster and hour.
const (
	atColumn = 2
	idColumn = 3
)

// maxPart is the size of the values in a full file, in bytes: the next rows of its hour are in another
// file. Each request writes a file that cannot grow again, so this size limits the cost of a request.
const maxPart = 512 << 10

// Append adds rows to one of [table.Appended], except those whose key is there already. Each hour has
// its own files. A CSV file in a folder grows; other files are replaced until they are full.
func (s *Sink) Append(ctx context.Context, t table.Table, rows [][]any) error {
	hours := make(map[string][][]any)
	for _, row := range rows {
		name := hourFile(t, row)
		hours[name] = append(hours[name], row)
	}
	for _, name := range slices.Sorted(maps.Keys(hours)) {
		for _, as := range s.formats {
			if err := s.add(ctx, as, t, name, hours[name]); err != nil {
				return fmt.Errorf("%s.%s: %w", name, as.name, err)
			}
		}
	}
	return nil
}

// hourFile returns the name of the first file of a row's hour, without an extension.
func hourFile(t table.Table, row []any) string {
	cluster, hour := row[0].(string), row[hourColumn].(time.Time).UTC()
	return path.Join(dayFolder(t, cluster, hour), t.Name+hour.Format("-15"))
}

// partFile returns the name of a file of an hour. The first one is number 0.
func partFile(as format, name string, part int) string {
	if part > 0 {
		name += "-" + strconv.Itoa(part)
	}
	return name + "." + as.name
}

// add adds rows to the files of an hour in a format.
func (s *Sink) add(ctx context.Context, as format, t table.Table, name string, rows [][]any) error {
	first := partFile(as, name, 0)
	known := s.index.of(first)
	var err error
	if f, ok := s.bucket.(*folder); ok && as.name == "csv" {
		err = f.grow(ctx, t, name, known, rows)
	} else {
		err = s.extend(ctx, as, t, name, known, rows)
	}
	if err != nil {
		s.index.forget(first)
		return err
	}
	s.index.keep(first)
	return nil
}

// extend adds rows to the last file of an hour, and to new ones when it is full. It writes
// a file only if no other program has changed it. Full files never change, so their ids are read once.
func (s *Sink) extend(ctx context.Context, as format, t table.Table, name string, known *hourIDs, rows [][]any) error {
	for conflicts := 0; conflicts < attempts; {
		last, tag, err := s.last(ctx, as, t, name, known)
		if err != nil {
			return err
		}
		if rows = unknown(rows, known, last); len(rows) == 0 {
			return nil
		}
		if len(known.ids) >= known.limit {
			return ErrFull
		}
		n, size := 0, sizeOf(last)
		for ; n < len(rows) && size < maxPart; n++ {
			size += sizeOf(rows[n : n+1])
		}
		last = append(last, rows[:n]...)
		sortRows(last)
		var data bytes.Buffer
		if err := as.write(&data, t, last); err != nil {
			return err
		}
		switch _, err := s.bucket.write(ctx, partFile(as, name, known.parts), data.Bytes(), tag); {
		case err == nil:
			rows = rows[n:]
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

// last returns the rows of the last file of an hour and its tag, no rows if the file is missing. It adds
// the ids in full files to the known ids.
func (s *Sink) last(ctx context.Context, as format, t table.Table, name string, known *hourIDs) (rows [][]any, tag string, err error) {
	for {
		part := partFile(as, name, known.parts)
		data, tag, err := s.bucket.read(ctx, part, "")
		if err != nil || tag == "" {
			return nil, "", err
		}
		full := len(data) >= maxPart // also a large file of an earlier version
		if full {
			err = as.scan(object{bytes.NewReader(data)}, t, []string{t.Columns[idColumn].Name}, func(row []table.Cell) { known.add(row[0].Text) })
		} else {
			rows, err = as.read(data, t)
		}
		switch {
		case err != nil:
			return nil, "", fmt.Errorf("%s: %w", path.Base(part), err)
		case !full && sizeOf(rows) < maxPart:
			return rows, tag, nil
		}
		for _, row := range rows {
			known.add(row[idColumn].(string))
		}
		rows = nil
		known.parts++
	}
}

// unknown returns the rows with new ids, each id once: they are neither known nor in other rows.
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

// sortRows sorts rows by time and id.
func sortRows(rows [][]any) {
	slices.SortFunc(rows, func(a, b []any) int {
		return cmp.Or(a[atColumn].(time.Time).Compare(b[atColumn].(time.Time)), cmp.Compare(a[idColumn].(string), b[idColumn].(string)))
	})
}

// sizeOf returns the size of the values in rows, in bytes.
func sizeOf(rows [][]any) (size int) {
	for _, row := range rows {
		for _, value := range row {
			text, _ := value.(string)
			size += 8 + len(text)
		}
	}
	return size
}
