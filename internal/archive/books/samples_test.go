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
)

// TestReadOnce checks that a statement with rows reads the samples once, and that a second statement reads them again.
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
	check(t, err)
	of := books.Query{From: begin, Until: begin.Add(48 * time.Hour), Where: map[string][]string{"uuid": {"GPU-1"}}}
	count := func(read func() error) int {
		before := requests
		check(t, read())
		return requests - before
	}
	rows := func() (err error) {
		for _, failed := range source.Rows(t.Context(), of) {
			err = failed
		}
		return err
	}
	statement := func() error {
		all := of
		all.Rows, all.Checks = true, true
		_, err := source.Statement(t.Context(), all)
		return err
	}
	first, second, third := count(rows), count(statement), count(rows)
	if first == 0 || second != first || third != first {
		t.Errorf("%d requests for rows, %d for a statement, %d for the rows again: want equal numbers", first, second, third)
	}
}
