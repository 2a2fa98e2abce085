// Package chain makes changes to filed hours detectable. It adds entries to the chain of a cluster, signs checkpoints,
// and compares an archive with its chain.
package chain

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// ErrKey means that the next entry of a signed chain cannot be signed, because no key is set.
var ErrKey = errors.New("the chain of hours is signed: set --chain.key")

// Append returns signed entries that continue a chain. For a new chain, the last entry is zero.
func (s *Signer) Append(last table.Entry, entries []table.Entry) []table.Entry {
	all := slices.Clone(entries)
	now := time.Now().UTC().Truncate(time.Millisecond)
	for i := range all {
		e := &all[i]
		e.Sequence, e.Previous, e.At, e.Key = last.Sequence+1, last.Hash, now, s.id
		e.Hash = e.Digest()
		e.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(s.key, message(*e)))
		last = *e
	}
	return all
}

// message returns the bytes that the signature of a checkpoint covers.
func message(e table.Entry) []byte {
	return fmt.Appendf(nil, "gpuledger checkpoint\n%s\n%d\n%s\n%s\n", strconv.Quote(e.Cluster), e.Sequence, e.Hash, table.Format(e.At))
}

// Filed returns the entry for a filed hour. The function rows returns the rows of this hour in each table of
// [table.Chained].
func Filed(manifest []any, rows func(t table.Table) [][]any) table.Entry {
	return table.Entry{
		Cluster: manifest[0].(string), Hour: manifest[1].(time.Time).UTC(), Kind: table.HourEntry, State: table.StateIn(manifest),
		Rows: table.RowsDigest(rows), Manifest: table.ManifestDigest(manifest),
	}
}

// adopted returns the entry for an hour that was filed before the chain began. It does not read the rows, and must not
// be used for a corrected hour.
func adopted(manifest []any) table.Entry {
	return table.Entry{
		Cluster: manifest[0].(string), Hour: manifest[1].(time.Time).UTC(), Kind: table.AdoptedEntry, State: table.StateIn(manifest),
		Rows: table.FiledIn(manifest).Digest, Manifest: table.ManifestDigest(manifest),
	}
}

// Sums returns the entry for the sums of a month. filed contains the rows of this month in the manifest.
func Sums(cluster string, month time.Time, sums, filed [][]any) table.Entry {
	return table.Entry{
		Cluster: cluster, Hour: month, Kind: table.SumsEntry, State: table.Pruned,
		Rows: table.SumsDigest(sums), Manifest: table.PrunedDigest(filed),
	}
}

// Archive reads the data that Adopt requires.
type Archive interface {
	// Rows returns the rows of a cluster in a table, from one time up to, but not including, another.
	Rows(t table.Table, from, until time.Time) ([][]any, error)
}

// Adopt returns the first entries of a chain: an entry for each hour that was filed before the chain began, and an
// entry for the sums of each pruned month. manifest contains the rows of these hours, sorted by time.
func Adopt(cluster string, manifest [][]any, read Archive) (entries []table.Entry, err error) {
	corrections, err := read.Rows(table.Corrections, time.Time{}, time.Time{})
	if err != nil {
		return nil, err
	}
	pruned := make(map[time.Time]bool)
	for _, row := range manifest {
		hour := row[1].(time.Time).UTC()
		corrected := slices.ContainsFunc(corrections, func(c []any) bool { return c[1].(time.Time).Equal(hour) })
		e := adopted(row)
		if e.State == table.Pruned {
			pruned[table.Month(hour)] = true
		} else if corrected {
			if e, err = readHour(row, read); err != nil {
				return nil, err
			}
		}
		entries = append(entries, e)
	}
	for _, month := range slices.SortedFunc(maps.Keys(pruned), time.Time.Compare) {
		e, err := ReadSums(cluster, month, read)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// readHour reads the rows of an hour, and returns its entry.
func readHour(manifest []any, read Archive) (table.Entry, error) {
	hour := manifest[1].(time.Time)
	rows := make(map[string][][]any)
	for _, t := range table.Chained {
		var err error
		if rows[t.Name], err = read.Rows(t, hour, hour.Add(time.Hour)); err != nil {
			return table.Entry{}, err
		}
	}
	return Filed(manifest, func(t table.Table) [][]any { return rows[t.Name] }), nil
}

// ReadSums reads the sums of a month, and returns their entry.
func ReadSums(cluster string, month time.Time, read Archive) (table.Entry, error) {
	sums, err := read.Rows(table.MonthlyCharges, month, month.AddDate(0, 1, 0))
	if err != nil {
		return table.Entry{}, err
	}
	filed, err := read.Rows(table.Hours, month, month.AddDate(0, 1, 0))
	return Sums(cluster, month, sums, filed), err
}
