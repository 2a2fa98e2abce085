package foldtest

import (
	"io"
	"net/http"
	"strings"
	"sync"
)

// A response with series begins with Begin, and ends with End.
const (
	Begin = `{"status":"success","data":{"result":[`
	End   = `]}}`
)

// Answers is a store that responds with given texts, which may be invalid.
type Answers struct {
	// Choose returns the index of the response. If Choose is nil, the response to a query has the index 0, and the
	// response to a request for a list of series has the index 1.
	Choose func(r *http.Request) int

	mu    sync.Mutex
	texts []string
}

// Set replaces the responses.
func (a *Answers) Set(texts ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.texts = texts
}

// ServeHTTP implements [http.Handler].
func (a *Answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := 0
	switch {
	case a.Choose != nil:
		n = a.Choose(r)
	case strings.HasSuffix(r.URL.Path, "/series"):
		n = 1
	}
	a.mu.Lock()
	text := a.texts[n]
	a.mu.Unlock()
	_, _ = io.WriteString(w, text)
}
