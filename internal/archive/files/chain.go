package files

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// The hash chain of a cluster is stored in CSV files. Each file contains the entries of about a week:
//
//	chain/cluster=east/chain-0000000257.csv
//
// The number is the sequence number of the first entry in the file. If several programs append an entry with the same
// number, only one write succeeds, because all of them write the same file.

// chainLength is the number of entries in a full file.
const chainLength = 256

func chainFile(cluster string, first int64) file {
	return file{formats[0], table.Chain, path.Join(table.Chain.Name, clusterFolder(cluster), fmt.Sprintf("%s-%010d.csv", table.Chain.Name, first))}
}

func chainFiles(ctx context.Context, s storage, cluster string) (all []file, err error) {
	found, err := find(ctx, s, path.Join(table.Chain.Name, clusterFolder(cluster)), false)
	for _, f := range found {
		if strings.HasSuffix(f.name, ".csv") {
			all = append(all, file{formats[0], table.Chain, f.name})
		}
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return all, err
}

// SignWith sets the key that signs the chain. A sink without a key keeps no chain.
func (s *Sink) SignWith(signer *chain.Signer) { s.signer = signer }

// Head returns the last entry of a cluster's chain. It returns the zero entry if the chain is empty.
func (s *Sink) Head(ctx context.Context, cluster string) (table.Entry, error) {
	last, _, _, err := s.tail(ctx, cluster)
	return last, err
}

// tail returns the last entry of a chain, its file, and the rows of this file.
func (s *Sink) tail(ctx context.Context, cluster string) (last table.Entry, f file, rows [][]any, err error) {
	found, err := chainFiles(ctx, s.storage, cluster)
	if err != nil || len(found) == 0 {
		return last, f, nil, err
	}
	f = found[len(found)-1]
	if rows, err = s.rows(ctx, f); err == nil && len(rows) > 0 {
		last = table.EntryIn(rows[len(rows)-1])
	}
	return last, f, rows, err
}

// link appends entries to the chain of a cluster, and returns the signed entries. The first call for a cluster also
// appends entries for the hours in the manifest.
func (s *Sink) link(ctx context.Context, cluster string, entries ...table.Entry) ([]table.Entry, error) {
	for range attempts {
		last, f, rows, err := s.tail(ctx, cluster)
		if err != nil {
			return nil, err
		}
		if s.signer == nil {
			return nil, unsigned(cluster, last)
		}
		all := entries
		if last.Sequence == 0 {
			adopted, err := s.adopt(ctx, cluster, entries)
			if err != nil {
				return nil, fmt.Errorf("chain of earlier hours: %w", err)
			}
			all = append(adopted, entries...)
		}
		if len(all) == 0 {
			return nil, nil
		}
		all = s.signer.Append(last, all)
		if err = s.extendChain(ctx, cluster, f, rows, all); err == nil {
			return all[len(all)-len(entries):], nil
		}
		if !errors.Is(err, errChanged) {
			return nil, err
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
	return nil, errChanged
}

// unsigned returns an error if the chain has entries. New entries must then be signed, but there is no key.
func unsigned(cluster string, last table.Entry) error {
	if last.Sequence == 0 {
		return nil
	}
	return fmt.Errorf("cluster %s: %w", cluster, chain.ErrKey)
}

// If another program has appended entries, extendChain returns errChanged.
func (s *Sink) extendChain(ctx context.Context, cluster string, f file, known [][]any, entries []table.Entry) error {
	if len(known) == 0 || len(known) >= chainLength {
		f, known = chainFile(cluster, entries[0].Sequence), nil
	}
	rows, tag, err := s.read(ctx, f, "")
	if err != nil {
		return err
	}
	if !same(rows, known) {
		return errChanged
	}
	data, err := f.encode(append(rows, table.EntryRows(entries...)...))
	if err != nil {
		return err
	}
	_, err = s.storage.write(ctx, f.name, data, tag)
	return err
}

// adopt returns entries for the hours in the manifest. It omits hours with an entry in except.
func (s *Sink) adopt(ctx context.Context, cluster string, except []table.Entry) ([]table.Entry, error) {
	var read chained
	var filed [][]any
	for _, as := range append(slices.Clone(s.formats), formats...) {
		read = chained{ctx, s.reader(as), cluster}
		found, err := read.Rows(table.Hours, time.Time{}, time.Time{})
		if err != nil {
			return nil, err
		}
		if filed = found; len(filed) > 0 {
			break
		}
	}
	filed = slices.DeleteFunc(filed, func(row []any) bool {
		return slices.ContainsFunc(except, func(e table.Entry) bool {
			return e.Hour.Equal(row[hourColumn].(time.Time)) && e.Kind == table.HourEntry
		})
	})
	return chain.Adopt(cluster, filed, read)
}

func (s *Sink) reader(as format) *Reader { return &Reader{storage: s.storage, format: as} }

// linkHour appends the entry for an hour. It computes the entry from the rows in the first format. replaced is set if h
// contains all rows of the hour.
func (s *Sink) linkHour(ctx context.Context, h *table.Hour, replaced bool) (table.Entry, error) {
	rows := make(map[string][][]any)
	for _, t := range table.Chained {
		if replaced {
			if t.Name != table.Corrections.Name {
				rows[t.Name] = t.Rows(h)
			}
			continue
		}
		found, err := s.hour(ctx, s.first(t, h.Cluster, h.Start), h.Start)
		if err != nil {
			return table.Entry{}, err
		}
		rows[t.Name] = found
	}
	entries, err := s.link(ctx, h.Cluster, chain.Filed(table.Hours.Rows(h)[0], func(t table.Table) [][]any { return rows[t.Name] }))
	if err != nil {
		return table.Entry{}, fmt.Errorf("chain: %w", err)
	}
	return entries[0], nil
}

// linkSums appends the entry for the monthly sums after a pruning. If the chain has an entry for this month, linkSums
// appends another entry only if again is set.
func (s *Sink) linkSums(ctx context.Context, as format, cluster string, month time.Time, again bool) error {
	entries, err := s.reader(as).Entries(ctx, cluster)
	if err != nil {
		return err
	}
	_, sums := chain.Last(entries)
	if _, known := sums[month.Unix()]; known && !again {
		return nil
	}
	e, err := chain.ReadSums(cluster, month, chained{ctx, s.reader(as), cluster})
	if err != nil {
		return err
	}
	if e.Manifest == table.PrunedDigest(nil) {
		return nil // no hour of the month is pruned
	}
	_, err = s.link(ctx, cluster, e)
	return err
}

// lasts reports whether e has the same content as the chain's last entry for the hour.
func (s *Sink) lasts(ctx context.Context, e table.Entry) (bool, error) {
	entries, err := s.reader(s.formats[0]).Entries(ctx, e.Cluster)
	if err != nil {
		return false, err
	}
	hours, _ := chain.Last(entries)
	last := hours[e.Hour.Unix()]
	return last.Rows == e.Rows && last.Manifest == e.Manifest && last.State == e.State, nil
}

// chained is a [chain.Archive] of one cluster.
type chained struct {
	ctx     context.Context
	reader  *Reader
	cluster string
}

func (c chained) Rows(t table.Table, from, until time.Time) ([][]any, error) {
	if !from.IsZero() {
		return c.reader.Between(c.ctx, t, c.cluster, from, until)
	}
	days, err := daysIn(c.ctx, c.reader.storage, t, clusterFolder(c.cluster))
	if err != nil {
		return nil, err
	}
	var all [][]any
	for _, day := range days {
		rows, err := c.reader.Between(c.ctx, t, c.cluster, day, day.AddDate(0, 0, 1))
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, nil
}

// Filled implements [chain.Source].
func (r *Reader) Filled(ctx context.Context) (map[string][]time.Time, error) {
	days := make(map[string]map[time.Time]bool)
	for _, t := range append(slices.Clone(table.Chained), table.Hours, table.MonthlyCharges, table.Chain) {
		folders, err := clustersIn(ctx, r.storage, t)
		if err != nil {
			return nil, err
		}
		for folder, cluster := range folders {
			if _, err := clusterOf(folder); err != nil {
				return nil, fmt.Errorf("%s/%s: %w", t.Name, folder, err)
			}
			if days[cluster] == nil {
				days[cluster] = make(map[time.Time]bool)
			}
			found, err := daysIn(ctx, r.storage, t, folder)
			if err != nil {
				return nil, err
			}
			for _, day := range found {
				days[cluster][day] = true
			}
		}
	}
	all := make(map[string][]time.Time)
	for cluster, found := range days {
		all[cluster] = slices.Collect(maps.Keys(found))
	}
	return all, nil
}

// Entries implements [chain.Source].
func (r *Reader) Entries(ctx context.Context, cluster string) (all []table.Entry, err error) {
	found, err := chainFiles(ctx, r.storage, cluster)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		rows, err := r.decode(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			all = append(all, table.EntryIn(row))
		}
	}
	return all, nil
}

// Between implements [chain.Source].
func (r *Reader) Between(ctx context.Context, t table.Table, cluster string, from, until time.Time) (all [][]any, err error) {
	for day := table.Day(from); day.Before(until); day = day.AddDate(0, 0, 1) {
		rows, err := r.decode(ctx, dayFile(r.format, t, cluster, day))
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			at := row[hourColumn].(time.Time)
			if misplaced := row[0] != cluster || !table.Day(at).Equal(day); misplaced || !at.Before(from) && at.Before(until) {
				all = append(all, row)
			}
		}
		if t.Name == table.MonthlyCharges.Name {
			break // the sums of a month are in one file
		}
	}
	return all, nil
}

// decode returns no rows for a missing file.
func (r *Reader) decode(ctx context.Context, f file) (rows [][]any, err error) {
	in, _, err := r.storage.open(ctx, f.name, "")
	if err != nil || in == nil {
		return nil, err
	}
	defer in.Close()
	d, err := f.open(in, f.table)
	if err == nil {
		rows, err = f.rows(d)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	return rows, nil
}

// Formats returns a reader for each format with files in the archive.
func (r *Reader) Formats(ctx context.Context) (all []*Reader, err error) {
	names, err := r.hours(ctx)
	if err != nil {
		return nil, err
	}
	for _, as := range formats {
		of := &Reader{storage: r.storage, place: r.place, format: as}
		if slices.ContainsFunc(names, of.hasFormat) {
			all = append(all, of)
		}
	}
	return all, nil
}

// Format returns the name of the file format.
func (r *Reader) Format() string { return r.format.name }
