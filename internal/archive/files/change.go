package files

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

var (
	errChanged   = errors.New("another program changes it at the same time")
	errUnchanged = errors.New("the rows do not change")
	errContended = errors.New("another program files other data of the same hour at the same time")
)

// attempts is the maximum number of attempts to write a file or an hour that other programs change
// at the same time.
const attempts = 20

// change returns the new rows of an hour in a table.
type change struct {
	table table.Table
	rows  func(old [][]any) [][]any
}

// Replace files an hour. Its row in the manifest is removed first and written last, so every hour
// in the manifest is complete, even after a crash.
func (s *Sink) Replace(ctx context.Context, h *table.Hour) error {
	none := func([][]any) [][]any { return nil }
	changes := []change{{table.Hours, none}, {table.Corrections, none}}
	for _, t := range append(slices.Clone(table.Data), table.Hours) {
		changes = append(changes, change{t, func([][]any) [][]any { return t.Rows(h) }})
	}
	return s.apply(ctx, h, changes)
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

// apply makes changes in order. In a shared bucket it then checks that all changes were kept,
// because two programs may file different data of an hour at the same time. The program that
// finishes last repeats its changes.
func (s *Sink) apply(ctx context.Context, h *table.Hour, changes []change) error {
	for range attempts {
		tags := make(map[string]string)
		for _, as := range s.formats {
			for _, c := range changes {
				f := dayFile(as, c.table, h.Cluster, h.Start)
				tag, err := s.update(ctx, f, h.Start, c.rows)
				if err != nil {
					return fmt.Errorf("%s: %w", f.name, err)
				}
				tags[f.name] = tag
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
func (s *Sink) update(ctx context.Context, f file, hour time.Time, change func(old [][]any) [][]any) (string, error) {
	return s.rewrite(ctx, f, func(all [][]any) ([][]any, error) {
		n := len(all)
		before := of(all, hour)
		if f.table.Name == table.Hours.Name && len(before) > 0 && table.StateIn(before[0]) == table.Pruned {
			return nil, table.ErrPruned
		}
		rows := change(before)
		all = slices.DeleteFunc(all, func(row []any) bool { return row[hourColumn].(time.Time).Equal(hour) })
		if len(all) == n && len(rows) == 0 {
			return nil, errUnchanged
		}
		all = append(all, rows...)
		byHour(all)
		return all, nil
	})
}

// rewrite changes the rows of a file, and retries if another program changes the file at the same
// time. It returns the file's tag. The file is not written if change returns errUnchanged.
func (s *Sink) rewrite(ctx context.Context, f file, change func(rows [][]any) ([][]any, error)) (string, error) {
	for range attempts {
		rows, tag, err := s.read(ctx, f, "")
		if err != nil {
			return "", err
		}
		switch rows, err = change(rows); {
		case errors.Is(err, errUnchanged):
			return tag, nil
		case err != nil:
			return "", err
		}
		data, err := f.encode(rows)
		if err != nil {
			return "", err
		}
		if tag, err = s.storage.write(ctx, f.name, data, tag); !errors.Is(err, errChanged) {
			return tag, err
		}
		if err := pause(ctx); err != nil {
			return "", err
		}
	}
	return "", errChanged
}

// kept reports whether the files contain the rows of the last change of each table. A file with an
// unchanged tag is not read.
func (s *Sink) kept(ctx context.Context, h *table.Hour, changes []change, tags map[string]string) (bool, error) {
	last := make(map[string]change)
	for _, c := range changes {
		last[c.table.Name] = c
	}
	for _, as := range s.formats {
		for _, c := range last {
			f := dayFile(as, c.table, h.Cluster, h.Start)
			all, tag, err := s.read(ctx, f, tags[f.name])
			if err != nil {
				return false, err
			}
			if found := of(all, h.Start); tag != tags[f.name] && !same(found, c.rows(slices.Clone(found))) {
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
