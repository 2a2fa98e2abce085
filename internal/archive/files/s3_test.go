package files_test

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

type fakeS3 struct {
	mu      sync.Mutex
	objects map[string]string // content by path, including the bucket
	puts    int
	written int // number of bytes in all writes
	// fail decides whether a write fails. If it returns an HTTP status, the write changes nothing and this is the
	// response. If it returns 0, the write succeeds.
	fail func(put int) int
	// careless makes the store ignore If-Match and If-None-Match.
	careless bool
	url      string
	token    string // session token of the last request
	lists    int
	reads    map[string]int // number of reads by path
}

func newS3(t *testing.T) *fakeS3 {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	s := &fakeS3{objects: make(map[string]string), reads: make(map[string]int), fail: func(int) int { return 0 }}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *fakeS3) config() files.S3 {
	return files.S3{URL: "s3://assets/fleet", Endpoint: s.url, Region: "eu-1", Lookup: "path", Layout: files.LayoutTables, Formats: []string{"parquet"}}
}

func (s *fakeS3) open(t *testing.T) *files.Sink {
	t.Helper()
	sink, err := files.OpenS3(t.Context(), s.config())
	check(t, err)
	return sink
}

func tag(content string) string {
	sum := md5.Sum([]byte(content))
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// joined decodes the chunked body of a signed upload. Before each chunk, a line contains the size and the signature of
// the chunk.
func joined(body []byte) (content []byte, err error) {
	for {
		head, rest, _ := bytes.Cut(body, []byte("\r\n"))
		var size int
		if _, err := fmt.Sscanf(string(head), "%x;", &size); err != nil || size == 0 {
			return content, err
		}
		content = append(content, rest[:size]...)
		body = bytes.TrimPrefix(rest[size:], []byte("\r\n"))
	}
}

func (s *fakeS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.TrimSuffix(r.URL.Path, "/")
	s.token = r.Header.Get("X-Amz-Security-Token")
	content, found := s.objects[name]
	match, except := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case name == "/assets" && r.URL.Query().Has("list-type"):
		s.list(w, r.URL.Query().Get("prefix"), r.URL.Query().Get("delimiter") == "")
	case name == "/assets":
	case !strings.HasPrefix(name, "/assets/fleet/"):
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err == nil && strings.Contains(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING") {
			body, err = joined(body)
		}
		s.puts++
		s.written += len(body)
		status := s.fail(s.puts)
		content, found = s.objects[name]
		switch {
		case err != nil:
			w.WriteHeader(http.StatusBadRequest)
		case status != 0:
			w.WriteHeader(status)
		case !s.careless && (match != "" && (!found || match != tag(content)) || except == "*" && found):
			w.WriteHeader(http.StatusPreconditionFailed)
		default:
			s.objects[name] = string(body)
			w.Header().Set("ETag", tag(string(body)))
		}
	case r.Method == http.MethodDelete:
		delete(s.objects, name)
		w.WriteHeader(http.StatusNoContent)
	case !found:
		w.WriteHeader(http.StatusNotFound)
	case except == tag(content):
		w.WriteHeader(http.StatusNotModified)
	default:
		s.reads[name]++
		w.Header().Set("ETag", tag(content))
		w.Header().Set("Last-Modified", noon.Format(http.TimeFormat))
		_, _ = io.WriteString(w, content)
	}
}

func (s *fakeS3) list(w http.ResponseWriter, prefix string, deep bool) {
	s.lists++
	folders, files := make(map[string]bool), make(map[string]int)
	for name := range s.objects {
		if rest, ok := strings.CutPrefix(name, "/assets/"+prefix); ok {
			if folder, _, below := strings.Cut(rest, "/"); below && !deep {
				folders[folder] = true
			} else {
				files[rest] = len(s.objects[name])
			}
		}
	}
	fmt.Fprint(w, "<ListBucketResult><EncodingType>url</EncodingType>")
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		fmt.Fprintf(w, "<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>", url.QueryEscape(prefix+folder+"/"))
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size></Contents>", url.QueryEscape(prefix+file), files[file])
	}
	fmt.Fprint(w, "</ListBucketResult>")
}

func TestS3(t *testing.T) {
	sinktest.Test(t, func(t *testing.T) sinktest.Sink { return newS3(t).open(t) })
}

func TestSameAsFolder(t *testing.T) {
	dir, s := t.TempDir(), newS3(t)
	for _, sink := range []*files.Sink{open(t, dir, "parquet"), s.open(t)} {
		check(t, sink.Replace(t.Context(), hour(noon, 7)))
		check(t, sink.Replace(t.Context(), hour(noon.Add(time.Hour), 5)))
	}
	want := make(map[string]string)
	for name, content := range tree(t, dir) {
		if name != ".lock" {
			want["/assets/fleet/"+name] = content
		}
	}
	if diff := cmp.Diff(want, s.objects); diff != "" {
		t.Errorf("objects (-folder +bucket):\n%s", diff)
	}
}

// Several programs add events to the same files of a bucket at the same time. No events may be lost, and the bucket
// must contain the same files as a folder with these events.
func TestEventWriters(t *testing.T) {
	dir, s := t.TempDir(), newS3(t)
	folder, err := files.OpenEvents(dir, []string{"parquet"})
	check(t, err)
	defer folder.Close()
	events := sinktest.Events()
	var group errgroup.Group
	for _, of := range table.Appended {
		check(t, folder.Append(t.Context(), of, table.EventRows(of, sinktest.Cluster, events)))
		for i := range events {
			sink := s.open(t)
			group.Go(func() error {
				return sink.Append(t.Context(), of, table.EventRows(of, sinktest.Cluster, append(events[i:i+1:i+1], events[:i]...)))
			})
		}
	}
	check(t, group.Wait())
	want := make(map[string]string)
	for name, content := range tree(t, dir) {
		if name != ".events.lock" {
			want["/assets/fleet/"+name] = content
		}
	}
	if diff := cmp.Diff(want, s.objects); diff != "" {
		t.Errorf("objects (-folder +bucket):\n%s", diff)
	}
}

// Several programs write to the same files at the same time. No hour may be lost. If the programs write different rows
// for an hour, the bucket must contain the rows of exactly one program.
func TestWriters(t *testing.T) {
	s := newS3(t)
	var group errgroup.Group
	for writer := range 2 {
		sink := s.open(t)
		group.Go(func() error {
			for i := range 3 {
				own := noon.Add(time.Duration(1+writer*3+i) * time.Hour)
				err := errors.Join(sink.Replace(t.Context(), hour(own, 5)), sink.Replace(t.Context(), hour(noon, int64(1+writer*10+i))))
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	check(t, group.Wait())
	sink := s.open(t)
	for i := range 7 {
		at := noon.Add(time.Duration(i) * time.Hour)
		charges, err := sink.Charges(t.Context(), sinktest.Cluster, at)
		check(t, err)
		if len(charges) != 1 {
			t.Fatalf("%d charges at %s, want 1", len(charges), at)
		}
		filed, err := sink.Filed(t.Context(), sinktest.Cluster, at)
		check(t, err)
		if diff := cmp.Diff(hour(at, charges[0].Energy).Filed, filed); diff != "" {
			t.Errorf("manifest of %s (-charges +filed):\n%s", at, diff)
		}
	}
}

// TestCrash stops a program before each of its writes. The next run must complete the hour.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	steps := func(sink *files.Sink) error {
		for _, energy := range []int64{7, 9} {
			filed, err := sink.Filed(t.Context(), sinktest.Cluster, noon)
			if err != nil {
				return err
			}
			h := hour(noon, energy)
			if h.Revision = energy/2 - 2; filed.Revision >= h.Revision {
				continue
			}
			if err := sink.Replace(t.Context(), h); err != nil {
				return err
			}
		}
		return correct(t, sink, 3, 4)
	}
	undisturbed := newS3(t)
	check(t, steps(undisturbed.open(t)))
	for put := 2; ; put++ {
		s := newS3(t)
		first := s.open(t)
		s.fail = func(n int) int {
			if n >= put {
				return http.StatusForbidden
			}
			return 0
		}
		if err := steps(first); err == nil {
			if put < 10 {
				t.Errorf("only %d writes", put)
			}
			return
		}
		s.fail = func(int) int { return 0 }
		check(t, steps(s.open(t)))
		if diff := cmp.Diff(undisturbed.objects, s.objects); diff != "" {
			t.Fatalf("after a crash before write %d (-undisturbed +completed):\n%s", put, diff)
		}
	}
}

func correct(t *testing.T, sink *files.Sink, revision, energy int64) error {
	filed, err := sink.Filed(t.Context(), sinktest.Cluster, noon)
	if err != nil || filed.Revision >= revision {
		return err
	}
	charges, err := sink.Charges(t.Context(), sinktest.Cluster, noon)
	if err != nil {
		return err
	}
	h := hour(noon, energy)
	h.Revision, h.State, h.Corrections = revision, table.Corrected, table.Difference(charges, h.Charges)
	return sink.Correct(t.Context(), h)
}

// If two programs write the same correction at the same time, the bucket must contain it once.
func TestCorrectedTwice(t *testing.T) {
	s := newS3(t)
	first, second := s.open(t), s.open(t)
	check(t, first.Replace(t.Context(), hour(noon, 7)))
	check(t, correct(t, first, 2, 9))
	h := hour(noon, 9)
	h.Revision, h.State, h.Corrections = 2, table.Corrected, table.Difference(hour(noon, 7).Charges, h.Charges)
	check(t, second.Correct(t.Context(), h))
	charges, err := first.Charges(t.Context(), sinktest.Cluster, noon)
	check(t, err)
	if rest := table.Difference(charges, h.Charges); len(rest) > 0 {
		t.Errorf("charges and corrections differ from the truth by %+v", rest)
	}
}

func TestRepeatedRequest(t *testing.T) {
	s := newS3(t)
	sink := s.open(t)
	s.fail = func(put int) int {
		if put == 3 {
			return http.StatusServiceUnavailable
		}
		return 0
	}
	check(t, sink.Replace(t.Context(), hour(noon, 7)))
	if _, err := sink.Filed(t.Context(), sinktest.Cluster, noon); err != nil || s.puts < 7 {
		t.Errorf("%d writes, error %v", s.puts, err)
	}
}

func TestOpenS3(t *testing.T) {
	tests := []struct {
		name   string
		change func(s *fakeS3, c *files.S3)
		want   string
	}{
		{"conditions are ignored", func(s *fakeS3, _ *files.S3) { s.careless = true }, "If-Match"},
		{"conditions are not supported", func(s *fakeS3, _ *files.S3) { s.fail = func(int) int { return http.StatusNotImplemented } }, "test a conditional write"},
		{"read only", func(s *fakeS3, _ *files.S3) { s.fail = func(int) int { return http.StatusForbidden } }, "Access Denied"},
		{"no bucket", func(_ *fakeS3, c *files.S3) { c.URL = "s3://other" }, "bucket other does not exist"},
		{"no URL", func(_ *fakeS3, c *files.S3) { c.URL = "bucket" }, "s3://bucket/prefix"},
		{"password", func(_ *fakeS3, c *files.S3) { c.URL = "s3://key:hunter2@assets" }, "without credentials"},
		{"password of the endpoint", func(_ *fakeS3, c *files.S3) { c.Endpoint = "https://key:hunter2@s3.example.com" }, "--s3.endpoint"},
		{"endpoint without TLS", func(s *fakeS3, c *files.S3) { c.Endpoint = strings.TrimPrefix(s.url, "http://") }, "HTTPS"},
		{"lookup", func(_ *fakeS3, c *files.S3) { c.Lookup = "guess" }, "auto, dns, path"},
		{"format", func(_ *fakeS3, c *files.S3) { c.Formats = []string{"xml"} }, "csv, parquet"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newS3(t)
			c := s.config()
			tt.change(s, &c)
			_, err := files.OpenS3(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error is %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// The sink must use the credentials of a container. Without credentials, it must return an error.
func TestCredentials(t *testing.T) {
	for _, given := range []bool{true, false} {
		s := newS3(t)
		for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY", "AWS_SECRET_KEY"} {
			t.Setenv(name, "")
		}
		agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if !given {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			_, _ = io.WriteString(w, `{"AccessKeyId": "key", "SecretAccessKey": "secret", "Token": "session", "Expiration": "2099-01-01T00:00:00Z"}`)
		}))
		t.Cleanup(agent.Close)
		t.Setenv("HOME", t.TempDir())
		t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.URL)
		_, err := files.OpenS3(t.Context(), s.config())
		if given && (err != nil || s.token != "session") {
			t.Errorf("session token is %q, error %v", s.token, err)
		}
		if !given && (err == nil || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID")) {
			t.Errorf("error without credentials is %v", err)
		}
	}
}

// Just before the sink writes a file, another program writes an hour of the same day. If the programs write different
// hours, both hours must be complete. If both write the same hour, the sink must replace the rows of the other program.
func TestOtherProgram(t *testing.T) {
	next := noon.Add(time.Hour)
	tests := []struct {
		name        string
		other       []*table.Hour
		undisturbed []*table.Hour
		writes      int
	}{
		{"another hour", []*table.Hour{hour(noon, 7)}, []*table.Hour{hour(noon, 7), hour(next, 5)}, 1},
		{"the same hour", []*table.Hour{hour(next, 9)}, []*table.Hour{hour(next, 5)}, 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			other, undisturbed := newS3(t), newS3(t)
			for _, h := range tt.other {
				check(t, other.open(t).Replace(t.Context(), h))
			}
			for _, h := range tt.undisturbed {
				check(t, undisturbed.open(t).Replace(t.Context(), h))
			}
			for n := 2; n < 2+tt.writes; n++ { // write 1 is the probe
				s := newS3(t)
				sink := s.open(t)
				s.fail = func(put int) int {
					if put == n {
						maps.Copy(s.objects, other.objects)
					}
					return 0
				}
				check(t, sink.Replace(t.Context(), hour(next, 5)))
				if diff := cmp.Diff(undisturbed.objects, s.objects); diff != "" {
					t.Fatalf("filed by another program before write %d (-undisturbed +filed):\n%s", n, diff)
				}
			}
		})
	}
}

// In each format, Intact must detect an hour that also contains rows of another program. It must accept correct rows
// and corrections.
func TestMixed(t *testing.T) {
	s, other := newS3(t), newS3(t)
	c := s.config()
	c.Formats = []string{"parquet", "csv"}
	sink, err := files.OpenS3(t.Context(), c)
	check(t, err)
	c.Endpoint = other.url
	elsewhere, err := files.OpenS3(t.Context(), c)
	check(t, err)
	intact := func(want bool) {
		t.Helper()
		if got, err := sink.Intact(t.Context(), sinktest.Cluster, noon); err != nil || got != want {
			t.Errorf("intact: %t, error %v, want %t", got, err, want)
		}
	}
	intact(true) // the hour is not yet filed
	h := sinktest.Hour(noon, 7)
	h.GPUs[0].First = time.Time{}
	h.Digest = table.Digest(h)
	check(t, sink.Replace(t.Context(), h))
	check(t, sink.Replace(t.Context(), sinktest.Hour(noon.Add(time.Hour), 5)))
	intact(true)
	check(t, elsewhere.Replace(t.Context(), sinktest.Hour(noon, 9)))
	for name, content := range other.objects {
		if strings.Contains(name, "/gpu_hours/") || strings.Contains(name, "/charges/") {
			mine := s.objects[name]
			s.objects[name] = content
			intact(false)
			s.objects[name] = mine
			intact(true)
		}
	}
	h.Revision, h.State, h.Digest, h.Corrections = 2, table.Corrected, "another", h.Charges
	check(t, sink.Correct(t.Context(), h))
	intact(true)
}
