package books_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestReadOnce checks that the stays and the charges of one selection are read once.
func TestReadOnce(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		if strings.HasSuffix(r.URL.Path, "/series") {
			fmt.Fprint(w, `{"status":"success","data":[{"UUID":"GPU-1","node":"n1"}]}`)
			return
		}
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
	}))
	defer server.Close()
	source, err := books.OpenStore(store.Config{URL: server.URL, Type: "prometheus", Cluster: "east", Timeout: time.Minute}, books.Reading{Read: "samples"})
	if err != nil {
		t.Fatal(err)
	}
	read := func(uuid string) int {
		of := books.Selection{From: begin, Until: begin.Add(48 * time.Hour), Where: map[string][]string{"uuid": {uuid}}}
		before := requests
		if err := source.GPUs(t.Context(), of, func(table.GPU) {}); err != nil {
			t.Fatal(err)
		}
		stays := requests - before
		if _, err := source.Charges(t.Context(), of); err != nil {
			t.Fatal(err)
		}
		if charges := requests - before - stays; charges != 0 {
			t.Errorf("%d requests for the charges after %d for the stays, want none", charges, stays)
		}
		return stays
	}
	if first, other := read("GPU-1"), read("GPU-2"); first == 0 || other != first {
		t.Errorf("%d requests for a board, %d for another one", first, other)
	}
}
