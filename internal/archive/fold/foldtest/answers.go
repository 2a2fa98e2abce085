package foldtest

import (
	"io"
	"net/http"
	"strings"
	"sync"
)

// These strings are the beginning and the end of a response that contains series.
const (
	Begin = `{"status":"success","data":{"result":[`
	End   = `]}}`
)

// Answers is a store that responds with any given text, which may be invalid.
type Answers struct {
	// Choose returns the index of the response to a request. If Choose is nil, queries get the first response, and
	// requests for lists of series get the second response.
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
