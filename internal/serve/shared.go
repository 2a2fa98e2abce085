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

// maxSpare is the maximum size of a buffer that is kept for the next response, in bytes.
const maxSpare = 8 << 20

// shared renders one response at a time. Identical requests that arrive before the response is complete get the same
// response. So many scrapers need little more processor time than one scraper. A response is complete before it is
// sent, so a slow reader does not delay other readers.
//
// [promhttp.HandlerOpts.CoalesceGather] is not suitable. It would use the response of an earlier request until all
// clients have read this response. Overlapping scrapes would then see an old page.
func shared(making chan struct{}, handler http.Handler) http.Handler {
	var flights singleflight.Group
	var spare atomic.Pointer[answer] // buffer of a response that has been sent
	var last made                    // last response; guarded by making
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

// OneAtATime renders one response of a handler at a time. Identical requests that arrive before the response is
// complete get the same response. The response must not depend on headers other than Accept and Accept-Encoding.
func OneAtATime(handler http.Handler) http.Handler { return shared(make(chan struct{}, 1), handler) }

// keyOf returns a key for a request. Concurrent requests with equal keys get the same response.
func keyOf(r *http.Request) string {
	return strings.Join([]string{
		strings.Join(r.Header["Accept"], ","), strings.Join(r.Header["Accept-Encoding"], ","), r.URL.RawQuery,
	}, "\n")
}

type made struct {
	key  string
	size int // size of the response in bytes
}

// answer is a response in memory. It embeds the buffer, so that the encoder finds the buffer's methods
// and does not add a small buffer of its own.
type answer struct {
	bytes.Buffer
	header http.Header
	status int
}

// newAnswer returns an answer whose buffer is slightly larger than the expected size. If the buffer were slightly too
// small, it would grow to twice its size.
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

// send writes the response to a client. It is safe for concurrent use.
func (a *answer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header.Clone())
	w.Header().Set("Content-Length", strconv.Itoa(a.Len()))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.Bytes()) // an error means that the client disconnected
}
