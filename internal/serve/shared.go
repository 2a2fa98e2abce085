package serve

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/singleflight"
)

// maxSpare bounds the memory that is kept for the next answer.
const maxSpare = 8 << 20

// shared makes the answers to requests one after the other: those that come while one to
// the same request is made get that one. So many scrapers cost little more than one, and an
// answer is complete before it is sent: no reader, however slow, holds up what others
// get.
//
// [promhttp.HandlerOpts.CoalesceGather] is no way to this. There, requests join those
// before them for as long as one of these is still being read, so that the page stands
// still while scrapes overlap.
func shared(making chan struct{}, handler http.Handler) http.Handler {
	var flights singleflight.Group
	var spare atomic.Pointer[answer] // what nobody reads any more
	var last made                    // by who is making
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := keyOf(r)
		flight, _, others := flights.Do(key, func() (any, error) {
			making <- struct{}{}
			defer func() { <-making }()
			room := 0
			if last.key == key {
				room = last.size
			}
			a := spare.Swap(nil)
			if a == nil || a.Cap() < room {
				a = newAnswer(room)
			}
			a.reset()
			handler.ServeHTTP(a, r)
			last = made{key, a.Len()}
			return a, nil
		})
		a := flight.(*answer)
		a.send(w)
		if !others && a.Cap() <= maxSpare {
			spare.Store(a)
		}
	})
}

// keyOf returns what requests have in common that get the same answer.
func keyOf(r *http.Request) string {
	return strings.Join([]string{
		strings.Join(r.Header["Accept"], ","), strings.Join(r.Header["Accept-Encoding"], ","), r.URL.RawQuery,
	}, "\n")
}

// made is how large an answer was.
type made struct {
	key  string
	size int // in bytes
}

// answer is a response in memory. It has the methods of a buffer, which the encoder looks
// for: else it would write through a small one of its own.
type answer struct {
	bytes.Buffer
	header http.Header
	status int
}

// newAnswer returns an answer with room for so many bytes and a few more: a buffer without
// would double again and again, and so would one that is told to grow.
func newAnswer(room int) *answer {
	return &answer{Buffer: *bytes.NewBuffer(make([]byte, 0, room+room/16))}
}

func (a *answer) reset() {
	a.Reset()
	a.header, a.status = make(http.Header), http.StatusOK
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) { a.status = status }

// send may be called by many at once.
func (a *answer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header.Clone())
	w.Header().Set("Content-Length", strconv.Itoa(a.Len()))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.Bytes()) // an error here is the client's going away
}
