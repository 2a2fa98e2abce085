package foldtest

import (
	"io"
	"net/http"
	"strings"
	"sync"
)

// These are the texts before and after the series in an answer to a query.
const (
	Begin = `{"status":"success","data":{"result":[`
	End   = `]}}`
)

// Answers is a store that answers with arbitrary texts, which may be invalid.
type Answers struct {
	// Choose returns the index of the text that answers a request. If Choose is nil, the first text answers queries, and
	// the second text answers requests for lists of series.
	Choose func(r *http.Request) int

	mu    sync.Mutex
	texts []string
}

// Set replaces the texts.
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
