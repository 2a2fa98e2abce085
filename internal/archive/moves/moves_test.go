package moves

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var check = fatal.If

type line struct {
	Table, ID, Event, Serial, Node string
	Time                           time.Time
}

func (l line) String() string { return fmt.Sprint(table.Format(l.Time), l.Event, l.Serial, l.Node) }

func lines(t *testing.T, text []byte) (all []line) {
	t.Helper()
	for text := range bytes.Lines(text) {
		var l line
		check(t, json.Unmarshal(text, &l))
		if l.Table != "moves" || l.ID == "" {
			t.Errorf("the event contains no table or no id: %s", text)
		}
		all = append(all, l)
	}
	return all
}

// receiver fails the first requests, and rejects the events of one board.
type receiver struct {
	*testing.T
	down   int
	reject string
	got    []line
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := gzip.NewReader(request.Body)
	check(r.T, err)
	var text bytes.Buffer
	_, err = text.ReadFrom(body)
	check(r.T, err)
	if r.down--; r.down >= 0 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	got := lines(r.T, text.Bytes())
	if slices.ContainsFunc(got, func(l line) bool { return l.Serial == r.reject }) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	r.got = append(r.got, got...)
}

// drawn returns the events of boards in a random history, except on the first day.
func drawn(p *foldtest.Places) (all []string) {
	add := func(at time.Time, event, serial, node string) {
		if !at.Before(p.Start.Add(lookback)) {
			all = append(all, line{Time: at, Event: event, Serial: serial, Node: node}.String())
		}
	}
	for _, e := range p.Events {
		if e.Event == "arrived" {
			add(e.At, e.Event, e.Serial, e.Node)
		}
	}
	for _, s := range p.Stays {
		if s.Start != "seen" {
			add(s.First, s.Start, s.Serial, s.Node)
		}
		if s.End != "" && s.End != "moved" {
			add(s.Last, s.End, s.Serial, s.Node)
		}
	}
	slices.Sort(all)
	return all
}

// TestPush sends the events of a random history to a webhook and to a file, every few hours. The webhook fails at
// first. The pusher of the file restarts. Both must receive each event exactly once.
func TestPush(t *testing.T) {
	p := foldtest.DrawPlaces(3, time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), true)
	folder, path := t.TempDir(), filepath.Join(t.TempDir(), "moves.jsonl")
	sink, err := files.Open(folder, []string{"csv"})
	check(t, err)
	want := drawn(p)
	r := &receiver{T: t, down: 1, reject: strings.Fields(p.Stays[len(p.Stays)-1].Serial)[0]}
	server := httptest.NewServer(r)
	defer server.Close()
	var log bytes.Buffer
	open := func(ctx context.Context) (books.Source, error) { return books.OpenFolder(ctx, folder) }
	start := func(c Config) *Pusher {
		check(t, c.Validate())
		pusher, err := New(c, open, p.Start.Add(lookback+window), slog.New(slog.NewTextHandler(&log, nil)))
		check(t, err)
		return pusher
	}
	web, toFile := start(Config{Webhook: server.URL}), start(Config{File: path})
	var failures, filed int
	for hour := 1; hour <= foldtest.PlacesHours; hour++ {
		until := p.Start.Add(time.Duration(hour) * time.Hour)
		for ; filed < len(p.Hours) && p.Hours[filed].Start.Before(until); filed++ {
			h := p.Hours[filed]
			check(t, sink.Replace(t.Context(), sinktest.Complete(h)))
		}
		if hour%3 > 0 && hour < foldtest.PlacesHours {
			continue
		}
		if web.push(t.Context(), until) != nil {
			failures++
		}
		check(t, toFile.push(t.Context(), until))
		if hour == 36 { // a crash cuts a line, and the pusher restarts
			out, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			check(t, err)
			_, err = out.WriteString(`{"table":"moves","id":"12`)
			check(t, err)
			check(t, out.Close())
			toFile = start(Config{File: path})
		}
	}
	check(t, sink.Close())
	text, err := os.ReadFile(path)
	check(t, err)
	texts := func(all []line) (found []string) {
		for _, l := range all {
			found = append(found, l.String())
		}
		slices.Sort(found)
		return found
	}
	if diff := cmp.Diff(want, texts(lines(t, text))); diff != "" {
		t.Errorf("file (-drawn +sent):\n%s", diff)
	}
	accepted := slices.DeleteFunc(slices.Clone(want), func(text string) bool { return strings.Contains(text, r.reject) })
	if diff := cmp.Diff(accepted, texts(r.got)); diff != "" {
		t.Errorf("webhook (-drawn +sent):\n%s", diff)
	}
	if rejected := strings.Count(log.String(), "the receiver rejects a move"); failures != 1 || rejected != len(want)-len(accepted) || rejected == 0 {
		t.Errorf("%d failures, %d rejected events: the log is\n%s", failures, rejected, log.String())
	}
	ids := make(map[string]bool)
	for _, l := range lines(t, text) {
		ids[l.ID] = true
	}
	if len(ids) != len(want) {
		t.Errorf("%d ids of %d events", len(ids), len(want))
	}
}

// If a file contains data other than events, this must be an error, and the file must not be changed.
func TestConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other")
	check(t, os.WriteFile(path, []byte("hello\n"), 0o600))
	for text, c := range map[string]Config{
		"--moves.webhook": {Webhook: "ftp://x"}, "requires --moves.webhook": {TokenFile: path}, "must be https": {Webhook: "http://example.com", TokenFile: path},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, text := range []string{"hello\n", "hello\nworld", "hello"} {
		check(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := New(Config{File: path}, nil, time.Now(), nil); err == nil || !strings.Contains(err.Error(), "line 1 is not an event") {
			t.Errorf("another file: %v", err)
		}
		if kept, err := os.ReadFile(path); err != nil || string(kept) != text {
			t.Errorf("another file is changed from %q to %q: %v", text, kept, err)
		}
	}
}
