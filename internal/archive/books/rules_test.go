package books_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/store"
)

// openRules returns a store with the results of rules for 72 hours. In each hour, the fleet uses 100 J. Each of 80
// workloads in 8 namespaces uses 1 J of this energy. No unit uses energy.
func openRules(t *testing.T) books.Source {
	s := foldtest.NewStore()
	for hour := range 72 {
		at := begin.Add(time.Duration(hour)*time.Hour + 100*time.Minute)
		s.Add(at, 100, "gpuledger:fleet_energy_joules:increase1h")
		for n := range 8 {
			s.Add(at, 10, "gpuledger:namespace_energy_joules:increase1h", "namespace", fmt.Sprint("n", n))
		}
		for n := range 80 {
			uid := fmt.Sprint("w", n)
			labels := []string{"namespace", fmt.Sprint("n", n/10), "workload_kind", "Job", "workload_name", uid, "workload_uid", uid}
			s.Add(at, 1, "gpuledger:workload_energy_joules:increase1h", labels...)
			s.Add(at, 1, "gpuledger:workload_exclusive_energy_joules:increase1h", labels...)
			s.Add(at, 1, "gpuledger:workload_labels:present1h", "workload_uid", uid, "label_team", fmt.Sprint("t", n%8))
		}
	}
	server := httptest.NewServer(foldtest.API{Store: s})
	t.Cleanup(server.Close)
	source, err := books.OpenStore(store.Config{URL: server.URL, Type: "prometheus", Cluster: "east", Timeout: time.Minute}, books.Reading{Read: "rules", Team: "team"})
	check(t, err)
	return source
}

// TestParts checks the sums for each part of a period. If there are few parts, the store adds up each part. Otherwise,
// each hour is read.
func TestParts(t *testing.T) {
	source := openRules(t)
	of := books.Query{From: begin, Until: begin.Add(72 * time.Hour)}
	for _, n := range []int{1, 2, 32, 33, 50} {
		of.Parts = []time.Time{begin}
		for i := 1; i < n; i++ {
			of.Parts = append(of.Parts, begin.Add(time.Duration(20+i)*time.Hour))
		}
		of.By = []string{"hour", "reason", "team"}
		st, err := source.Statement(t.Context(), of)
		check(t, err)
		if len(st.Charges) != 9*n {
			t.Fatalf("%d parts: %d charges, want 9 in each: 8 teams and the rest", n, len(st.Charges))
		}
		if st.Unmeasured || !st.Unestimated {
			t.Errorf("%d parts: the measured part must be known, and the estimated part unknown", n)
		}
		for _, c := range st.Charges {
			i := slices.Index(of.Parts, c.Hour)
			if i < 0 {
				t.Fatalf("%d parts: a charge of %s", n, c.Hour)
			}
			hours, energy := int64(of.Until.Sub(c.Hour).Hours()), int64(10_000) // 10 workloads for each team
			if i+1 < n {
				hours = int64(of.Parts[i+1].Sub(c.Hour).Hours())
			}
			if c.Reason != "" {
				energy = 20_000
			}
			if c.Energy != hours*energy {
				t.Errorf("%d parts, %s %q %q: %d mJ in %d hours, want %d", n, c.Hour, c.Team, c.Reason, c.Energy, hours, hours*energy)
			}
		}
	}
}

// TestNoNumber checks that a statement fails if a rule's sum is NaN, infinite or too large.
func TestNoNumber(t *testing.T) {
	for _, value := range []string{"NaN", "+Inf", "-Inf", "1e300"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"status":"success","data":{"result":[{"metric":{"cluster":"east"},"value":[1,"%s"]}]}}`, value)
		}))
		source, err := books.OpenStore(store.Config{URL: server.URL, Type: "prometheus", Timeout: time.Minute}, books.Reading{Read: "rules", Team: "team"})
		check(t, err)
		of := books.Query{From: begin, Until: begin.Add(2 * time.Hour), Parts: []time.Time{begin}, By: []string{"team"}}
		if _, err := source.Statement(t.Context(), of); !errors.Is(err, store.ErrIncomplete) {
			t.Errorf("%s: error is %v, want %v", value, err, store.ErrIncomplete)
		}
		server.Close()
	}
}
