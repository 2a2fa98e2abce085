package archive

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
)

// For any response of the store, Once must archive the hour or return an error. It must not panic or take long.
func FuzzOnce(f *testing.F) {
	const begin, end = foldtest.Begin, foldtest.End
	one := begin + `{"metric":{"cluster":"c","node":"n"},"value":[1,"1"]}` + end
	f.Add(one, begin+`{"metric":{},"value":[1,"NaN"]}`+end, one)
	f.Add(one, begin+`{"metric":{},"value":[1,"1e18"]}`+end, one)
	f.Add(one, begin+`{"metric":{},"value":[1,"20000"]}`+end, begin+`{"metric":{"__name__":"gpuledger_placement_info","UUID":"u","node":"n"},"values":[[1772355660,"1"]]}`+end)
	f.Add(one, one, begin+`{"metric":{"__name__":"gpuledger_board_energy_joules_total","node":"n","UUID":"u"},"values":[[1772355660,"1"],[1772355720,"1e300"],[1772355780,"-5"]]}`+end)
	answers := &foldtest.Answers{Choose: func(r *http.Request) int {
		switch query := r.FormValue("query"); {
		case strings.HasPrefix(query, "group"):
			return 0
		case strings.HasPrefix(query, "count"):
			return 1
		}
		return 2
	}}
	server := httptest.NewServer(answers)
	f.Cleanup(server.Close)
	f.Fuzz(func(t *testing.T, groups, count, samples string) {
		answers.Set(groups, count, samples)
		c, err := Parse([]string{"once", "--folder=" + t.TempDir(), "--store.url=" + server.URL, "--store.timeout=10s", "--from=2026-03-01T09", "--until=2026-03-01T10"})
		check(t, err)
		began := time.Now()
		_ = Once(t.Context(), c, noon, slog.New(slog.DiscardHandler))
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the run takes %v", took)
		}
	})
}
