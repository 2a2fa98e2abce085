package serve

import "net/http"

// maxCached is how many answers to different requests are kept. Prometheus makes one kind.
const maxCached = 4

// cached keeps the answers of a handler while revision stays the same. It serves one request
// at a time, as [shared] asks it to.
func cached(revision func() uint64, handler http.Handler) http.Handler {
	answers := make(map[string]*answer)
	var of uint64
	var size int // of the last answer
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Before the page is made: a page that is newer than its revision is made once more.
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
