package books_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/store"
)

// ruled answers queries about rules. In each hour, each of 400 workloads in 40 namespaces uses 1 J and 1 s, and the
// fleet uses 500 J. No unit uses energy.
func ruled(w http.ResponseWriter, r *http.Request) {
	text, labels, value := r.FormValue("query"), []string{}, 1.0
	switch {
	case strings.Contains(text, "gpuledger:workload_labels"):
		for n := range 400 {
			labels = append(labels, fmt.Sprintf(`"workload_uid":"w%d","label_team":"t%d"`, n, n%8))
		}
	case strings.Contains(text, "gpuledger:workload_"):
		for n := range 400 {
			labels = append(labels, fmt.Sprintf(`"namespace":"n%d","workload_kind":"Job","workload_name":"w%d","workload_uid":"w%d"`, n%40, n, n))
		}
	case strings.Contains(text, "gpuledger:namespace_"):
		for n := range 40 {
			labels = append(labels, fmt.Sprintf(`"namespace":"n%d"`, n))
		}
		value = 10
	case strings.Contains(text, "gpuledger:fleet_"):
		labels, value = []string{`"none":""`}, 500
	}
	// An instant query adds up the hours of its range.
	if _, window, ok := strings.Cut(text, "[59m])["); ok {
		window, _, _ = strings.Cut(window, "s")
		seconds, _ := strconv.Atoi(window)
		value *= float64(seconds) / 3600
	}
	begin, _ := strconv.ParseInt(r.FormValue("start"), 10, 64)
	end, _ := strconv.ParseInt(r.FormValue("end"), 10, 64)
	for i, l := range labels {
		if begin == 0 {
			labels[i] = fmt.Sprintf(`{"metric":{%s},"value":[1,"%g"]}`, l, value)
			continue
		}
		var values []string
		for at := begin; at <= end; at += 3600 {
			values = append(values, fmt.Sprintf(`[%d,"%g"]`, at, value))
		}
		labels[i] = fmt.Sprintf(`{"metric":{%s},"values":[%s]}`, l, strings.Join(values, ","))
	}
	kind := "vector"
	if begin > 0 {
		kind = "matrix"
	}
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"%s","result":[%s]}}`, kind, strings.Join(labels, ","))
}

func openRules(t testing.TB) books.Source {
	server := httptest.NewServer(http.HandlerFunc(ruled))
	t.Cleanup(server.Close)
	source, err := books.OpenStore(store.Config{URL: server.URL, Type: "prometheus", Cluster: "east", Timeout: time.Minute}, books.Reading{Read: "rules", Team: "team"})
	check(t, err)
	return source
}

// TestParts checks that the hours in each part of a period are added up. A few parts are read as sums, and many parts
// hour by hour.
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
			hours, energy := int64(of.Until.Sub(c.Hour).Hours()), int64(50_000) // 50 workloads for each team
			if i+1 < n {
				hours = int64(of.Parts[i+1].Sub(c.Hour).Hours())
			}
			if c.Reason != "" {
				energy = 100_000
			}
			if c.Energy != hours*energy {
				t.Errorf("%d parts, %s %q %q: %d mJ in %d hours, want %d", n, c.Hour, c.Team, c.Reason, c.Energy, hours, hours*energy)
			}
		}
	}
}

// BenchmarkHours reads a month with 400 workloads, hour by hour. The time includes the simulated store.
func BenchmarkHours(b *testing.B) {
	source := openRules(b)
	of := books.Query{From: begin, Until: begin.AddDate(0, 1, 0), By: []string{"cluster", "hour", "reason", "team"}}
	for b.Loop() {
		if st, err := source.Statement(b.Context(), of); err != nil || len(st.Charges) == 0 {
			b.Fatalf("%+v, %v", st, err)
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
