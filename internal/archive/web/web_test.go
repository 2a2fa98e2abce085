package web_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/archive/web"
	"github.com/gpuledger/gpuledger/internal/serve"
	"github.com/gpuledger/gpuledger/test/fatal"
	"github.com/gpuledger/gpuledger/test/program"
)

var check = fatal.If

// now is the time of all requests.
var (
	october = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	now     = time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)
)

const kWh = 3_600_000_000 // mJ

const hours = 30

// archive writes hours of two boards to an SQLite database. Two teams share board 1, which moves to another node. Board
// 2 is idle. change may modify each hour before it is written.
func archive(t *testing.T, change func(h *table.Hour)) (path string) {
	t.Helper()
	return archiveSince(t, 0, change)
}

// archiveSince omits the hours before first.
func archiveSince(t *testing.T, first int, change func(h *table.Hour)) (path string) {
	t.Helper()
	var all []*table.Hour
	for n := first; n < hours; n++ {
		h := &table.Hour{Cluster: "east", Start: october.Add(time.Duration(n) * time.Hour)}
		node := "n1"
		if n >= 26 {
			node = "n2"
		}
		for i, place := range []string{node, "n1"} {
			g := table.GPU{
				Node: place, UUID: fmt.Sprintf("GPU-%d", i+1), Serial: fmt.Sprintf("165392402310%d", i+1), ChassisSerial: "C-" + place, PCIBusID: fmt.Sprintf("00000000:%d", i),
				Model: "H100", Energy: kWh / 2, First: h.Start.Add(time.Minute), Last: h.Start.Add(59 * time.Minute), Scrapes: 59,
			}
			if i == 0 && n == 7 {
				g.XIDs = table.Counts{"79": 2}
			}
			h.GPUs = append(h.GPUs, g)
		}
		for i, who := range []string{"vision", "search"} {
			h.Charges = append(h.Charges, table.Charge{
				Node: node, UUID: "GPU-1", Serial: "1653924023101", Namespace: who + "-ns", Pod: who + "-pod", PodUID: "uid-" + who, Team: who, WorkloadKind: "Job", WorkloadName: who + "-job",
				Energy: kWh / 5, Exclusive: kWh / 5, Idle: int64(i) * kWh / 10, Held: 3_600_000, GPUTime: 1_800_000, Active: 900_000, Estimated: int64(i) * kWh / 20, Busy: 225_000,
			})
		}
		h.Charges = append(h.Charges,
			table.Charge{Node: node, UUID: "GPU-1", Serial: "1653924023101", Reason: "host", Energy: kWh / 10},
			table.Charge{Node: "n1", UUID: "GPU-2", Serial: "1653924023102", Reason: "idle", Energy: kWh / 2})
		if change != nil {
			change(h)
		}
		all = append(all, h)
	}
	return bookstest.File(t, "sqlite", all...)
}

const prices = "from,until,cluster,model,per_kwh,per_gpu_hour,currency\n2026-01-01,,,,0.20,2,EUR\n"

func settings(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "prices.csv"), []byte(prices), 0o600))
	path := filepath.Join(dir, "config.yaml")
	check(t, os.WriteFile(path, []byte("prices: "+filepath.Join(dir, "prices.csv")+"\ncarbon: "+filepath.Join(dir, "carbon.csv")+"\n"), 0o600))
	check(t, os.WriteFile(filepath.Join(dir, "carbon.csv"), []byte("from,until,zone,grams_per_kwh\n,,,400\n"), 0o600))
	return path
}

func pages(t *testing.T, c web.Config, path string) http.Handler {
	t.Helper()
	return pagesOf(t, c, func(ctx context.Context) (books.Source, error) { return books.OpenSQLite(ctx, path) })
}

func pagesOf(t *testing.T, c web.Config, open func(context.Context) (books.Source, error)) http.Handler {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	library := &ask.Library{Open: open, Label: "--sqlite", Config: c.Settings, Now: func() time.Time { return now }}
	s, err := web.New(c, []*ask.Library{library}, func() map[string]string { return map[string]string{"alice": "", "carol": ""} }, slog.New(slog.DiscardHandler))
	check(t, err)
	mux := http.NewServeMux()
	s.Register(mux)
	return mux
}

// served serves pages through the HTTP server of all programs, and returns the URL of the server.
func served(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	address := program.AddressFor(t)
	server := serve.New(serve.Config{ListenAddresses: []string{address}, MaxConnections: 10, MaxRequests: 4}, slog.New(slog.DiscardHandler))
	server.Receive(web.SearchPath)
	server.Keep("x-forwarded-groups")
	serving, ended := make(chan bool), make(chan error)
	server.Serving(func() { close(serving) })
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- server.Run(ctx, h) }()
	t.Cleanup(func() { stop(); check(t, <-ended) })
	<-serving
	return "http://" + address
}

type response struct {
	*httptest.ResponseRecorder
	t    *testing.T
	page string
}

func (r response) has(status int, texts ...string) {
	r.t.Helper()
	missing := slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return strings.Contains(r.Body.String(), text) })
	if r.Code != status || len(missing) > 0 {
		r.t.Errorf("%s: status %d, want %d and %q:\n%s", r.page, r.Code, status, missing, r.Body)
	}
}

func (r response) lacks(texts ...string) {
	r.t.Helper()
	for _, text := range texts {
		if strings.Contains(r.Body.String(), text) {
			r.t.Errorf("%s: the page contains %q:\n%s", r.page, text, r.Body)
		}
	}
}

func get(t *testing.T, h http.Handler, page string) response {
	t.Helper()
	return send(t, h, page, func(*http.Request) {})
}

func send(t *testing.T, h http.Handler, page string, change func(*http.Request)) response {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, page, nil)
	change(r)
	h.ServeHTTP(w, r)
	return response{w, t, page}
}

type element struct {
	name, text string
	attributes map[string]string
	within     string // names of the enclosing elements
}

// parse returns the elements of a page. It fails if the page is not well-formed.
func parse(t *testing.T, page string) (all []element) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var open []int
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, page)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attributes: make(map[string]string)}
			for _, a := range token.Attr {
				e.attributes[a.Name.Local] = a.Value
			}
			for _, i := range open {
				e.within += all[i].name + " "
			}
			open = append(open, len(all))
			all = append(all, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			for _, i := range open {
				all[i].text += string(token)
			}
		}
	}
}

// tables returns the rows of each table on a page. The first row of each table is the heading.
func tables(t *testing.T, page string) (all [][][]string) {
	t.Helper()
	for _, e := range parse(t, page) {
		switch e.name {
		case "table":
			all = append(all, nil)
		case "tr":
			all[len(all)-1] = append(all[len(all)-1], nil)
		case "td", "th":
			rows := all[len(all)-1]
			rows[len(rows)-1] = append(rows[len(rows)-1], strings.TrimSpace(e.text))
		}
	}
	return all
}

func commands(t *testing.T, page string) (all []string) {
	t.Helper()
	for _, e := range parse(t, page) {
		if e.name == "code" {
			all = append(all, e.text)
		}
	}
	return all
}

func run(t *testing.T, path, settings, command string, more ...string) string {
	t.Helper()
	words := strings.Fields(command)
	if words[0] != "gpuledger-archive" {
		t.Fatalf("command %q", command)
	}
	var out, notices bytes.Buffer
	args := append(append(words[1:], "--books="+path, "--config="+settings), more...)
	if status := ask.Run(t.Context(), args, ask.Terminal{Out: &out, Err: &notices, Program: "gpuledger-archive"}, now); status > 1 || notices.Len() > 0 && !strings.HasPrefix(notices.String(), "! ") {
		t.Fatalf("%v: status %d, %s", args, status, notices.String())
	}
	return out.String()
}

func fields(cells [][]string) (words []string) {
	for _, row := range cells {
		words = append(words, strings.Fields(strings.Join(row, " "))...)
	}
	return words
}

func withoutNotices(text string) []string {
	table, _, _ := strings.Cut("\n"+text, "\n! ")
	return strings.Fields(table)
}

// TestSameRows checks that each page has the rows of the commands that it shows. The CSV and JSON of the page must
// equal the output of the first command.
func TestSameRows(t *testing.T) {
	path, config := archive(t, nil), settings(t)
	h := pages(t, web.Config{Pages: true, Settings: config}, path)
	for page, shown := range map[string]int{
		"/statement/2026-10": 2, "/statement/2026-10?by=namespace,pod": 2, "/statement?by=reason": 2, "/statement/2026-10?compare=true": 1, "/statement?from=2026-10-01T03&to=2026-10-01T05": 2,
		"/idle/2026-10": 1, "/idle?by=team&month=2026-10": 1, "/fleet/2026-10": 2, "/fleet?since=40d": 2, "/fleet?failures=true&month=2026-10": 1, "/fleet?age=true": 1, "/moves/2026-10": 1, "/missing": 1, "/verify/2026-10": 1, "/hours/2026-10": 1,
		"/ran?pod=vision-ns/vision-pod": 1, "/ran?workload=search-job&tz=Europe/Berlin": 1,
		"/where/n1": 1, "/history/1653924023101": 1, "/suspect/1653924023101": 1,
	} {
		r := get(t, h, page)
		r.has(http.StatusOK)
		all, commands := tables(t, r.Body.String()), commands(t, r.Body.String())
		if len(commands) != shown {
			t.Errorf("%s shows the commands %q, want %d", page, commands, shown)
		}
		for i, command := range commands {
			want := withoutNotices(run(t, path, config, command))
			if len(want) == 0 {
				continue // the page has no table
			}
			if diff := cmp.Diff(want, fields(all[i])); diff != "" {
				t.Errorf("%s, %s (-command +page):\n%s", page, command, diff)
			}
		}
		for _, format := range []string{"csv", "json"} {
			link := page + "?o=" + format
			if strings.Contains(page, "?") {
				link = page + "&o=" + format
			}
			if diff := cmp.Diff(run(t, path, config, commands[0], "-o", format), get(t, h, link).Body.String()); diff != "" {
				t.Errorf("%s (-command +page):\n%s", link, diff)
			}
		}
	}
}

// TestManySums checks that a question with too many sums fails before all sums are in memory.
func TestManySums(t *testing.T) {
	path := archive(t, nil)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for limit, want := range map[int]error{0: nil, 1: books.ErrTooMany, 100: nil} {
		library := &ask.Library{Open: func(ctx context.Context) (books.Source, error) { return books.OpenSQLite(ctx, path) }, Now: func() time.Time { return now }, MaxSums: limit}
		_, err := library.Answer(t.Context(), ask.Request{Command: "statement", Flags: url.Values{"month": {"2026-10"}, "by": {"pod"}}, Scope: ask.Scope{All: true}})
		if !errors.Is(err, want) {
			t.Errorf("limit %d: %v, want %v", limit, err, want)
		}
	}
}
