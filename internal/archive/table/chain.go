package table

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Entry is an entry in the hash chain of a cluster. The chain is an append-only log of archived hours. Only the last
// entry for an hour is valid.
type Entry struct {
	Cluster string
	// Hour is the start of the hour. In a [SumsEntry], it is the start of the month.
	Hour     time.Time
	Sequence int64 // number of the entry, starting at 1
	Kind     EntryKind
	At       time.Time // time at which the entry was appended, in milliseconds
	State    State     // state of the hour in the manifest
	// Rows is the digest of the hour's rows. Manifest is the digest of the hour's row in the manifest. See [EntryKind].
	Rows, Manifest string
	// Previous is the hash of the previous entry. It is empty in the first entry. Hash is the hash of this entry.
	Previous, Hash string
	// Key identifies the key that signed the entry. Key and Signature are empty in an unsigned entry.
	Key, Signature string
}

// EntryKind is the kind of change that an entry records.
type EntryKind string

// An entry has one of these kinds.
const (
	// HourEntry contains the [RowsDigest] and the [ManifestDigest] of an archived hour.
	HourEntry EntryKind = "hour"
	// AdoptedEntry records an hour that was archived before the chain began. Rows is the digest from the manifest.
	AdoptedEntry EntryKind = "adopted"
	// SumsEntry contains two digests of a month: of its rows in [MonthlyCharges], and of its pruned hours.
	SumsEntry EntryKind = "sums"
	// RenamedEntry records that an hour or a monthly sum now has another cluster name.
	RenamedEntry EntryKind = "renamed"
)

// Chain is the table of all chains. Rows are added, and never changed or deleted.
var Chain = func() Table {
	t := build("chain", "an entry in the chain of a cluster. The chain is an append-only log of the cluster's hours, and only the last entry for an hour is valid", nil,
		func(h *Hour) []Entry { return h.Entries }, chainFields...)
	t.Key = []string{"cluster", "sequence"}
	return t
}()

var chainFields = []Field[Entry]{
	integer("sequence", "number of the entry, from 1", func(e *Entry) *int64 { return &e.Sequence }),
	long("kind", "hour; adopted: an hour that was filed before the chain began; sums: the sums of a pruned month; renamed: an hour or month whose cluster was renamed", func(e *Entry) *string { return (*string)(&e.Kind) }),
	moment("filed_at", "time of the entry", func(e *Entry) *time.Time { return &e.At }),
	long("state", "state of the hour in the manifest", func(e *Entry) *string { return (*string)(&e.State) }),
	long("rows_digest", "SHA-256 of the rows of the hour and its corrections, or of the sums of the month", func(e *Entry) *string { return &e.Rows }),
	long("manifest_digest", "SHA-256 of the hour's row in the table hours, without the state; or of the pruned hours of the month", func(e *Entry) *string { return &e.Manifest }),
	long("previous", "hash of the previous entry, empty for the first entry", func(e *Entry) *string { return &e.Previous }),
	long("hash", "SHA-256 of this entry without its hash and signature", func(e *Entry) *string { return &e.Hash }),
	long("key_id", "SHA-256 of the public key, empty if the entry has no signature", func(e *Entry) *string { return &e.Key }),
	long("signature", "Ed25519 signature of this entry's checkpoint, in base64", func(e *Entry) *string { return &e.Signature }),
}

// EntryRows converts entries to rows of [Chain].
func EntryRows(entries ...Entry) (rows [][]any) {
	for i := range entries {
		e := &entries[i]
		rows = append(rows, Chain.Rows(&Hour{Cluster: e.Cluster, Start: e.Hour, Entries: entries[i : i+1]})...)
	}
	return rows
}

// EntryIn converts a row of [Chain] to an entry.
func EntryIn(row []any) Entry {
	e := Entry{Cluster: row[0].(string), Hour: row[1].(time.Time).UTC()}
	for i := range chainFields {
		chainFields[i].set(&e, row[i+2])
	}
	return e
}

// Digest returns the hash of an entry. It is the SHA-256 of all columns except the hash and the signature.
func (e *Entry) Digest() string {
	signed := *e
	signed.Hash, signed.Signature = "", ""
	return rowsDigest(Chain, EntryRows(signed))
}

// Chained contains the tables whose rows are part of [RowsDigest].
var Chained = append(slices.Clone(Data), Corrections)

// RowsDigest returns the digest of an hour's rows in the tables [Chained], in any order.
func RowsDigest(rows func(t Table) [][]any) string {
	sum := sha256.New()
	for _, t := range Chained {
		_, _ = io.WriteString(sum, t.Name+"\n")
		addRows(sum, t, rows(t))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// ManifestDigest returns the digest of an hour's row in the manifest. It omits the state, because a pruning changes the
// state.
func ManifestDigest(row []any) string {
	row = slices.Clone(row)
	row[Hours.index("reason")] = FiledIn(row).Reason
	row[Hours.index("state")] = ""
	return rowsDigest(Hours, [][]any{row})
}

// SumsDigest returns the digest of a month's rows in [MonthlyCharges].
func SumsDigest(rows [][]any) string { return rowsDigest(MonthlyCharges, rows) }

// PrunedDigest returns the digest of the pruned hours in the given rows of the manifest. The digest is over the cluster
// and the hour of each row.
func PrunedDigest(filed [][]any) string {
	var hours [][]any
	for _, row := range filed {
		if StateIn(row) == Pruned {
			hours = append(hours, row[:2])
		}
	}
	return rowsDigest(Hours, hours)
}

// AdoptedDigest returns the digest of an hour in the manifest (see [DigestRows]). It accepts the rows in any order.
func AdoptedDigest(rows func(t Table) [][]any) string {
	return DigestRows(func(t Table) [][]any { return inOrder(t, rows(t)) })
}

func rowsDigest(t Table, rows [][]any) string {
	sum := sha256.New()
	addRows(sum, t, rows)
	return hex.EncodeToString(sum.Sum(nil))
}

// addRows adds rows to a digest, sorted by their text. The text of a row is a line of column="value". It omits empty
// values and zeros, so that columns of later versions do not change the digest. A zero of the type [OptionalInt] is in
// the text, because it differs from an unknown number.
func addRows(to hash.Hash, t Table, rows [][]any) {
	lines := make([]string, len(rows))
	for i, row := range rows {
		var b strings.Builder
		for j, value := range row {
			if !isEmpty(value, t.Columns[j].Type) {
				b.WriteString(t.Columns[j].Name + "=" + strconv.Quote(Format(value)) + " ")
			}
		}
		lines[i] = b.String() + "\n"
	}
	slices.Sort(lines)
	for _, line := range lines {
		_, _ = io.WriteString(to, line)
	}
}

func isEmpty(value any, as Type) bool {
	at, isTime := value.(time.Time)
	return value == nil || value == "" || value == int64(0) && as != OptionalInt || isTime && at.IsZero()
}
