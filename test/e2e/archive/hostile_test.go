//go:build e2e

package archive_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// honestResponses is the mean number of honest responses between two hostile responses. The archive needs only dozens
// of requests for an hour, so for some hours it receives only honest responses.
const honestResponses = 64

type hostileStore struct {
	honest    http.Handler
	hostile   atomic.Bool
	responses atomic.Int64 // number of hostile responses
	mu        sync.Mutex
	rand      *rand.Rand
}

func (s *hostileStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	kind := s.rand.IntN(honestResponses * len(corruptions))
	s.mu.Unlock()
	if !s.hostile.Load() || kind >= len(corruptions) {
		s.honest.ServeHTTP(w, r)
		return
	}
	s.responses.Add(1)
	recorded := httptest.NewRecorder()
	s.honest.ServeHTTP(recorded, r)
	corruptions[kind](w, recorded.Body.Bytes())
}

var values = regexp.MustCompile(`,"[0-9.]+"\]`)

func replaced(value string) func(http.ResponseWriter, []byte) {
	return func(w http.ResponseWriter, body []byte) {
		_, _ = w.Write(values.ReplaceAll(body, []byte(`,"`+value+`"]`)))
	}
}

// one returns a corruption that replaces the value in the middle of a response.
func one(value string) func(http.ResponseWriter, []byte) {
	return func(w http.ResponseWriter, body []byte) {
		found := values.FindAllIndex(body, -1)
		if len(found) == 0 {
			_, _ = w.Write(body)
			return
		}
		at := found[len(found)/2]
		_, _ = w.Write(body[:at[0]])
		_, _ = io.WriteString(w, `,"`+value+`"]`)
		_, _ = w.Write(body[at[1]:])
	}
}

// endless returns a corruption that repeats a string until the client closes the connection, but for at most three
// seconds.
func endless(text string) func(http.ResponseWriter, []byte) {
	return func(w http.ResponseWriter, body []byte) {
		_, _ = w.Write(bytes.TrimSuffix(body[:len(body)/2], []byte{'"'}))
		chunk := []byte(strings.Repeat(text, 1<<16/len(text)))
		for until := time.Now().Add(3 * time.Second); time.Now().Before(until); {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
}

var corruptions = []func(w http.ResponseWriter, body []byte){
	replaced("NaN"), replaced("+Inf"), replaced("1e308"), replaced("-1"), replaced("1e18"),
	one("0"), one("-1"), one("9.3e18"), one("1e308"), one("+Inf"), one("1e999999"),
	endless("x"), endless(`{"metric":{"a":"`), endless("["), endless(`\`),
	func(w http.ResponseWriter, body []byte) { _, _ = w.Write(body[:len(body)*2/3]) },
	func(w http.ResponseWriter, _ []byte) { http.Error(w, "no", http.StatusInternalServerError) },
	func(w http.ResponseWriter, body []byte) {
		_, _ = io.WriteString(w, `{"isPartial":true,`+string(body[1:]))
	},
	func(w http.ResponseWriter, body []byte) {
		_, _ = io.WriteString(w, `{"warnings":["a store is missing"],`+string(body[1:]))
	},
	func(w http.ResponseWriter, _ []byte) {
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
	},
	func(w http.ResponseWriter, _ []byte) { <-time.After(6 * time.Second) },
}

type attack struct {
	archive  *chaosArchive
	mu       sync.Mutex
	statuses map[int]int // number of requests by status
}

func (a *attack) run(random *rand.Rand, stop <-chan struct{}) {
	for n := 0; ; n++ {
		status := a.one(random, n)
		a.mu.Lock()
		a.statuses[status]++
		a.mu.Unlock()
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(random.IntN(100)) * time.Millisecond):
		}
	}
}

func hostileEvent(id, at string) string {
	return fmt.Sprintf(`{"event":"phase","id":%q,"at":%q,"namespace":"ml","pod":"p"}`+"\n", id, at)
}

func (a *attack) one(random *rand.Rand, n int) int {
	now, id := time.Now().UTC().Format(time.RFC3339), fmt.Sprintf("hostile-%d-%d", random.Uint64(), n)
	good := hostileEvent(id, now)
	post := func(cluster, token, encoding, body string) int {
		return a.archive.post(cluster, token, encoding, strings.NewReader(body))
	}
	switch random.IntN(14) {
	case 0:
		return post(strings.Repeat("A", 253), chaosToken, "", good)
	case 1:
		return post(strings.Repeat("%25", 100), chaosToken, "", good)
	case 2:
		return post("west", chaosToken, "", good)
	case 3:
		return post("east", "wrong", "", good)
	case 4:
		return post("east", chaosToken, "gzip", zipped(good)[:10])
	case 5:
		return post("east", chaosToken, "gzip", "")
	case 6:
		return post("east", chaosToken, "gzip", bomb())
	case 7:
		return post("east", chaosToken, "", strings.Repeat(" ", 9<<20))
	case 8: // one event in each month
		var text strings.Builder
		for month := range 200 {
			text.WriteString(hostileEvent(fmt.Sprint(id, "-", month), time.Date(2015, time.Month(month), 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339)))
		}
		return post("east", chaosToken, "", text.String())
	case 9:
		return post("east", chaosToken, "", strings.Replace(good, `"pod":"p"`, `"restarts":1e999999,"pod":"p"`, 1))
	case 10:
		return post("east", chaosToken, "", strings.Repeat("[", 1<<16))
	case 11:
		return post("east", chaosToken, "", hostileEvent(strings.Repeat("i", 300), now))
	case 12: // texts that sinks may reject
		return post("east", chaosToken, "", strings.Replace(good, `"pod":"p"`, `"pod":"\u0000\ud800\u202e"`, 1))
	default: // many events at once
		var text strings.Builder
		for i := range 25_000 {
			text.WriteString(hostileEvent(fmt.Sprint("many-", i), now))
		}
		return post("east", chaosToken, "gzip", zipped(text.String()))
	}
}

// bomb returns a compressed text that is a thousand times longer when it is decompressed.
var bomb = sync.OnceValue(func() string { return zipped(strings.Repeat(" ", 32<<20)) })

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}
