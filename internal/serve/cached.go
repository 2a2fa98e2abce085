package serve

import "net/http"

// maxCached is the maximum number of responses that are cached for different requests. Prometheus
// always sends the same request.
const maxCached = 4

// cached caches the responses of a handler until revision returns another number. The returned handler serves only one
// request at a time, so [shared] must call it.
func cached(revision func() uint64, handler http.Handler) http.Handler {
	answers := make(map[string]*answer)
	var of uint64 // revision of the cached responses
	var size int  // size of the last response, in bytes
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The revision is read before the page is rendered, so an old page is never cached for a new revision. If the
		// page changes between these two moments, the next request renders the new page again unnecessarily.
		now := revision()
		if now != of || len(answers) == maxCached {
			clear(answers)
			of = now
		}
		key := keyOf(r)
		a := answers[key]
		if a == nil {
			a = newAnswer(size)
			a.reset()
			handler.ServeHTTP(a, r)
			size = a.Len()
			if a.status == http.StatusOK {
				answers[key] = a
			}
		}
		a.send(w)
	})
}
