package ledger

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A Record is a piece of the saved state: the book of a GPU without its accounts, the account of an
// owner in the preceding book without its processes, or the account of a process in the preceding
// account. Records are small even if a book is large.
type Record struct {
	UUID    string              `json:"uuid,omitempty"` // of the book's GPU
	Book    *BookState          `json:"book,omitempty"`
	Account *gpu.Account        `json:"account,omitempty"`
	Process *gpu.ProcessAccount `json:"process,omitempty"`
}

// Records returns the pieces of the state in the order that Builder needs.
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
	for i := range b.Accounts {
		a := &b.Accounts[i]
		if !yield(Record{Account: a}) {
			return false
		}
		for j := range a.Processes {
			if !yield(Record{Process: &a.Processes[j]}) {
				return false
			}
		}
	}
	return true
}

// A Builder restores a state from its records.
type Builder struct {
	State State
	book  *BookState // the newest
}

// Add adds the next record.
func (b *Builder) Add(r Record) error {
	switch {
	case r.Book != nil:
		return b.addBook(r)
	case r.Account != nil && b.book != nil:
		b.book.Accounts = append(b.book.Accounts, *r.Account)
	case r.Process != nil && b.book != nil && len(b.book.Accounts) > 0:
		a := &b.book.Accounts[len(b.book.Accounts)-1]
		a.Processes = append(a.Processes, *r.Process)
	default:
		return errors.New("invalid record: empty, or an account without a book")
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
