package sinks_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/events"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinks"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/stdout"
	"github.com/gpuledger/gpuledger/internal/archive/webhook"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var check = fatal.If

func parsed(t *testing.T, args ...string) (*flag.FlagSet, *sinks.Options) {
	t.Helper()
	fs, o := flag.NewFlagSet("", flag.ContinueOnError), new(sinks.Options)
	fs.SetOutput(io.Discard)
	o.Register(fs)
	check(t, fs.Parse(args))
	return fs, o
}

// No flag sets these fields.
var states = cmp.Options{cmpopts.IgnoreFields(webhook.Config{}, "Memory", "Transport"), cmpopts.IgnoreFields(stdout.Config{}, "Output")}

// A URL must have the same effect as the flags of its sink. The parameters of the URL get their defaults from flags.
func TestURLs(t *testing.T) {
	for _, tt := range []struct {
		url   string
		flags []string // flags with the same meaning
		given []string // flags that set defaults for the URL
	}{
		{"file:///var/a%20b", []string{"--folder=/var/a b"}, nil},
		{"file:a%20b/c?format=parquet,csv", []string{"--folder=a b/c", "--folder.format=parquet,csv"}, nil},
		{"file:/a", []string{"--folder=/a", "--folder.format=parquet"}, []string{"--folder.format=parquet"}},
		{"file://localhost/a?format=csv", []string{"--folder=/a", "--folder.format=csv"}, []string{"--folder.format=parquet"}},
		{
			"s3://b/p/q?format=csv&endpoint=http%3A%2F%2F127.0.0.1:9000&lookup=path",
			[]string{"--s3.url=s3://b/p/q", "--s3.format=csv", "--s3.endpoint=http://127.0.0.1:9000", "--s3.lookup=path", "--s3.region=eu-1"},
			[]string{"--s3.region=eu-1", "--s3.lookup=dns"},
		},
		{"file:a?layout=gpuid", []string{"--folder=a", "--folder.layout=gpuid"}, nil},
		{"s3://b?layout=gpuid", []string{"--s3.url=s3://b", "--s3.layout=gpuid"}, nil},
		{"s3://b?endpoint=http://h:1", []string{"--s3.url=s3://b", "--s3.endpoint=http://h:1"}, nil},
		{"postgres://u:p%25w@h/db?sslmode=disable&x=1", []string{"--postgres.url=postgres://u:p%25w@h/db?sslmode=disable&x=1"}, nil},
		{"postgresql://h/db", []string{"--postgres.url=postgresql://h/db"}, nil},
		{"mysql://u@h/db?tls=true&password-file=/x/y&a=%41", []string{"--mysql.url=mysql://u@h/db?tls=true&a=%41", "--mysql.password-file=/x/y"}, nil},
		{"mariadb://u@h/db", []string{"--mysql.url=mariadb://u@h/db", "--mysql.password-file=/x"}, []string{"--mysql.password-file=/x"}},
		{"sqlite:a.db", []string{"--sqlite=a.db"}, nil},
		{"sqlite:///var/a.db", []string{"--sqlite=/var/a.db"}, nil},
		{"SQLite:a.db", []string{"--sqlite=a.db"}, nil},
		{
			"https://h/p?key=v&format=x#format=gpuid&batch=7&timeout=5s&token-file=/t&ca-file=/c&manifest=/m",
			[]string{"--http.url=https://h/p?key=v&format=x", "--http.format=gpuid", "--http.batch=7", "--http.timeout=5s", "--http.token-file=/t", "--http.ca-file=/c", "--http.manifest=/m"},
			nil,
		},
		{"http://127.0.0.1/p", []string{"--http.url=http://127.0.0.1/p", "--http.batch=3"}, []string{"--http.batch=3"}},
		{"stdout:json", []string{"--stdout=json"}, nil},
		{"stdout:csv?table=charges", []string{"--stdout=csv", "--stdout.table=charges"}, nil},
	} {
		fs, _ := parsed(t, append(tt.given, "--s3.url=s3://other", "--http.url=https://other", "--folder=other")...)
		_, want := parsed(t, tt.flags...)
		got, err := sinks.OptionsOf(tt.url, fs)
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		if diff := cmp.Diff(want, got, states); diff != "" {
			t.Errorf("%s (-flags +URL):\n%s", tt.url, diff)
		}
	}
}

// A flag with a secret belongs to the sink that flags set. A URL uses the secret only if no flag sets a sink of this
// kind.
func TestSecretOfAnotherPlace(t *testing.T) {
	for _, tt := range []struct {
		url  string
		with []string
		want string
	}{
		{"https://b/x", []string{"--http.url=https://a/x"}, ""},
		{"https://b/x#token-file=/own", []string{"--http.url=https://a/x"}, "/own"},
		{"https://b/x", nil, "/flag"},
		{"mysql://u@b/db", []string{"--mysql.url=mysql://u@a/db"}, ""},
		{"mysql://u@b/db?password-file=/own", []string{"--mysql.url=mysql://u@a/db"}, "/own"},
		{"mysql://u@b/db", nil, "/flag"},
	} {
		fs, _ := parsed(t, append(tt.with, "--http.token-file=/flag", "--mysql.password-file=/flag")...)
		got, err := sinks.OptionsOf(tt.url, fs)
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
		} else if secret := got.HTTP.TokenFile + got.MySQLPassword; secret != tt.want {
			t.Errorf("%s with %v receives the secret %q, want %q", tt.url, tt.with, secret, tt.want)
		}
	}
}

// The error for an invalid URL must contain the flag, the reason and a solution.
func TestInvalid(t *testing.T) {
	const all = "file, s3, postgres, postgresql, mysql, mariadb, sqlite, https, http, stdout"
	for text, want := range map[string]string{
		"":                        "--to must be a URL with one of the schemes " + all,
		"/var/lib/x":              "--to must be a URL with one of the schemes " + all,
		"gs://bucket":             "--to must be a URL with one of the schemes " + all,
		"file://var/lib":          "--to=file:…: must be file:///PATH for an absolute path, or file:PATH for a relative path",
		"file:":                   "--to=file:…: nothing follows file:",
		"sqlite:":                 "--to=sqlite:…: nothing follows sqlite:",
		"file:///x?format=xls":    "--to=file:/x: format=xls: must be csv, parquet",
		"file:///x?formats=csv":   "--to=file:/x: unknown parameter: must be format, layout",
		"sqlite:x?format=csv":     "--to=sqlite:x: unknown parameter: a URL of this kind has no parameters",
		"s3://b/p?url=s3://c":     "--to=s3://b/p: unknown parameter: must be endpoint, format, layout, lookup, region",
		"s3://b/p?layout=flat":    "--to=s3://b/p: layout=flat: must be tables or gpuid",
		"file:x?layout=":          "--to=file:x: layout=: must be tables or gpuid",
		"s3://b/p?lookup=guess":   "--to=s3://b/p: lookup=guess: must be one of auto, dns, path",
		"s3://b?endpoint=ftp://x": "--to=s3://b: endpoint must be a URL such as",
		"s3:///p":                 "--to=s3:///p: url must be a URL such as s3://bucket/prefix",
		"http://h/p#token-file=t": "--to=http://h: url must be https with token-file",
		"https://h/p#batch=many":  "--to=https://h: batch: invalid value",
		"https://h/p#batch=0":     "--to=https://h: batch must be at least 1",
		"stdout:xml":              "--to=stdout:xml: --stdout=xml: must be json or csv",
		"stdout:csv":              "set table to one of gpu_hours",
		"s3://b?a=%zz":            "--to=s3://b: invalid parameters",
	} {
		fs, o := parsed(t)
		if _, err := o.Places(fs, []string{text}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error for %q is %v, want an error with %q", text, err, want)
		}
	}
	fs, _ := parsed(t)
	for text, want := range map[string]string{
		"https://h/p":         "--books=https://h cannot be read: only the receiver",
		"file:x?layout=gpuid": "--books=file:x cannot be read: with the layout gpuid",
		"stdout:json":         "--books=stdout:json cannot be read: it is standard output",
		"gs://bucket":         "--books must be a path or a URL with one of the schemes file, s3, postgres, postgresql, mysql, mariadb, sqlite, such as",
		"s3://u:p@b/p":        "without credentials",
	} {
		if _, err := sinks.Parse("--books", text, fs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error for reading %q is %v, want an error with %q", text, err, want)
		}
	}
}

// The errors, the name and the label of a sink must not contain passwords from its URL. No server listens on these
// addresses.
func TestSecrets(t *testing.T) {
	const first, second = "Pq7hunter", "Zx9tiger"
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", first)
	for _, odd := range []string{"", " ", "%zz", "%", "/", "?", "#", "@", ":", "&", "é", "%20", "'", `\`} {
		for _, form := range []string{
			"postgres://archive:%s@127.0.0.1:1/db", "postgres://archive:%s@127.0.0.1:port/db", "postgres://archive:%s@[::1/db", "postgres://archive@127.0.0.1:1/db?password=%s",
			"postgres://archive@127.0.0.1:1/db?sslmode=%s", "postgres://archive@127.0.0.1:1/db?connect_timeout=%s", "postgres:archive:%s@127.0.0.1", "host=127.0.0.1 port=1 password=%s sslmode=x",
			"mysql://archive:1/%s@127.0.0.1:1/db", "mysql://archive@127.0.0.1:1/db?parseTime=%s", "mysql://archive@127.0.0.1:port/db?x=%s",
			"mysql://archive:%s@127.0.0.1:1/db", "mysql://archive@127.0.0.1:1/db?tls=%s", "mysql://archive@127.0.0.1:1/db?%s=1&password-file=/none",
			"s3://key:%s@bucket/p?endpoint=http://127.0.0.1:1", "s3://bucket/p?secret=%s", "s3://bucket/p?%s", "s3://bucket/p?endpoint=http://key:%s@127.0.0.1:1",
			"https://user:%s@127.0.0.1:1/p", "https://127.0.0.1:1/p?token=%s", "https://127.0.0.1:1/p#token=%s", "https://127.0.0.1:1/hooks/%s", "https://127.0.0.1:1/p#batch=%s",
			"file://user:%s@host/x", "sqlite://user:%s@host/x", "stdout://user:%s@host", "gs://user:%s@bucket", "user:%s@host", "archive:%s",
		} {
			text := strings.ReplaceAll(form, "%s", first+odd+second)
			fs, o := parsed(t)
			places, err := o.Places(fs, []string{text})
			texts := []string{fmt.Sprint(err)}
			if strings.HasPrefix(form, "host=") { // a URL cannot have this form
				_, flags := parsed(t, "--postgres.url="+text)
				places, err = flags.Places(fs, nil)
				check(t, err)
			}
			for _, p := range places {
				texts = append(texts, p.Name, p.Label)
				texts = append(texts, uses(t, p)...)
			}
			if p, err := sinks.Parse("--books", text, fs); err != nil {
				texts = append(texts, err.Error())
			} else {
				_, err := p.Books(t.Context())
				texts = append(texts, p.Label, fmt.Sprint(err))
			}
			for _, shown := range texts {
				if strings.Contains(shown, first) || strings.Contains(shown, second) {
					t.Errorf("%s shows the secret: %s", text, shown)
				}
			}
		}
	}
}

// uses opens a sink, writes an hour, and returns the errors.
func uses(t *testing.T, p sinks.Place) (texts []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	s, err := p.Open(ctx)
	texts = append(texts, fmt.Sprint(err))
	if err == nil {
		texts = append(texts, fmt.Sprint(s.Replace(ctx, sinktest.Hour(sinktest.Noon, 7))), fmt.Sprint(s.Close()))
	}
	e, err := p.Events(ctx)
	if err == nil {
		err = e.Close()
	}
	return append(texts, fmt.Sprint(err))
}

// Two sinks must not have the same name. Setting the same sink twice must be an error.
func TestNames(t *testing.T) {
	fs, o := parsed(t, "--folder=a", "--stdout=json")
	places, err := o.Places(fs, []string{"file:b", "https://h/1", "https://h/2", "stdout:json?table=charges", "file:///c", "s3://b"})
	check(t, err)
	var got []string
	for _, p := range places {
		got = append(got, p.Name+" "+p.Label+" "+p.Folder)
	}
	want := []string{
		"folder --folder a", "stdout --stdout ", "folder-2 --to=file:b b", "http --to=https://h ", "http-2 --to=https://h ", "stdout-2 --to=stdout:json ",
		"folder-3 --to=file:/c /c", "s3 --to=s3://b ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		urls []string
		want string
	}{
		{[]string{"file:a"}, "are the same place"},
		{[]string{"stdout:json"}, "are the same place"},
		{[]string{"s3://b?format=csv", "s3://b"}, "are the same place"},
		{[]string{"https://h/1#manifest=m", "https://h/2#manifest=m"}, "have the same manifest"},
		{[]string{"https://h/1#manifest=m", "https://h/1#manifest=n"}, "are the same place"},
	} {
		if _, err := o.Places(fs, tt.urls); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error for %q is %v, want %q", tt.urls, err, tt.want)
		}
	}
}

// A sink for serial numbers must not store events. It must not be read, pruned or renamed. Other folders and buckets
// may have another layout.
func TestLayout(t *testing.T) {
	fs, o := parsed(t)
	dir := t.TempDir()
	places, err := o.Places(fs, []string{"file:" + dir + "/tables", "file:" + dir + "/serials?layout=gpuid", "s3://b?layout=gpuid", "s3://c"})
	check(t, err)
	for i, tables := range []bool{true, false, false, true} {
		if p := places[i]; (p.Events != nil) != tables || (p.Books != nil) != tables {
			t.Errorf("%s keeps events %t, is read %t, want %t", p.Label, p.Events != nil, p.Books != nil, tables)
		}
	}
	s, err := places[1].Open(t.Context())
	check(t, err)
	check(t, s.Replace(t.Context(), sinktest.Hour(sinktest.Noon, 7)))
	check(t, s.Close())
	name := filepath.Join(dir, "serials/year=2026/month=03/day=01/hour=12/cluster=east%2F1/node=a/20260301-120000-gpuledger.csv")
	if _, err := os.Stat(name); err != nil || places[0].Folder == "" || places[1].Folder != "" {
		t.Errorf("folders %q and %q, error %v", places[0].Folder, places[1].Folder, err)
	}
}

// Each kind must have a valid example and a flag. If a kind cannot be read, it must have a reason.
func TestKinds(t *testing.T) {
	for _, k := range sinks.Kinds() {
		fs, o := parsed(t)
		places, err := o.Places(fs, []string{k.Example})
		if err != nil || len(places) != 1 || places[0].Name != k.Name {
			t.Errorf("%s: %v, error %v", k.Example, places, err)
		}
		if fs.Lookup(k.Flag) == nil || k.Help == "" || !strings.Contains(sinks.Help(), k.Example) || !slices.Contains(sinks.Flags(false), "--"+k.Flag) {
			t.Errorf("%s: flag %s, help %q", k.Name, k.Flag, k.Help)
		}
	}
}

// These sinks accept hours and events.
var _ = []events.Sink{(*files.Sink)(nil), (*database.Database)(nil), (*stdout.Sink)(nil)}

// TestFiled writes an hour to each kind of sink that this machine supports, and reads the hour with the same URL.
func TestFiled(t *testing.T) {
	var posted []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { posted = append(posted, r.URL.String()) }))
	defer server.Close()
	dir := t.TempDir()
	t.Chdir(dir)
	fs, o := parsed(t)
	urls := []string{"file:one", "file://" + dir + "/two?format=parquet,csv", "sqlite:" + filepath.Join(dir, "one.db"), "sqlite:two.db", server.URL + "/a?b=c#batch=1000", server.URL + "/d"}
	places, err := o.Places(fs, urls)
	check(t, err)
	h := sinktest.Hour(sinktest.Noon, 7)
	for _, p := range places {
		s, err := p.Open(t.Context())
		check(t, err)
		check(t, s.Replace(t.Context(), h))
		filed, err := s.Filed(t.Context(), h.Cluster, h.Start)
		if err != nil || filed != h.Filed {
			t.Errorf("%s has %+v, error %v", p.Label, filed, err)
		}
		check(t, s.Close())
		e, err := p.Events(t.Context())
		check(t, err)
		check(t, e.Close())
	}
	if want := []string{"/a?b=c", "/d"}; !slices.Equal(posted, want) {
		t.Errorf("posted to %q, want %q", posted, want)
	}
	for i, text := range urls {
		if places[i].Books == nil {
			continue
		}
		p, err := sinks.Parse("--books", text, fs)
		check(t, err)
		source, err := p.Books(t.Context())
		check(t, err)
		n := 0
		for found, err := range source.Hours(t.Context(), books.Query{From: h.Start, Until: h.Start.Add(time.Hour)}) {
			if n++; err != nil || found.Cluster != h.Cluster {
				t.Errorf("%s has %+v, error %v", text, found, err)
			}
		}
		if check(t, source.Close()); n != 1 {
			t.Errorf("%s has %d hours, want 1", text, n)
		}
	}
	for _, name := range []string{"one/hours/cluster=east%2F1/date=2026-03-01/hours.csv", "two/hours/cluster=east%2F1/date=2026-03-01/hours.parquet", "one.db", "two.db"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
