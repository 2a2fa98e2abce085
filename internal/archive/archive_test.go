package archive

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestGates(t *testing.T) {
	full := func() *coverage {
		c := newCoverage()
		for _, node := range []string{"a", "b", "c"} {
			c.nodes[node] = true
			c.before = append(c.before, node)
		}
		c.start, c.now, c.sampledAfter = noon, noon.Add(65*time.Minute), true
		return &c
	}
	silence := func(c *coverage, nodes ...string) {
		for _, node := range nodes {
			delete(c.nodes, node)
		}
	}
	gone := func(c *coverage) {
		silence(c, "a", "b", "c")
		c.sampledAfter, c.now = false, noon.Add(50*time.Hour)
	}
	tests := []struct {
		name   string
		change func(c *coverage)
		want   string // text in the refusal; empty if the hour is accepted
		state  table.State
	}{
		{"complete", func(*coverage) {}, "", table.Complete},
		{"nothing after the hour", func(c *coverage) { c.sampledAfter = false }, "no samples after", ""},
		{"a cluster that is gone", func(c *coverage) { c.sampledAfter, c.now = false, noon.Add(50*time.Hour) }, "", table.Complete},
		{"a cluster that was gone before", gone, errGone.Error(), ""},
		{"a cluster whose scrapes fail", func(c *coverage) { gone(c); c.targets = []string{"a", "b", "c"} }, "", table.Complete},
		{"a node is silent", func(c *coverage) { silence(c, "a") }, "", table.Complete},
		{"the only node is silent", func(c *coverage) { silence(c, "a", "b", "c"); c.before = []string{"a"} }, "1 of 1 nodes", ""},
		{"two nodes are silent", func(c *coverage) { silence(c, "a", "b") }, "2 of 3 nodes", ""},
		{"two of many are silent", func(c *coverage) {
			silence(c, "a", "b")
			for range 60 {
				c.before = append(c.before, "c")
			}
		}, "", table.Complete},
		{"scrapes of two nodes fail", func(c *coverage) { silence(c, "a", "b"); c.targets = []string{"a", "b"} }, "", table.Complete},
		{"two silent nodes are explained", func(c *coverage) { silence(c, "a", "b"); c.explained = []string{"a", "b"} }, "", table.Complete},
		{"all silent nodes but one are explained", func(c *coverage) { silence(c, "a", "b", "c"); c.explained = []string{"a", "b"} }, "1 of 3 nodes", ""},
		{"all silent nodes are explained", func(c *coverage) {
			silence(c, "a", "b", "c")
			c.explained, c.listed = c.before, true
		}, "", table.Complete},
		{"no earlier nodes are known", func(c *coverage) { silence(c, "a", "b", "c"); c.before = nil }, "no node has samples", ""},
		{"no node is expected", func(c *coverage) { silence(c, "a", "b", "c"); c.before, c.listed = nil, true }, "", table.Complete},
		{"gaps are accepted", func(c *coverage) { silence(c, "a", "b"); c.accepted = "reason" }, "", table.Gaps},
		{"all nodes of a filed hour have samples", func(c *coverage) { silence(c, "a", "b"); c.kept = []string{"c"} }, "", table.Complete},
		{"a filed hour without later samples", func(c *coverage) { c.sampledAfter, c.kept = false, []string{"c"} }, "no samples after", ""},
		{"needless acceptance", func(c *coverage) { c.accepted = "reason" }, "", table.Complete},
		{"an accepted cluster that is gone", func(c *coverage) { gone(c); c.accepted = "reason" }, "", table.Gaps},
		{"an accepted hour loses filed nodes", func(c *coverage) { silence(c, "a", "b"); c.accepted, c.kept = "reason", []string{"b", "c"} }, "b of the filed hour", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := full()
			tt.change(c)
			state, err := c.check()
			if state != tt.state {
				t.Errorf("state %q, want %q", state, tt.state)
			}
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want an error with %q", err, tt.want)
			}
			if errors.Is(err, errGone) {
				return
			}
			if err != nil && !errors.As(err, new(*refusal)) {
				t.Errorf("error %v is not a refusal", err)
			}
		})
	}
}

func TestSpan(t *testing.T) {
	tests := []struct {
		args        []string
		now         time.Time
		first, last time.Time
	}{
		{nil, noon.Add(6 * time.Minute), noon.Add(-time.Hour), noon.Add(-time.Hour)},
		{nil, noon.Add(4 * time.Minute), noon.Add(-2 * time.Hour), noon.Add(-2 * time.Hour)},
		{[]string{"--from=2026-02-28"}, noon.Add(10 * time.Minute), noon.Add(-36 * time.Hour), noon.Add(-time.Hour)},
		{[]string{"once", "--from=2026-03-01T03", "--until=2026-03-01T05:30:00Z"}, noon, noon.Add(-9 * time.Hour), noon.Add(-8 * time.Hour)},
	}
	for _, tt := range tests {
		c, err := Parse(append(tt.args, "--folder=x"))
		check(t, err)
		if first, last := c.span(tt.now); !first.Equal(tt.first) || !last.Equal(tt.last) {
			t.Errorf("%q at %s: %s to %s, want %s to %s", tt.args, tt.now, first, last, tt.first, tt.last)
		}
	}
}

// The error must name the invalid argument.
func TestParse(t *testing.T) {
	for _, args := range [][]string{
		{"twice"},
		{"accept"},
		{"accept", "--reason=x"},
		{"accept", "east", "--from=2026-03-01", "--reason=x"},
		{"accept", "east", "--from=2026-03-01", "--to=2026-03-02", "--reason= "},
		{"accept", "east", "--from=2026-03-01", "--to=2026-03-02", "--reason=two\nlines"},
		{"accept", "east", "--from=2026-03-01", "--to=2026-03-02", "--reason=x", "--again"},
		{"accept", "east", "--from=2026-03-01", "--to=2026-03-02", "--reason=x", "--cluster=west"},
		{"accept", "east", "--from=2026-03-02", "--to=2026-03-01", "--reason=x", "--folder=x"},
		{"once", "--reason=x"},
		{"once", "more"},
		{"once", "--folder=x", "--web.pages"},
		{"serve", "--web.listen-address=127.0.0.1:0"},
		{"serve", "--web.listen-address=127.0.0.1:0", "--http.url=http://127.0.0.1"},
		{"serve", "--folder=x"}, // the flags set no credentials for readers
		{"run", "--folder=x", "--web.pages"},
		{"run", "--folder=x", "--web.pages.log-reads"},
		{"--from=yesterday"},
		{"--from=2026-03-02", "--until=2026-03-01"},
		{"--log.level=loud"},
		{"--store.timeout=1"},
		{"run", "--folder=x", "--until=2026-03-01"},
		{"run", "--folder=x", "--again"},
		{"prune", "--folder=x"},
		{"prune", "--stdout=json", "--before=2026-01-01"},
		{"once", "--folder=x", "--before=2026-01-01"},
		{"run", "--folder=x", "--dry-run"},
		{"once", "--folder=x", "--events.receive"},
		{"run", "--stdout=csv", "--stdout.table=charges", "--events.receive"},
		{"run", "--folder=x", "--events.token-file=token"},
		{"run", "--folder=x", "--events.insecure"},
		{"--folder=x", "--folder.format=xls"},
		{"run", "--folder=x", "--web.max-requests=0"},
		{"--s3.url=assets"},
		{"--s3.url=s3://assets", "--s3.endpoint=ftp://x"},
		{"--s3.url=s3://assets", "--s3.format=xls"},
		{"--s3.url=s3://assets", "--s3.lookup=no"},
		{"--http.url=assets"},
		{"--http.url=http://x", "--http.format=xml"},
		{"--http.url=http://x", "--http.token-file=y"},
		{"--http.url=http://x", "--http.batch=0"},
		{"--stdout=xml"},
		{"--stdout=csv"},
		{"--stdout=json", "--stdout.table=x"},
	} {
		if _, err := Parse(args); err == nil || !slices.ContainsFunc(args, func(arg string) bool {
			name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			return strings.Contains(err.Error(), name)
		}) {
			t.Errorf("error for %q is %v, want an error that names the argument", args, err)
		}
	}
	if _, err := Parse([]string{"--again"}); err == nil || !strings.Contains(err.Error(), "--folder") {
		t.Errorf("error without a sink is %v, want an error with --folder", err)
	}
}

func TestDefaultSink(t *testing.T) {
	for _, tt := range []struct {
		state, want string
		args        []string
	}{
		{"", "gpuledger.db", []string{"run", "--store.url=http://x"}},
		{"/var/lib/gpuledger", "/var/lib/gpuledger/gpuledger.db", []string{"run"}},
		{"/var/lib/gpuledger:/var/lib/other", "/var/lib/gpuledger/gpuledger.db", []string{"run"}},
		{"/var/lib/gpuledger", "", []string{"run", "--stdout=json"}},
		{"/var/lib/gpuledger", "x", []string{"run", "--sqlite=x"}},
		{"/var/lib/gpuledger", "", []string{"schema", "sqlite"}},
	} {
		t.Setenv("STATE_DIRECTORY", tt.state)
		c, err := Parse(tt.args)
		if filed := len(c.places) == 1 && c.places[0].Name == "sqlite"; err != nil || c.SQLite != tt.want || filed != (tt.want != "") {
			t.Errorf("%s with the state directory %q: file %q, sinks %v, error %v, want %q", tt.args, tt.state, c.SQLite, c.places, err, tt.want)
		}
	}
}

func TestEventSinks(t *testing.T) {
	tests := []struct {
		args, want []string
	}{
		{
			[]string{"--folder=x", "--s3.url=s3://x", "--postgres.url=postgres://x", "--mysql.url=mysql://x/x", "--sqlite=x", "--http.url=https://x", "--stdout=json"},
			[]string{"folder", "s3", "postgres", "mysql", "sqlite", "http", "stdout"},
		},
		{[]string{"--folder=x", "--http.url=https://x", "--http.format=gpuid", "--stdout=csv", "--stdout.table=charges"}, []string{"folder"}},
		{[]string{"--stdout=csv", "--stdout.table=events"}, []string{"stdout"}},
		{[]string{"--http.url=https://x", "--http.format=gpuid"}, nil},
	}
	for _, tt := range tests {
		c, err := Parse(append([]string{"run", "--events.receive", "--events.token-file=tokens"}, tt.args...))
		if (err == nil) != (tt.want != nil) {
			t.Errorf("%s: %v", tt.args, err)
		}
		var names []string
		for _, d := range eventDestinations(&c) {
			names = append(names, d.Name)
		}
		if !slices.Equal(names, tt.want) {
			t.Errorf("%s: events are filed in %q, want %q", tt.args, names, tt.want)
		}
	}
}

// Parse must reject passwords in the web configuration if the archive receives events. Such passwords apply to all
// paths, but senders of events send no password.
func TestBasicAuth(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yml")
	for text, valid := range map[string]bool{
		"": true, "http_server_config: {http2: true}\n": true,
		"basic_auth_users: {scraper: $2a$04$o8a0URxx3MB7cApnsOEU0eOzD4y7zX9zU4/v2d/ci4MyPik2kSarG}\n": false,
	} {
		check(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := Parse([]string{"run", "--folder=x", "--events.receive", "--events.insecure", "--web.config.file=" + file})
		if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "basic_auth_users") {
			t.Errorf("error with %q is %v", text, err)
		}
		if _, err := Parse([]string{"run", "--folder=x", "--web.config.file=" + file}); err != nil {
			t.Errorf("error with %q and without events is %v", text, err)
		}
	}
}
