//go:build e2e

package archive_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// noCgroup is the exit status of the script limit-memory if it cannot create a cgroup.
const noCgroup = 75

// TestMemoryLimit runs the archive in a cgroup with the memory limit of its Deployment. The stores return endless
// responses. The archive must refuse the hour or report an error of the store. It must not exceed the limit.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	const begin = `{"status":"success","data":{"resultType":"vector","result":[`
	series := func(i int) string {
		return fmt.Sprintf(`{"metric":{"cluster":"east","node":"n%d","UUID":"GPU-%d","pod":"%s"},"values":[[1,"1"]]},`, i, i, strings.Repeat("x", 200))
	}
	tests := map[string]struct {
		start string
		more  func(i int) string // part i of the endless rest of the response
	}{
		"text":         {begin + `{"metric":{"cluster":"`, func(int) string { return strings.Repeat("x", 1<<16) }},
		"series":       {begin, series},
		"samples":      {begin + `{"metric":{"cluster":"east"},"values":[`, func(i int) string { return fmt.Sprintf(`[%d,"%d"],`, i, i) }},
		"labels":       {begin + `{"metric":{`, func(i int) string { return fmt.Sprintf(`"label%d":"value%d",`, i, i) }},
		"warnings":     {`{"status":"success","warnings":[`, func(int) string { return `"a warning",` }},
		"nested lists": {`{"status":"success","other":`, func(int) string { return "[" }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, tt.start)
				for i, until := 0, time.Now().Add(20*time.Second); time.Now().Before(until); i += 100 {
					var text strings.Builder
					for j := range 100 {
						text.WriteString(tt.more(i + j))
					}
					if _, err := io.WriteString(w, text.String()); err != nil {
						return
					}
				}
			}))
			defer store.Close()
			run := exec.CommandContext(t.Context(), "../../../tools/limit-memory", "--required", "512M", binary(), "once", "--store.url="+store.URL, "--folder="+t.TempDir())
			run.Env = append(os.Environ(), "GOMEMLIMIT=450MiB")
			out, err := run.CombinedOutput()
			exit := new(exec.ExitError)
			switch {
			case errors.As(err, &exit) && exit.ExitCode() == noCgroup:
				t.Skipf("no memory limit: %s", out)
			case !errors.As(err, &exit) || exit.ExitCode() != 1:
				t.Errorf("%v, want exit status 1\n%.1000s", err, out)
			case !strings.Contains(string(out), "too large"):
				t.Errorf("the error does not name the size limit:\n%.1000s", out)
			}
		})
	}
}
