package events_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/events"
	"github.com/gpuledger/gpuledger/internal/event"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var check = fatal.If

func guarded(t *testing.T) (r *events.Receiver, file string, m *memory, log *bytes.Buffer) {
	t.Helper()
	file, m, log = filepath.Join(t.TempDir(), "tokens"), &memory{}, new(bytes.Buffer)
	r = events.New(events.Config{Receive: true, TokenFile: file}, []events.Destination{m.destination("m")}, slog.New(slog.NewTextHandler(log, nil)))
	return r, file, m, log
}

func write(t *testing.T, file, text string) {
	t.Helper()
	check(t, os.WriteFile(file, []byte(text), 0o600))
}

// A request may be accepted only if the file contains its token, for its cluster. If the file is missing, empty,
// invalid or accessible to other users, no token may be valid.
func TestToken(t *testing.T) {
	const two = "# rotated in November\n\neast one\nwest  three\neast\ttwo\nthe far south four\n"
	steps := []struct {
		file, cluster, header string
		status                int
	}{
		{"", "east", "Bearer ", 401},
		{"\n# east one\n", "east", "Bearer one", 401},
		{"east one\n", "east", "Bearer one", 200},
		{"east one\r\n", "east", "Bearer one", 200},
		{"east one", "west", "Bearer one", 403},
		{"east one", "", "Bearer one", 403},
		{"east one", "EAST", "Bearer one", 403},
		{"east one", "east%20", "Bearer one", 403},
		{"east one", "east", "Bearer On", 401},
		{"east one", "east", "Bearer one ", 401},
		{"east one", "east", "Bearer east one", 401},
		{"east one", "east", "Basic one", 401},
		{"east one", "east", "one", 401},
		{"east one", "east", "", 401},
		{two, "east", "Bearer one", 200},
		{two, "east", "Bearer two", 200},
		{two, "west", "Bearer three", 200},
		{two, "west", "Bearer two", 403},
		{two, "east", "Bearer three", 403},
		{two, "the%20far%20south", "Bearer four", 200},
		{two, "the", "Bearer four", 403},
		{two, "%23", "Bearer November", 401},
		{"east two", "east", "Bearer one", 401},
		{"east two", "east", "Bearer two", 200},
		{"two", "east", "Bearer two", 503},
		{"two", "", "Bearer two", 503},
	}
	r, file, m, _ := guarded(t)
	if w := post(r, target, phase, "Authorization", "Bearer "); w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d without the file", w.Code)
	}
	filed := 0
	for _, step := range steps {
		write(t, file, step.file)
		w := post(r, event.Path+"?cluster="+step.cluster, phase, "Authorization", step.header)
		if w.Code != step.status {
			t.Errorf("tokens %q, cluster %q, authorization %q: status %d, want %d", step.file, step.cluster, step.header, w.Code, step.status)
		}
		if step.status == http.StatusOK {
			filed++
		}
	}
	write(t, file, "east one")
	for mode, status := range map[os.FileMode]int{0o600: 200, 0o440: 200, 0o644: 503, 0o666: 503} {
		check(t, os.Chmod(file, mode))
		if w := post(r, target, phase, "Authorization", "Bearer one"); w.Code != status {
			t.Errorf("mode %o: status %d, want %d", mode, w.Code, status)
		}
	}
	if n := len(m.rows["events"]); n != filed+2 {
		t.Errorf("%d events are filed, want %d", n, filed+2)
	}
}

// Refusals must be counted by reason. The log must contain at most one line per hour for each reason and each cluster
// in the file, even if a sender invents names of clusters.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, file, m, log := guarded(t)
		write(t, file, "east one\nwest two\n")
		try := func(cluster, token string) {
			post(r, event.Path+"?cluster="+cluster, phase, "Authorization", "Bearer "+token)
		}
		for i := range 100 {
			try("east", "guess")
			try("west", "one")
			try(fmt.Sprint("invented", i, "%1b%0a"), "guess")
			try(strings.Repeat("long", 1000), "one")
		}
		try("east", "one")
		want := map[string]float64{"filed": 1, "refused": 0, "failed": 0, "unauthorized": 200, "forbidden": 200}
		if diff := cmp.Diff(want, requests(t, r)); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if n := len(m.rows["events"]); n != 1 {
			t.Errorf("%d events are filed, want 1", n)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 4 || strings.ContainsRune(log.String(), '\x1b') || log.Len() > 2000 {
			t.Errorf("%d log lines, want 4:\n%s", len(lines), log)
		}
		for _, text := range []string{"reason=unauthorized cluster=east ", "reason=forbidden cluster=west ", "client="} {
			if !strings.Contains(log.String(), text) {
				t.Errorf("the log does not contain %q:\n%s", text, log)
			}
		}
		for _, secret := range []string{"guess", "=one", "=two"} {
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log contains the token %s:\n%s", secret, log)
			}
		}
		time.Sleep(time.Hour)
		log.Reset()
		if try("west", "one"); strings.Count(log.String(), "\n") != 1 {
			t.Errorf("log after an hour:\n%s", log)
		}
		write(t, file, "no-cluster-line\n")
		log.Reset()
		for range 10 {
			try("east", "one")
		}
		if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "line 1") || strings.Contains(log.String(), "no-cluster-line") {
			t.Errorf("log with an invalid file:\n%s", log)
		}
	})
}

func requests(t *testing.T, r *events.Receiver) map[string]float64 {
	t.Helper()
	return metrics(t, r, "gpuledger_archive_event_requests_total", "outcome")
}

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "valid"), "east one\n")
	write(t, filepath.Join(dir, "invalid"), "east one\nhunter2\n")
	write(t, filepath.Join(dir, "open"), "east one\n")
	check(t, os.Chmod(filepath.Join(dir, "open"), 0o666))
	tests := []struct {
		args, want string // part of the error; empty if there is no error
	}{
		{"", ""},
		{"--events.receive", ""},
		{"--events.receive --events.insecure", ""},
		{"--events.receive --events.token-file=DIR/missing", ""},
		{"--events.receive --events.token-file=DIR/valid", ""},
		{"--events.receive --events.token-file=DIR/invalid", "--events.token-file: DIR/invalid: line 2"},
		{"--events.receive --events.token-file=DIR/open", "--events.token-file: DIR/open has the mode 0666"},
		{"--events.receive --events.token-file=DIR", "--events.token-file: "},
		{"--events.token-file=DIR/valid", "require --events.receive"},
		{"--events.insecure", "require --events.receive"},
		{"--events.receive --events.insecure --events.token-file=DIR/valid", "cannot be used together"},
	}
	for _, tt := range tests {
		var c events.Config
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		c.Register(fs)
		err := errors.Join(fs.Parse(strings.Fields(strings.ReplaceAll(tt.args, "DIR", dir))), c.Validate())
		want := strings.ReplaceAll(tt.want, "DIR", dir)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: error %v, want %q", tt.args, err, want)
		}
	}
}

// A token may be accepted for a cluster only if one line contains both. The test has its own, simpler parser.
func FuzzTokens(f *testing.F) {
	for _, text := range []string{"east one", "east one\nwest two\n", "# east one\n", "\n\n east  one \r\n", "one", "a b one"} {
		f.Add(text, "east", "one")
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text, cluster, token string) {
		file, m := filepath.Join(dir, "tokens"), &memory{}
		write(t, file, text)
		r := events.New(events.Config{Receive: true, TokenFile: file}, []events.Destination{m.destination("m")}, slog.New(slog.DiscardHandler))
		req := post(r, event.Path+"?cluster="+escape(cluster), phase, "Authorization", "Bearer "+token)
		if req.Code != http.StatusOK {
			return
		}
		if token == "" || cluster == "" {
			t.Fatalf("accepted the token %q for %q", token, cluster)
		}
		for line := range strings.SplitSeq(text, "\n") {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, cluster) && strings.HasSuffix(line, token) && strings.TrimSpace(line[len(cluster):len(line)-len(token)]) == "" && len(line) > len(cluster)+len(token) {
				return
			}
		}
		t.Errorf("accepted the token %q for %q, but no line of %q contains both", token, cluster, text)
	})
}

func escape(text string) string {
	var out strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&out, "%%%02X", text[i])
	}
	return out.String()
}
