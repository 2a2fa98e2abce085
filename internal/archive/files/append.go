package files

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// The columns of [table.Appended] after cluster and hour.
const (
	atColumn = 2
	idColumn = 3
)

// Append adds rows to one of [table.Appended], except those whose key is there already. Each hour has
// a file, because a file is written again with each addition.
func (s *Sink) Append(ctx context.Context, t table.Table, rows [][]any) error {
	files := make(map[string][][]any)
	for _, row := range rows {
		name := hourFile(t, row)
		files[name] = append(files[name], row)
	}
	for name, rows := range files {
		for _, as := range s.formats {
			if err := s.add(ctx, as, t, name+"."+as.name, rows); err != nil {
				return fmt.Errorf("%s.%s: %w", name, as.name, err)
			}
		}
	}
	return nil
}

// hourFile returns the name of the file with a row, without an extension.
func hourFile(t table.Table, row []any) string {
	cluster, hour := row[0].(string), row[hourColumn].(time.Time).UTC()
	return path.Join(t.Name, "cluster="+url.PathEscape(cluster), "date="+hour.Format(time.DateOnly), t.Name+hour.Format("-15"))
}

// add adds rows to a file.
func (s *Sink) add(ctx context.Context, as format, t table.Table, name string, rows [][]any) error {
	for range attempts {
		all, tag, err := s.read(ctx, as, t, name, "")
		if err != nil {
			return err
		}
		n := len(all)
		if all = merge(all, rows); len(all) == n {
			return nil
		}
		var data bytes.Buffer
		if err := as.write(&data, t, all); err != nil {
			return err
		}
		if _, err := s.bucket.write(ctx, name, data.Bytes(), tag); !errors.Is(err, errChanged) {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	return errChanged
}

// merge returns the rows of a file and those of the others that have another id, by time and id.
func merge(rows, others [][]any) [][]any {
	known := make(map[any]bool, len(rows))
	for _, row := range rows {
		known[row[idColumn]] = true
	}
	for _, row := range others {
		if !known[row[idColumn]] {
			known[row[idColumn]] = true
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b []any) int {
		return cmp.Or(a[atColumn].(time.Time).Compare(b[atColumn].(time.Time)), cmp.Compare(a[idColumn].(string), b[idColumn].(string)))
	})
	return rows
}
