//go:build e2e

package archive_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// rowReceiver stores each batch by its idempotency key. Sometimes it returns an error after it stored a batch.
type rowReceiver struct {
	mu      sync.Mutex
	batches map[string]string
	bad     string // description of a request that must not be sent
}

func (r *rowReceiver) ServeHTTP(w http.ResponseWriter, got *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rand.IntN(20) == 0 {
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	in, err := gzip.NewReader(got.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	text, err := io.ReadAll(in)
	key := got.Header.Get("Idempotency-Key")
	if before, known := r.batches[key]; known && before != string(text) || err != nil {
		r.bad = fmt.Sprintf("key %s was sent with different contents, or error %v", key, err)
	}
	r.batches[key] = string(text)
	if rand.IntN(20) == 0 {
		w.WriteHeader(http.StatusInternalServerError) // an error after the rows were stored
	}
}

func (r *rowReceiver) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all strings.Builder
	for _, text := range r.batches {
		all.WriteString(text)
	}
	return all.String()
}

func decode(t *testing.T, text string) map[string][]map[string]string {
	t.Helper()
	all := make(map[string][]map[string]string)
	in := json.NewDecoder(strings.NewReader(text))
	in.UseNumber()
	for {
		var values map[string]any
		err := in.Decode(&values)
		if err == io.EOF {
			return all
		}
		check(t, err)
		row := make(map[string]string)
		for name, value := range values {
			if value != nil {
				row[name] = fmt.Sprint(value)
			} else {
				row[name] = ""
			}
		}
		all[row["table"]] = append(all[row["table"]], row)
	}
}

func sameRows(t *testing.T, folder, text string) {
	t.Helper()
	got := decode(t, text)
	for _, of := range []table.Table{table.GPUHours, table.Charges, table.Hours} {
		if diff := cmp.Diff(texts(of, rows(t, folder, of.Name)), texts(of, got[of.Name])); diff != "" {
			t.Errorf("%s (-folder +received):\n%s", of.Name, diff)
		}
	}
}

// TestHTTP checks that an HTTP receiver gets the same rows as a folder, even if the archive is killed at random times
// and the receiver returns errors. Standard output must also contain these rows.
func TestHTTP(t *testing.T) {
	t.Parallel()
	s := foldtest.NewStore()
	foldtest.NewFleet(s, began, 10, 4, "cluster", "east").Run(hours * 60)
	store := "--store.url=" + simulated(t, s)
	r := &rowReceiver{batches: make(map[string]string)}
	target := httptest.NewServer(r)
	defer target.Close()
	folder := t.TempDir()
	args := []string{store, "--http.url=" + target.URL, "--http.batch=5", "--http.manifest=" + filepath.Join(t.TempDir(), "filed")}
	kill(t, func() *exec.Cmd { return command(t.Context(), t.TempDir(), args...) })
	fileHours(t, folder, args...)
	sameRows(t, folder, r.text())
	if r.bad != "" {
		t.Error(r.bad)
	}
	n := len(r.batches)
	if out, err := once(t.Context(), folder, append(args, "--again")...); err != nil || len(r.batches) != n {
		t.Errorf("%v: a second run sends %d batches:\n%s", err, len(r.batches)-n, out)
	}

	cmd := exec.CommandContext(t.Context(), binary(), "once", "--stdout=json", store,
		"--from="+began.Format(time.RFC3339), "--until="+began.Add(hours*time.Hour).Format(time.RFC3339))
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	sameRows(t, folder, string(out))
}
