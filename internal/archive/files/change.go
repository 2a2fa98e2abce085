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
	errChanged   = errors.New("another program changed the file at the same time")
	errUnchanged = errors.New("the rows do not change")
	errContended = errors.New("another program filed other data of the same hour at the same time")
)

// Other programs may change the same file or hour during a write. attempts is the maximum number of attempts.
const attempts = 20

// The function rows computes the new rows of an hour from its old rows.
type change struct {
	table table.Table
	rows  func(old [][]any) [][]any
}

type filing struct {
	*table.Hour
	changes  []change
	replaced bool
	// chained is set if the chain may need an entry for the hour. linked is the appended entry.
	chained bool
	linked  table.Entry
}

// Replace replaces the rows of an hour. It first removes the hour from the manifest, and adds it again last. Even after
// a crash, every hour in the manifest is therefore complete.
func (s *Sink) Replace(ctx context.Context, h *table.Hour) error {
	none := func([][]any) [][]any { return nil }
	changes := []change{{table.Hours, none}, {table.Corrections, none}}
	for _, t := range append(slices.Clone(table.Data), table.Hours) {
		changes = append(changes, change{t, func([][]any) [][]any { return t.Rows(h) }})
	}
	return s.apply(ctx, &filing{Hour: h, changes: changes, replaced: true, chained: true})
}

// Correct adds corrections of an hour after the earlier corrections, and replaces the hour's row in the manifest.
func (s *Sink) Correct(ctx context.Context, h *table.Hour) error {
	filed, err := s.hour(ctx, s.first(table.Hours, h.Cluster, h.Start), h.Start)
	if err != nil {
		return err
	}
	if len(filed) > 0 {
		h = h.Keep(filed[0])
	}
	return s.apply(ctx, &filing{Hour: h, chained: true, changes: []change{
		{table.Corrections, func(old [][]any) [][]any {
			earlier := slices.DeleteFunc(old, func(row []any) bool { return row[revisionColumn].(int64) >= h.Revision })
			return append(earlier, table.Corrections.Rows(h)...)
		}},
		{table.Hours, func([][]any) [][]any { return table.Hours.Rows(h) }},
	}})
}

// apply makes the changes in order. If two programs share a bucket, they may write different rows for an hour at the
// same time. Therefore apply finally checks that its changes are still there. If another program has overwritten them,
// apply makes them again.
func (s *Sink) apply(ctx context.Context, h *filing) error {
	if h.chained && s.signer == nil {
		if last, err := s.Head(ctx, h.Cluster); err != nil || last.Sequence > 0 {
			return errors.Join(err, unsigned(h.Cluster, last))
		}
	}
	for range attempts {
		tags, err := s.changeAll(ctx, h)
		if err != nil || !s.shared {
			return err
		}
		if kept, err := s.kept(ctx, h, tags); err != nil || kept {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	return errContended
}

// changeAll appends the entry to the chain before it writes the manifest. Every hour in the manifest therefore has an
// entry. It returns the new tags of the files.
func (s *Sink) changeAll(ctx context.Context, h *filing) (tags map[string]string, err error) {
	tags = make(map[string]string)
	for n, as := range s.formats {
		for i, c := range h.changes {
			if h.chained && s.signer != nil && n == 0 && i == len(h.changes)-1 {
				if h.linked, err = s.linkHour(ctx, h.Hour, h.replaced); err != nil {
					return nil, err
				}
			}
			f := dayFile(as, c.table, h.Cluster, h.Start)
			tag, err := s.update(ctx, f, h.Start, c.rows)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
			tags[f.name] = tag
		}
	}
	return tags, nil
}

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

// rewrite changes a file and returns its new tag. If another program changed the file at the same time, it starts
// again. If change returns errUnchanged, it does not write the file.
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

// kept reports whether the files still contain the rows of this program, and whether the entry of this program is still
// the hour's last entry in the chain. It reads only files with a changed tag.
func (s *Sink) kept(ctx context.Context, h *filing, tags map[string]string) (bool, error) {
	if h.linked.Sequence > 0 {
		if lasts, err := s.lasts(ctx, h.linked); err != nil || !lasts {
			return false, err
		}
	}
	last := make(map[string]change)
	for _, c := range h.changes {
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

func same(a, b [][]any) bool {
	return slices.EqualFunc(a, b, func(a, b []any) bool {
		return slices.EqualFunc(a, b, func(a, b any) bool { return table.Format(a) == table.Format(b) })
	})
}

// pause waits for a random time, so that programs that change the same file do not try again at the same time.
func pause(ctx context.Context) error {
	select {
	case <-time.After(rand.N(200 * time.Millisecond)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
