package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

func TestDecode(t *testing.T) {
	const matrix = `"data":{"resultType":"matrix","result":[{"metric":{"node":"a"},"values":[[60.5,"1.25"],[120,"NaN"],[180,"2"]]}]}`
	tests := []struct {
		name, body, want string // part of the error; empty if there is no error
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
		{"another API", `[1]`, "not a response of the query API"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []fold.Series
			err := newDecoder(newBudget()).decode(strings.NewReader(tt.body), func(s fold.Series) { got = append(got, s) })
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error is %v, want an error with %q", err, tt.want)
				}
				return
			}
			want := []fold.Series{{Labels: fold.Labels{{Name: "node", Value: "a"}}, Samples: []fold.Sample{{Time: 60_500, Value: 1.25}, {Time: 180_000, Value: 2}}}}
			if diff := gocmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("error %v, series (-want +got):\n%s", err, diff)
			}
		})
	}
}

// expected decodes a response with encoding/json. It returns false if the response is not from a query API, or contains
// a name twice.
func expected(body string) (all []fold.Series, ok bool) {
	var generic map[string]any
	if json.Unmarshal([]byte(body), &generic) != nil {
		return nil, false
	}
	if again, err := json.Marshal(generic); err != nil || tokens(body) != tokens(string(again)) {
		return nil, false
	}
	data, _ := generic["data"].(map[string]any)
	results, _ := data["result"].([]any)
	for _, r := range results {
		fields, _ := r.(map[string]any)
		labels, _ := fields["metric"].(map[string]any)
		var s fold.Series
		for name, value := range labels {
			s.Labels = append(s.Labels, fold.Label{Name: name, Value: fmt.Sprint(value)})
		}
		values, _ := fields["values"].([]any)
		if value, ok := fields["value"]; ok {
			values = append(values, value)
		}
		for _, v := range values {
			pair, _ := v.([]any)
			if len(pair) != 2 {
				return nil, false
			}
			at, isNumber := pair[0].(float64)
			value, err := strconv.ParseFloat(fmt.Sprint(pair[1]), 64)
			if !isNumber || err != nil {
				return nil, false
			}
			if !math.IsNaN(value) && !math.IsInf(value, 0) {
				s.Samples = append(s.Samples, fold.Sample{Time: int64(math.Round(at * 1000)), Value: value})
			}
		}
		all = append(all, s)
	}
	return all, generic["status"] == "success"
}

func tokens(text string) (n int) {
	d := json.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); err != nil {
			return n
		}
		n++
	}
}

func sorted(all []fold.Series) []fold.Series {
	for _, s := range all {
		slices.SortFunc(s.Labels, func(a, b fold.Label) int { return strings.Compare(a.Name+"="+a.Value, b.Name+"="+b.Value) })
		slices.SortFunc(s.Samples, func(a, b fold.Sample) int { return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Value, b.Value)) })
	}
	return all
}

// If the decoder and encoding/json both accept a response, they must return the same series. The size of the pieces in
// which the response is read must not change the result.
func FuzzDecode(f *testing.F) {
	f.Add(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"node":"a\"\u003c\\"},"values":[[60.5,"1.25"],[120.001,"-1e-7"],[3,"+Inf"],[4,"12345678901234567890.123"]]}]}}`)
	f.Add(` { "status" : "success" , "data" : { "result" : [ { "metric" : { } , "value" : [ 1 , "0.1" ] , "more" : [ { "a" : "]" } ] } ] } } `)
	f.Add(`{"status":"success","data":{"result":[{"value":[1,"x"]}]}}`)
	f.Fuzz(func(t *testing.T, body string) {
		var got, slow []fold.Series
		err := newDecoder(newBudget()).decode(strings.NewReader(body), func(s fold.Series) { got = append(got, s) })
		again := newDecoder(newBudget()).decode(iotest.OneByteReader(strings.NewReader(body)), func(s fold.Series) { slow = append(slow, s) })
		if fmt.Sprint(err) != fmt.Sprint(again) || !gocmp.Equal(got, slow, cmpopts.EquateEmpty()) {
			t.Errorf("at once: %v, error %v; byte by byte: %v, error %v", got, err, slow, again)
		}
		want, ok := expected(body)
		if ok && err == nil && !gocmp.Equal(sorted(want), sorted(got), cmpopts.EquateEmpty()) {
			t.Errorf("series %v, want %v", got, want)
		}
	})
}

// The decoder and strconv must return the same value for random numbers.
func TestRandomDecimals(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		value := float64(random.Int64N(1<<random.IntN(60)+1)) / powers[random.IntN(6)]
		text := strconv.FormatFloat(value, 'f', -1, 64)
		if got, err := decimal([]byte(text)); err != nil || got != value {
			t.Fatalf("decimal(%q) = %v, error %v, want %v", text, got, err, value)
		}
	}
}

// Each GPU must belong to exactly one shard.
func TestShards(t *testing.T) {
	for gpus, want := range map[int]int{0: 1, 1024: 1, 1025: 4, 4097: 16, 16_384: 16, 16_385: 64, 65_537: 256, 1_000_000: 256} {
		all := Shards(gpus, 1)
		if len(all) != want {
			t.Errorf("%d shards of %d GPUs, want %d", len(all), gpus, want)
		}
		for _, uuid := range []string{
			"GPU-00ff1234-4c1f", "GPU-f0", "GPU-ef", "GPU-fe", "GPU-ff", "GPU-9a", "GPU-", "GPU-n0", "GPU-FF", "GPU-3f", "GPU-40", "GPU-c0", "GPU-bf", "MIG-00ff1234", "00ff1234", "", "GPU-\n",
		} {
			var found []int
			for i, shard := range all {
				if matches(t, shard, uuid) {
					found = append(found, i)
				}
			}
			if len(found) != 1 {
				t.Errorf("%q is in the shards %v of %d, want one", uuid, found, len(all))
			}
		}
	}
}

// matches evaluates the matcher of a shard as Prometheus does.
func matches(t *testing.T, shard Shard, uuid string) bool {
	t.Helper()
	operator, pattern, found := strings.Cut(string(shard), `"`)
	if !found {
		return true
	}
	expr, err := regexp.Compile(`^(?s:` + strings.TrimSuffix(pattern, `"`) + `)$`)
	check(t, err)
	return expr.MatchString(uuid) == strings.HasSuffix(operator, "=~")
}

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
	check(t, err)
	if _, err := s.Raw(t.Context(), "up"+s.matchers(`ea"st`), time.Unix(0, 0), time.Unix(3600, 0)); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"query": {`up{cluster="ea\"st"}[3600s]`}, "time": {"3600.000"}, "extra": {"1"}, "deny_partial_response": {"1"}, "nocache": {"1"},
	}
	if diff := gocmp.Diff(want, map[string][]string(got.Form)); diff != "" || got.URL.Path != "/select/0/prometheus/api/v1/query" {
		t.Errorf("path %s, parameters (-want +got):\n%s", got.URL.Path, diff)
	}
}

func TestRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no tenant", http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	s, err := New(Config{URL: server.URL, Type: "mimir", Timeout: time.Minute})
	check(t, err)
	if _, err := s.Clusters(context.Background(), time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(), "401") || !strings.Contains(err.Error(), "no tenant") {
		t.Errorf("error is %v, want an error with the status and the response", err)
	}
	for _, c := range []Config{{URL: "localhost:9090", Type: "prometheus"}, {URL: server.URL, Type: "influx"}, {URL: server.URL, Type: "thanos", HTTPConfig: "/missing"}} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "--store.") {
			t.Errorf("error for %+v is %v, want an error that names the flag", c, err)
		}
	}
}

// For series that describe units, the result must contain the times of their last samples. It must omit series from the
// previous hour. If a series lasted less than a minute, its time must be the earliest possible time.
func TestLastDescriptions(t *testing.T) {
	const times = `max_over_time(timestamp(gpuledger_unit_info{cluster="east"})[1h:1m]) or 0 * last_over_time(gpuledger_unit_info{cluster="east"}[1h])`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		row := func(account, value string) string {
			return `{"metric":{"unit":"7","account":"` + account + `"},"value":[7200,"` + value + `"]}`
		}
		rows := ""
		if r.FormValue("query") == times {
			rows = strings.Join([]string{row("a", "5400.25"), row("b", "0"), row("c", "3600"), row("d", "3599.5"), row("e", "7200")}, ",")
		}
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[` + rows + `]}}`))
	}))
	t.Cleanup(server.Close)
	s, err := New(Config{URL: server.URL, Type: "prometheus", Timeout: time.Minute})
	check(t, err)
	owners, err := s.Owners(t.Context(), "east", time.Unix(3600, 0))
	check(t, err)
	got := make(map[string][]fold.Sample)
	for _, o := range owners {
		got[o.Labels.Get("account")] = o.Samples
	}
	want := map[string][]fold.Sample{"a": {{Time: 5_400_250, Value: 1}}, "b": {{Time: 3_600_000, Value: 1}}, "e": {{Time: 7_200_000, Value: 1}}}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("last samples by account (-want +got):\n%s", diff)
	}
}
