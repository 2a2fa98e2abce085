package files

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/permanent"
)

// maxIDs is the number of ids that are kept in memory. They take at most 40 bytes each.
const maxIDs = 1 << 20

// ErrFull is the error of an hour with so many rows that their ids are not kept.
var ErrFull = permanent.Error(errors.New("the hour has too many events: it takes no more"))

// index has the ids in the files of the hours that were used last. The files of other hours are read
// when rows are added to them.
type index struct {
	limit int                 // of the size
	hours map[string]*hourIDs // by the name of the first file
	uses  int
	size  int // sum of the sizes of the hours
}

// id is the digest of an id.
type id [16]byte

// hourIDs has the ids in an hour's files that are not read again.
type hourIDs struct {
	ids   map[id]struct{}
	limit int // of the ids
	parts int // full files
	// end is the end of the file that grows: -1 before it is read, 0 if it is missing.
	end int64

	used int // number of the last use
	size int // part of the index' size
}

// of returns the ids of an hour.
func (x *index) of(name string) *hourIDs {
	h := x.hours[name]
	if h == nil {
		h = &hourIDs{ids: make(map[id]struct{}), limit: x.limit, end: -1}
		x.hours[name] = h
	}
	x.uses++
	h.used = x.uses
	return h
}

// forget lets the files of an hour be read again.
func (x *index) forget(name string) {
	x.size -= x.hours[name].size
	delete(x.hours, name)
}

// hourSize is the size of an hour without ids, as a number of ids.
const hourSize = 16

// keep counts the ids of an hour. If there are too many, it forgets the ids of the hours that were not
// used for the longest time.
func (x *index) keep(name string) {
	h := x.hours[name]
	size := hourSize + len(h.ids)
	x.size, h.size = x.size+size-h.size, size
	if x.size <= x.limit {
		return
	}
	oldest := slices.SortedFunc(maps.Keys(x.hours), func(a, b string) int { return cmp.Compare(x.hours[a].used, x.hours[b].used) })
	for _, other := range oldest[:len(oldest)-1] {
		if x.forget(other); x.size <= x.limit/2 {
			return
		}
	}
}

// digest returns the digest of an id. A reader of CSV has no carriage return before the end of a line.
func digest(text string) id {
	sum := sha256.Sum256([]byte(strings.ReplaceAll(text, "\r\n", "\n")))
	return id(sum[:16])
}

func (h *hourIDs) add(text string) { h.ids[digest(text)] = struct{}{} }
