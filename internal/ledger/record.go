package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A Record is one part of the saved state: the book of a GPU without its accounts, the account of an owner without its
// process accounts, or the account of a process. An account belongs to the last book before it. A process account
// belongs to the last owner's account before it. Thus each record is small, even if the book has many accounts.
type Record struct {
	UUID    string         `json:"uuid,omitempty"` // UUID of the GPU, for a book
	Book    *BookState     `json:"book,omitempty"`
	Account *AccountRecord `json:"account,omitempty"`
	Process *ProcessRecord `json:"process,omitempty"`
}

// AccountRecord contains an account, with its times as numbers. The exporter writes hundreds of accounts every second.
// Formatting the times as text would take a sixth of the second.
type AccountRecord struct {
	gpu.Account
	Opened nanoseconds `json:"opened"`
}

// ProcessRecord contains the account of a process, with its times as numbers.
type ProcessRecord struct {
	gpu.ProcessAccount
	StartTime nanoseconds `json:"start_time"`
	Opened    nanoseconds `json:"opened"`
}

type nanoseconds int64

func newNanoseconds(t time.Time) nanoseconds {
	if t.IsZero() {
		return 0
	}
	return nanoseconds(t.UnixNano())
}

func (n nanoseconds) time() time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(n))
}

// UnmarshalJSON also accepts times as text, because earlier versions wrote text.
func (n *nanoseconds) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '"' {
		return json.Unmarshal(data, (*int64)(n))
	}
	var t time.Time
	err := json.Unmarshal(data, &t)
	*n = newNanoseconds(t)
	return err
}

// Records returns the parts of the state in the order that [Builder] requires. A record is valid only until the next
// record is returned.
func (s State) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for _, uuid := range slices.Sorted(maps.Keys(s.Books)) {
			if !s.Books[uuid].records(uuid, yield) {
				return
			}
		}
	}
}

func (b *BookState) records(uuid string, yield func(Record) bool) bool {
	if !yield(Record{UUID: uuid, Book: b}) {
		return false
	}
	var account AccountRecord
	var process ProcessRecord
	for _, a := range b.Accounts {
		account = AccountRecord{a, newNanoseconds(a.Opened)}
		if !yield(Record{Account: &account}) {
			return false
		}
		for _, p := range a.Processes {
			process = ProcessRecord{p, newNanoseconds(p.StartTime), newNanoseconds(p.Opened)}
			if !yield(Record{Process: &process}) {
				return false
			}
		}
	}
	return true
}

// A Builder restores a state from its records.
type Builder struct {
	State State
	book  *BookState // newest book
}

// Add adds the next record.
func (b *Builder) Add(r Record) error {
	switch {
	case r.Book != nil:
		return b.addBook(r)
	case r.Account != nil && b.book != nil:
		a := r.Account.Account
		a.Opened = r.Account.Opened.time()
		b.book.Accounts = append(b.book.Accounts, a)
	case r.Process != nil && b.book != nil && len(b.book.Accounts) > 0:
		a := &b.book.Accounts[len(b.book.Accounts)-1]
		p := r.Process.ProcessAccount
		p.StartTime, p.Opened = r.Process.StartTime.time(), r.Process.Opened.time()
		a.Processes = append(a.Processes, p)
	case r.Account != nil:
		return errors.New("invalid record: the account comes before the first book")
	case r.Process != nil:
		return errors.New("invalid record: the process account comes before the first owner's account of its book")
	default:
		return errors.New("invalid record: the record is empty")
	}
	return nil
}

func (b *Builder) addBook(r Record) error {
	if _, twice := b.State.Books[r.UUID]; twice {
		return fmt.Errorf("duplicate book of %s", r.UUID)
	}
	if b.State.Books == nil {
		b.State.Books = make(map[string]*BookState)
	}
	b.book = r.Book
	b.State.Books[r.UUID] = b.book
	return nil
}
