// Package chain makes changes of archived hours detectable. Each cluster has a hash chain, which is a log of its
// archived hours. Each entry contains digests of an hour's rows, and the hash of the previous entry. The package signs
// checkpoints of chains, and compares an archive with its chains.
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

// ErrKey means that no key is set, so the next entry of a signed chain cannot be signed.
var ErrKey = errors.New("the chain of hours is signed: set --chain.key")

// Append signs the next entries of a chain. If the chain is new, last is zero.
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

// message returns the bytes that a signature covers.
func message(e table.Entry) []byte {
	return fmt.Appendf(nil, "gpuledger checkpoint\n%s\n%d\n%s\n%s\n", strconv.Quote(e.Cluster), e.Sequence, e.Hash, table.Format(e.At))
}

// Filed returns the entry for an archived hour. manifest is the hour's row in the manifest. rows returns the hour's
// rows in each table of [table.Chained].
func Filed(manifest []any, rows func(t table.Table) [][]any) table.Entry {
	return table.Entry{
		Cluster: manifest[0].(string), Hour: manifest[1].(time.Time).UTC(), Kind: table.HourEntry, State: table.StateIn(manifest),
		Rows: table.RowsDigest(rows), Manifest: table.ManifestDigest(manifest),
	}
}

// adopted returns the entry for an hour that was archived before the chain began. It does not read the rows, so it
// cannot handle a corrected hour.
func adopted(manifest []any) table.Entry {
	return table.Entry{
		Cluster: manifest[0].(string), Hour: manifest[1].(time.Time).UTC(), Kind: table.AdoptedEntry, State: table.StateIn(manifest),
		Rows: table.FiledIn(manifest).Digest, Manifest: table.ManifestDigest(manifest),
	}
}

// Sums returns the entry for the sums of a month. filed contains the rows of the month in the manifest.
func Sums(cluster string, month time.Time, sums, filed [][]any) table.Entry {
	return table.Entry{
		Cluster: cluster, Hour: month, Kind: table.SumsEntry, State: table.Pruned,
		Rows: table.SumsDigest(sums), Manifest: table.PrunedDigest(filed),
	}
}

// Archive reads the rows of one cluster.
type Archive interface {
	// Rows returns the rows of a table in [from, until). Zero times mean no limit.
	Rows(t table.Table, from, until time.Time) ([][]any, error)
}

// Adopt returns the first entries of a chain. It returns an entry for each hour that was archived before the chain
// began, and an entry for the sums of each pruned month. manifest contains the rows of these hours, sorted by time.
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

// ReadSums reads the monthly sums and returns their entry.
func ReadSums(cluster string, month time.Time, read Archive) (table.Entry, error) {
	sums, err := read.Rows(table.MonthlyCharges, month, month.AddDate(0, 1, 0))
	if err != nil {
		return table.Entry{}, err
	}
	filed, err := read.Rows(table.Hours, month, month.AddDate(0, 1, 0))
	return Sums(cluster, month, sums, filed), err
}
