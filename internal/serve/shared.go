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

// shared makes the answers to requests for the same page one after the other: those that
// come while one is made get that one. So many scrapers cost little more than one, and an
// answer is complete before it is sent: no reader, however slow, holds up what others
// get.
//
// [promhttp.HandlerOpts.CoalesceGather] is no way to this. There, requests join those
// before them for as long as one of these is still being read, so that the page stands
// still while scrapes overlap.
func shared(handler http.Handler) http.Handler {
	var flights singleflight.Group
	var size atomic.Int64 // of the last answer
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.Join([]string{
			strings.Join(r.Header["Accept"], ","), strings.Join(r.Header["Accept-Encoding"], ","), r.URL.RawQuery,
		}, "\n")
		made, _, _ := flights.Do(key, func() (any, error) {
			a := &answer{header: make(http.Header), status: http.StatusOK}
			a.Grow(int(size.Load()))
			handler.ServeHTTP(a, r)
			size.Store(int64(a.Len() + a.Len()/16))
			return a, nil
		})
		made.(*answer).send(w)
	})
}

// answer is a response in memory. It has the methods of a buffer, which the encoder looks
// for: else it would write through a small one of its own.
type answer struct {
	bytes.Buffer
	header http.Header
	status int
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) { a.status = status }

// send may be called by many at once.
func (a *answer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.Header().Set("Content-Length", strconv.Itoa(a.Len()))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.Bytes()) // an error here is the client's going away
}
