package sinks

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/events"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/stdout"
	"github.com/gpuledger/gpuledger/internal/archive/webhook"
	"github.com/gpuledger/gpuledger/internal/cli"
)

// Kind is a kind of sink, such as a folder or PostgreSQL.
type Kind struct {
	// Name identifies the first sink of this kind in logs and metrics.
	Name string
	// Flag is the flag that sets a sink of this kind. Other flags with this prefix are parameters in URLs.
	Flag string
	// Schemes contains the URL schemes of this kind. The first scheme is the most common.
	Schemes []string
	// Example is a URL of this kind. Help describes the content of such a sink.
	Example, Help string

	// local is set if a URL of this kind has no host, only a path or a word. driver is set if the parameters after ?
	// may be for the driver. fragment is set if all parameters after ? are for the server. The parameters for the sink
	// then follow after #.
	local, driver, fragment bool
	// parameters is the prefix of the flags that are parameters, such as "folder." for --folder.format. It may be
	// empty.
	parameters string
	// secret is the parameter for the file with a secret. It may be empty.
	secret string

	target func(o *Options) *string // the option with the path or URL of the sink
	valid  func(o *Options) error
	open   func(ctx context.Context, o *Options) (Sink, error)
	// events opens a sink for events. If it is nil, open also opens a sink for events.
	events func(ctx context.Context, o *Options) (events.Sink, error)
	// layout returns the layout of the files. It is nil if there is only one layout.
	layout func(o *Options) string
	// keepsEvents reports whether a sink stores events. If it is nil, all sinks of this kind store events.
	keepsEvents func(o *Options) bool
	// books opens a sink for reading. If sinks of this kind cannot be read, it is nil, and unreadable is the reason.
	books      func(ctx context.Context, o *Options) (books.Source, error)
	unreadable string
}

var kinds = []*Kind{
	{
		Name: "folder", Flag: "folder", Schemes: []string{"file"}, local: true, parameters: "folder.",
		Example: "file:///var/lib/gpuledger?format=csv,parquet", Help: "files in a folder; file:DIR is a relative path",
		target: func(o *Options) *string { return &o.Folder },
		layout: func(o *Options) string { return o.Layout },
		valid: func(o *Options) error {
			return errors.Join(files.CheckFormats("--folder.format", o.Formats), files.CheckLayout("--folder.layout", o.Layout))
		},
		open: func(_ context.Context, o *Options) (Sink, error) {
			if o.Layout == files.LayoutGPUID {
				return opened[Sink](files.OpenSerials(o.Folder))
			}
			return opened[Sink](files.Open(o.Folder, o.Formats))
		},
		events: func(_ context.Context, o *Options) (events.Sink, error) {
			return opened[events.Sink](files.OpenEvents(o.Folder, o.Formats))
		},
		books: func(ctx context.Context, o *Options) (books.Source, error) { return books.OpenFolder(ctx, o.Folder) },
	},
	{
		Name: "s3", Flag: "s3.url", Schemes: []string{"s3"}, parameters: "s3.",
		Example: "s3://bucket/prefix?region=eu-central-1", Help: "the same files in a bucket of an S3-compatible store",
		target: func(o *Options) *string { return &o.S3.URL },
		layout: func(o *Options) string { return o.S3.Layout },
		valid:  func(o *Options) error { return o.S3.Validate() },
		open: func(ctx context.Context, o *Options) (Sink, error) {
			if o.S3.Layout == files.LayoutGPUID {
				return opened[Sink](files.OpenSerialsBucket(ctx, o.S3))
			}
			return opened[Sink](files.OpenS3(ctx, o.S3))
		},
		books: func(ctx context.Context, o *Options) (books.Source, error) { return books.OpenBucket(ctx, o.S3) },
	},
	{
		Name: "postgres", Flag: "postgres.url", Schemes: []string{"postgres", "postgresql"}, driver: true,
		Example: "postgres://archive@db.example.com/gpuledger", Help: "tables in PostgreSQL; libpq's variables, such as PGPASSFILE, are read",
		target: func(o *Options) *string { return &o.Postgres },
		valid:  func(*Options) error { return nil },
		open: func(ctx context.Context, o *Options) (Sink, error) {
			return opened[Sink](database.Postgres.Open(ctx, o.Postgres, ""))
		},
		books: func(ctx context.Context, o *Options) (books.Source, error) {
			return books.OpenDatabase(ctx, o.Postgres, "")
		},
	},
	{
		Name: "mysql", Flag: "mysql.url", Schemes: []string{"mysql", "mariadb"}, driver: true, parameters: "mysql.", secret: "password-file",
		Example: "mysql://archive@db.example.com/gpuledger?tls=true&password-file=/etc/password", Help: "tables in MySQL or MariaDB",
		target: func(o *Options) *string { return &o.MySQL },
		valid:  func(o *Options) error { return cli.CheckSecret("mysql.password-file", o.MySQLPassword) },
		open: func(ctx context.Context, o *Options) (Sink, error) {
			return opened[Sink](database.MySQL.Open(ctx, o.MySQL, o.MySQLPassword))
		},
		books: func(ctx context.Context, o *Options) (books.Source, error) {
			return books.OpenDatabase(ctx, o.MySQL, o.MySQLPassword)
		},
	},
	{
		Name: "sqlite", Flag: "sqlite", Schemes: []string{"sqlite"}, local: true,
		Example: "sqlite:///var/lib/gpuledger/gpuledger.db", Help: "tables in a local file; sqlite:FILE is a relative path",
		target: func(o *Options) *string { return &o.SQLite },
		valid:  func(*Options) error { return nil },
		open: func(ctx context.Context, o *Options) (Sink, error) {
			return opened[Sink](database.SQLite.Open(ctx, o.SQLite, ""))
		},
		books: func(ctx context.Context, o *Options) (books.Source, error) { return books.OpenSQLite(ctx, o.SQLite) },
	},
	{
		Name: "http", Flag: "http.url", Schemes: []string{"https", "http"}, fragment: true, parameters: "http.", secret: "token-file",
		Example: "https://assets.example.com/gpus#token-file=/etc/token", Help: "rows in HTTP requests to a server",
		target: func(o *Options) *string { return &o.HTTP.URL },
		valid:  func(o *Options) error { return o.HTTP.Validate() },
		open:   func(_ context.Context, o *Options) (Sink, error) { return opened[Sink](webhook.Open(o.HTTP)) },
		events: func(_ context.Context, o *Options) (events.Sink, error) {
			return opened[events.Sink](webhook.OpenEvents(o.HTTP))
		},
		keepsEvents: func(o *Options) bool { return o.HTTP.KeepsEvents() },
		unreadable:  "only the receiver can read rows that were sent",
	},
	{
		Name: "stdout", Flag: "stdout", Schemes: []string{"stdout"}, local: true, parameters: "stdout.",
		Example: "stdout:csv?table=charges", Help: "rows on standard output as json or csv",
		target: func(o *Options) *string { return &o.Stdout.Format },
		valid:  func(o *Options) error { return o.Stdout.Validate() },
		open: func(_ context.Context, o *Options) (Sink, error) {
			return opened[Sink](stdout.Open(o.Stdout, os.Stdout))
		},
		keepsEvents: func(o *Options) bool { return o.Stdout.KeepsEvents() },
		unreadable:  "it is standard output",
	},
}

// After an error, opened returns a nil interface. An interface with a nil pointer would not be nil.
func opened[I any, T any](s T, err error) (I, error) {
	if err != nil {
		var none I
		return none, err
	}
	return any(s).(I), nil
}

// Kinds returns all kinds of sinks.
func Kinds() []*Kind { return kinds }

// Parameters returns the names of the parameters in URLs of this kind.
func (k *Kind) Parameters() (names []string) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	new(Options).Register(fs)
	fs.VisitAll(func(f *flag.Flag) {
		if name, ok := strings.CutPrefix(f.Name, k.parameters); ok && k.parameters != "" && f.Name != k.Flag {
			names = append(names, name)
		}
	})
	return names
}

// Flags returns the flags that set sinks. If readable is set, it omits kinds that cannot be read.
func Flags(readable bool) (names []string) {
	for _, k := range kinds {
		if !readable || k.books != nil {
			names = append(names, "--"+k.Flag)
		}
	}
	return names
}

// Help returns an example URL of each kind, separated by commas.
func Help() string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.Example)
	}
	return strings.Join(all, ", ")
}

// Schemes returns the URL schemes of all kinds, separated by commas. If readable is set, it omits kinds that cannot be
// read.
func Schemes(readable bool) string {
	var all []string
	for _, k := range kinds {
		if !readable || k.books != nil {
			all = append(all, k.Schemes...)
		}
	}
	return strings.Join(all, ", ")
}
