package archive

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// FuzzOnce checks that no answers of a store make a whole run of once panic, or take long: it files an
// hour, or returns an error.
func FuzzOnce(f *testing.F) {
	const begin, end = `{"status":"success","data":{"result":[`, `]}}`
	one := begin + `{"metric":{"cluster":"c","node":"n"},"value":[1,"1"]}` + end
	f.Add(one, begin+`{"metric":{},"value":[1,"NaN"]}`+end, one)
	f.Add(one, begin+`{"metric":{},"value":[1,"1e18"]}`+end, one)
	f.Add(one, begin+`{"metric":{},"value":[1,"20000"]}`+end, begin+`{"metric":{"__name__":"gpuledger_placement_info","UUID":"u","node":"n"},"values":[[1772355660,"1"]]}`+end)
	f.Add(one, one, begin+`{"metric":{"__name__":"gpuledger_board_energy_joules_total","node":"n","UUID":"u"},"values":[[1772355660,"1"],[1772355720,"1e300"],[1772355780,"-5"]]}`+end)
	var answers [3]atomic.Pointer[string]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := &answers[2]
		switch query := r.FormValue("query"); {
		case strings.HasPrefix(query, "group"):
			body = &answers[0]
		case strings.HasPrefix(query, "count"):
			body = &answers[1]
		}
		_, _ = io.WriteString(w, *body.Load())
	}))
	f.Cleanup(server.Close)
	f.Fuzz(func(t *testing.T, groups, count, samples string) {
		for i, text := range []string{groups, count, samples} {
			answers[i].Store(&text)
		}
		c, err := Parse([]string{"once", "--folder=" + t.TempDir(), "--store.url=" + server.URL, "--store.timeout=10s", "--from=2026-03-01T09", "--until=2026-03-01T10"})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_ = Once(t.Context(), c, noon, slog.New(slog.DiscardHandler))
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the run takes %v", took)
		}
	})
}
