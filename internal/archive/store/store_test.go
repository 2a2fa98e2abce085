package store

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// TestDecode checks that only complete responses are accepted.
func TestDecode(t *testing.T) {
	const matrix = `"data":{"resultType":"matrix","result":[{"metric":{"node":"a"},"values":[[60.5,"1.25"],[120,"NaN"],[180,"2"]]}]}`
	tests := []struct {
		name, body, want string // want is part of the error; empty for no error
	}{
		{"samples", `{"status":"success",` + matrix + `}`, ""},
		{"infos", `{"status":"success",` + matrix + `,"infos":["a metric may not be a counter"]}`, ""},
		{"unknown fields", `{"trace":{"a":[1,{"b":2}]},` + matrix + `,"status":"success"}`, ""},
		{"warnings", `{"status":"success",` + matrix + `,"warnings":["store gateway down"]}`, "store gateway down"},
		{"partial", `{"status":"success","isPartial":true,` + matrix + `}`, "partial"},
		{"not partial", `{"status":"success","isPartial":false,` + matrix + `}`, ""},
		{"an error", `{"status":"error","error":"too many samples"}`, "too many samples"},
		{"cut off", `{"status":"success",` + matrix[:60], "EOF"},
		{"not JSON", `<html>`, "invalid character"},
		{"another API", `[1]`, "no response of the query API"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []fold.Series
			err := decode(strings.NewReader(tt.body), func(s fold.Series) { got = append(got, s) })
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error is %v, want one with %q", err, tt.want)
				}
				return
			}
			want := []fold.Series{{Labels: map[string]string{"node": "a"}, Samples: []fold.Sample{{Time: 60_500, Value: 1.25}, {Time: 180_000, Value: 2}}}}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("error %v, series (-want +got):\n%s", err, diff)
			}
		})
	}
}

// FuzzDecode checks that no response crashes the program.
func FuzzDecode(f *testing.F) {
	f.Add(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"node":"a"},"values":[[60.5,"1.25"]]}]}}`)
	f.Add(`{"status":"success","data":{"result":[{"value":[1,"x"]}]}}`)
	f.Fuzz(func(_ *testing.T, body string) {
		_ = decode(strings.NewReader(body), func(fold.Series) {})
	})
}

// TestQuery checks the path and the parameters of a request.
func TestQuery(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		got = r
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[]}}`))
	}))
	t.Cleanup(server.Close)
	s, err := New(Config{URL: server.URL + "/select/0/prometheus?extra=1", Type: "victoriametrics", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.raw(t.Context(), "up"+s.matchers(`ea"st`), time.Unix(0, 0), time.Unix(3600, 0)); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"query": {`up{cluster="ea\"st"}[3600s]`}, "time": {"3600.000"}, "extra": {"1"}, "deny_partial_response": {"1"}, "nocache": {"1"},
	}
	if diff := cmp.Diff(want, map[string][]string(got.Form)); diff != "" || got.URL.Path != "/select/0/prometheus/api/v1/query" {
		t.Errorf("path %s, parameters (-want +got):\n%s", got.URL.Path, diff)
	}
}

// TestRefused checks the errors of a rejected query and of invalid flags.
func TestRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no tenant", http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	s, err := New(Config{URL: server.URL, Type: "mimir", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Clusters(context.Background(), time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(), "401") || !strings.Contains(err.Error(), "no tenant") {
		t.Errorf("error is %v, want one with the status and the response", err)
	}
	for _, c := range []Config{{URL: "localhost:9090", Type: "prometheus"}, {URL: server.URL, Type: "influx"}, {URL: server.URL, Type: "thanos", HTTPConfig: "/missing"}} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "--store.") {
			t.Errorf("error of %+v is %v, want an error that names the flag", c, err)
		}
	}
}
