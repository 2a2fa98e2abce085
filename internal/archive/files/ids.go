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

// maxIDs limits the ids in memory. Each id takes at most 40 bytes.
const maxIDs = 1 << 20

// ErrFull means that the ids of an hour do not fit in memory.
var ErrFull = permanent.Error(errors.New("the hour has too many events: new events are rejected"))

// index caches the ids of events in the most recently used hours. The ids of other hours are read from their files.
type index struct {
	limit int                 // upper limit for size
	hours map[string]*hourIDs // ids by the name of the hour's first file
	uses  int
	size  int // sum of all hourIDs.size
}

// id is the digest of an event's id.
type id [16]byte

type hourIDs struct {
	ids   map[id]struct{}
	limit int // maximum number of ids
	parts int // number of full files
	// end is the offset after the last complete row in the last file. It is -1 if the file has not been read, and 0 if
	// there is no file.
	end int64

	used int // value of index.uses at the last use
	size int // size that index.size includes
}

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

func (x *index) forget(name string) {
	x.size -= x.hours[name].size
	delete(x.hours, name)
}

// An hour without ids needs as much memory as this number of ids.
const hourSize = 16

// keep updates the sizes after ids were added. If the index is too large, it removes the least recently used hours.
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

// digest ignores a carriage return before a line break. CSV readers remove such carriage returns.
func digest(text string) id {
	sum := sha256.Sum256([]byte(strings.ReplaceAll(text, "\r\n", "\n")))
	return id(sum[:16])
}

func (h *hourIDs) add(text string) { h.ids[digest(text)] = struct{}{} }

func (h *hourIDs) addRows(rows [][]any) {
	for _, row := range rows {
		h.add(row[idColumn].(string))
	}
}
