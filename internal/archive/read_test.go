package archive

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
)

// Reading several hours together must give the same rows as reading each hour separately, even if scrapes have wrong
// values. It must also need fewer queries. A cluster that is gone has no hours.
func TestAhead(t *testing.T) {
	const hours = 15
	s := foldtest.NewStore()
	fleet := foldtest.NewFleet(s, noon, 9, 6)
	fleet.Wrong = 20
	fleet.Run(hours * 60)
	queries := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if query := r.FormValue("query"); strings.Contains(query, "__name__") && !strings.Contains(query, "node=") {
			queries++
		}
		foldtest.API{Store: s}.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	file := func(folder string, from, until time.Time) {
		t.Helper()
		c, err := Parse([]string{
			"--store.url=" + server.URL, "--cluster=east", "--folder=" + folder, "--from=" + from.Format(time.RFC3339), "--until=" + until.Format(time.RFC3339),
		})
		if err == nil {
			err = Once(t.Context(), c, noon.Add(100*time.Hour), slog.New(slog.DiscardHandler))
		}
		check(t, err)
	}
	ahead, hourly := t.TempDir(), t.TempDir()
	file(ahead, noon, noon.Add((hours+1)*time.Hour))
	if queries != 3 {
		t.Errorf("%d queries of samples, want 3 for %d hours", queries, hours+1)
	}
	for n := range hours {
		file(hourly, noon.Add(time.Duration(n)*time.Hour), noon.Add(time.Duration(n+1)*time.Hour))
	}
	if diff := cmp.Diff(content(t, hourly), content(t, ahead)); diff != "" {
		t.Errorf("files (-hour by hour +at once):\n%s", diff)
	}
}

func content(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	names, err := filepath.Glob(filepath.Join(folder, "*", "*", "*", "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("files %v, error %v", names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		check(t, err)
		all[strings.TrimPrefix(name, folder)] = string(text)
	}
	return all
}
