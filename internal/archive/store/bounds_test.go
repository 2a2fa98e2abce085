package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var check = fatal.If

// repeated is an endless text.
type repeated struct {
	text string
	rest string
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.rest == "" {
		r.rest = strings.Repeat(r.text, 1+(16<<10)/len(r.text))
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// An endless response must not fill the memory.
func TestEndless(t *testing.T) {
	const series = `{"status":"success","data":{"result":[`
	tests := []struct{ name, begin, again string }{
		{"a string", `{"status":"`, "a"},
		{"an escaped string", `{"status":"`, `\\`},
		{"a name", `{"`, "a"},
		{"a number", `{"status":`, "1"},
		{"a skipped value", `{"trace":[`, `{"a":1},`},
		{"a nested value", `{"trace":`, `[{"a":`},
		{"warnings", `{"warnings":["`, `a","`},
		{"a sample", series + `{"values":[[`, "1"},
		{"samples", series + `{"values":[[1,"1"]`, `,[1,"1"]`},
		{"a label", series + `{"metric":{"node":"`, "a"},
		{"labels of one name", series + `{"metric":{"a":"b"`, `,"a":"b"`},
		{"empty series", series + `{}`, `,{}`},
		{"series with equal labels", series + `{"metric":{"a":"b"}}`, `,{"metric":{"a":"b"},"value":[1,"2"]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := io.MultiReader(strings.NewReader(tt.begin), &repeated{text: tt.again})
			b := &budget{32 << 20, 32 << 20}
			d := newDecoder(b)
			err := d.decode(body, func(fold.Series) {})
			if !errors.Is(err, ErrTooLarge) && (tt.name != "labels of one name" || !errors.Is(err, errFormat)) {
				t.Errorf("error is %v, want %v", err, ErrTooLarge)
			}
			if cap(d.buf) > 2*maxText {
				t.Errorf("the buffer has %d bytes", cap(d.buf))
			}
		})
	}
}

// The memory for different strings and labels must be limited.
func TestDistinct(t *testing.T) {
	for name, series := range map[string]string{"names": `{"metric":{%q:"a"}}`, "values": `{"metric":{"a":%q}}`} {
		in, out := io.Pipe()
		go func() {
			w := bufio.NewWriterSize(out, 1<<20)
			fmt.Fprint(w, `{"status":"success","data":{"result":[{}`)
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(w, ","+series, fmt.Sprintf("%d-%01000d", i, i)); err != nil {
					return
				}
			}
		}()
		seen := 0
		err := newDecoder(&budget{32 << 20, 32 << 20}).decode(in, func(fold.Series) { seen++ })
		if in.Close(); !errors.Is(err, ErrTooLarge) || seen > 16<<10 {
			t.Errorf("%s: error is %v after %d series", name, err, seen)
		}
	}
	many := strings.Builder{}
	for i := range maxLabels + 1 {
		fmt.Fprintf(&many, `%.*s"l%d":""`, min(i, 1), ",", i)
	}
	err := newDecoder(newBudget()).decode(strings.NewReader(`{"data":{"result":[{"metric":{`+many.String()+`}}]}}`), func(fold.Series) {})
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("error for %d labels is %v", maxLabels+1, err)
	}
}

// TestFormat sends numbers, orders and fields that a correct store never sends.
func TestFormat(t *testing.T) {
	tests := []struct {
		name, series string
		want         int // number of samples; -1 for an error
	}{
		{"infinities and NaN", `{"values":[[1,"+Inf"],[2,"-Inf"],[3,"NaN"],[4,"1e400"],[5,"-1e400"],[6,"7"]]}`, 5},
		{"a value before its labels", `{"value":[1,"2"],"metric":{"a":"b"}}`, 1},
		{"no number", `{"values":[[1,"x"]]}`, -1},
		{"a time without digits", `{"values":[[,"1"]]}`, -1},
		{"a time that is not a number", `{"values":[[NaN,"1"]]}`, -1},
		{"an infinite time", `{"values":[[Inf,"1"]]}`, -1},
		{"a large time", `{"values":[[1e300,"1"]]}`, -1},
		{"a time after the year 9999", `{"values":[[999999999999,"1"]]}`, -1},
		{"a time with many digits", `{"values":[[99999999999999999999,"1"]]}`, -1},
		{"a time before 1970", `{"values":[[-1,"1"]]}`, -1},
		{"times in descending order", `{"values":[[2,"1"],[1,"1"]]}`, -1},
		{"the same time twice", `{"values":[[2,"1"],[2,"1"]]}`, 2},
		{"metric twice", `{"metric":{},"metric":{}}`, -1},
		{"a label twice", `{"metric":{"a":"b","a":"c"}}`, -1},
		{"values twice", `{"values":[[1,"1"]],"values":[[2,"1"]]}`, -1},
		{"values and a value", `{"values":[[1,"1"]],"value":[2,"1"]}`, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := 0
			err := newDecoder(newBudget()).decode(strings.NewReader(`{"status":"success","data":{"result":[`+tt.series+`]}}`), func(s fold.Series) { n += len(s.Samples) })
			if (err != nil) != (tt.want < 0) || tt.want >= 0 && n != tt.want {
				t.Errorf("%d samples, error %v, want %d", n, err, tt.want)
			}
		})
	}
	for _, body := range []string{`{"status":"error","status":"success"}`, `{"status":"success","data":{},"data":{}}`, `{"status":"success","data":{"result":[],"result":[]}}`} {
		if err := newDecoder(newBudget()).decode(strings.NewReader(body), func(fold.Series) {}); !errors.Is(err, errFormat) {
			t.Errorf("error for %s is %v", body, err)
		}
	}
}

// A long series must keep its samples when it gets more memory.
func TestRoom(t *testing.T) {
	var body strings.Builder
	body.WriteString(`{"status":"success","data":{"result":[`)
	sizes := []int{roomSize - 50, 3 * roomSize, 5, 7*roomSize + 1}
	for n, size := range sizes {
		fmt.Fprintf(&body, `%.*s{"values":[`, min(n, 1), ",")
		for i := range size {
			fmt.Fprintf(&body, `%.*s[%d,"%d"]`, min(i, 1), ",", i, i*(n+1))
		}
		body.WriteString("]}")
	}
	body.WriteString("]}}")
	var found []fold.Series
	check(t, newDecoder(newBudget()).decode(strings.NewReader(body.String()), func(s fold.Series) { found = append(found, s) }))
	for n, size := range sizes {
		if got := found[n].Samples; len(got) != size || got[size-1] != (fold.Sample{Time: int64(size-1) * 1000, Value: float64((size - 1) * (n + 1))}) || got[0].Value != 0 || got[1].Value != float64(n+1) {
			t.Errorf("series %d has %d samples, want %d; the last one is %v", n, len(got), size, got[len(got)-1])
		}
	}
}

func TestBoards(t *testing.T) {
	for value, want := range map[string]error{"12": nil, "0": nil, "10000000": nil, "NaN": ErrIncomplete, "+Inf": ErrTooLarge, "-1": ErrIncomplete, "1.5": ErrIncomplete, "1e18": ErrTooLarge, "1e400": ErrTooLarge} {
		s := answering(t, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"`+value+`"]}]}}`)
		_, err := s.Boards(t.Context(), "east", time.Unix(3600, 0))
		if !errors.Is(err, want) || want == nil && err != nil || err != nil && !strings.Contains(err.Error(), "count(last_over_time(") {
			t.Errorf("%s boards: error is %v, want %v with the query", value, err, want)
		}
	}
	s := answering(t, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
	if n, err := s.Boards(t.Context(), "east", time.Unix(3600, 0)); n != 0 || err != nil {
		t.Errorf("%d boards for a cluster without boards, error %v", n, err)
	}
	for gpus, want := range map[int]int{1e18: maxShards, 1 << 62: maxShards, -1: 1} {
		if got := len(Shards(gpus, 6)); got != want {
			t.Errorf("%d shards of %d GPUs, want %d", got, gpus, want)
		}
	}
}

func TestManyClusters(t *testing.T) {
	var all []string
	for i := range maxClusters + 1 {
		all = append(all, fmt.Sprintf(`{"metric":{"cluster":"c%d"},"value":[1,"1"]}`, i))
	}
	s := answering(t, `{"status":"success","data":{"result":[`+strings.Join(all, ",")+`]}}`)
	if _, err := s.Clusters(t.Context(), time.Unix(3600, 0)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error is %v, want %v", err, ErrTooLarge)
	}
}

func answering(t testing.TB, body string) *Store {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	t.Cleanup(server.Close)
	s, err := New(Config{URL: server.URL, Type: "prometheus", Timeout: time.Minute})
	check(t, err)
	return s
}

// The timeout of a query must include the body of its response.
func TestSlowSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(conn net.Conn) {
			request := bufio.NewReader(conn)
			if _, err := http.ReadRequest(request); err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, request) }()
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n\r\n")
			for {
				if _, err := conn.Write([]byte(" ")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}
		s, err := New(Config{URL: "http://store", Type: "prometheus", Timeout: 2 * time.Minute, Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go slow(server)
			return client, nil
		}})
		check(t, err)
		begin := time.Now()
		queries := map[string]func() error{
			"query":  func() error { _, err := s.Boards(t.Context(), "east", begin); return err },
			"series": func() error { _, err := s.Series(t.Context(), "up", begin, begin); return err },
		}
		for name, query := range queries {
			before := time.Now()
			if err := query(); !errors.Is(err, context.DeadlineExceeded) || time.Since(before) != 2*time.Minute {
				t.Errorf("%s: error is %v after %v, want an error after 2 minutes", name, err, time.Since(before))
			}
		}
		time.Sleep(2 * time.Second) // the senders end
	})
}
