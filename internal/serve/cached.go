package serve

import "net/http"

// maxCached is the number of responses to different requests that are cached. Prometheus sends one
// kind of request.
const maxCached = 4

// cached keeps the responses of a handler while revision is unchanged. It serves one request at a
// time, because [shared] requires this.
func cached(revision func() uint64, handler http.Handler) http.Handler {
	answers := make(map[string]*answer)
	var of uint64
	var size int // revision of the last response
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The revision is read before rendering. If the page changes in between, it is rendered again
		// although this is unnecessary, but an old page is never cached.
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
