// Package sinks lists the kinds of sinks for the archive. A URL or a flag sets a sink.
package sinks

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/events"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/stdout"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/archive/webhook"
	"github.com/gpuledger/gpuledger/internal/cli"
)

// Sink stores hours; see [table.Hour].
type Sink interface {
	// Filed returns the row of an hour in the manifest. It returns zero if the sink does not contain the hour.
	Filed(ctx context.Context, cluster string, hour time.Time) (table.Filed, error)
	// Replace replaces the rows of an hour.
	Replace(ctx context.Context, h *table.Hour) error
	Close() error
}

// Place is the configuration of a sink, and the functions that open it.
type Place struct {
	// Name identifies the sink in logs and metrics.
	Name string
	// Label is the flag that sets the sink, for use in errors. It contains no secret.
	Label string
	// Folder is the path of the folder. It is empty for other kinds of sinks.
	Folder string
	Open   func(ctx context.Context) (Sink, error)
	// Events opens the sink for events. It is not the sink from Open, because a sink is not safe for concurrent use.
	// Events is nil if the sink cannot store events.
	Events func(ctx context.Context) (events.Sink, error)
	// Books opens the sink for reading. It is nil if the sink cannot be read.
	Books func(ctx context.Context) (books.Source, error)
}

// Options contains the values of the flags of all kinds.
type Options struct {
	// Folder and SQLite are paths. Postgres and MySQL are URLs. MySQLPassword is the path of the file with the MySQL
	// password.
	Folder, Postgres, MySQL, MySQLPassword, SQLite string
	// Formats and Layout apply to the files in the folder.
	Formats cli.List
	Layout  string
	// S3 configures a bucket. HTTP configures a server that receives rows.
	S3     files.S3
	HTTP   webhook.Config
	Stdout stdout.Config
}

// Register adds the flags.
func (o *Options) Register(fs *flag.FlagSet) {
	o.Formats = cli.List{"csv"}
	fs.StringVar(&o.Folder, "folder", "", "`folder` to file the tables in")
	fs.TextVar(&o.Formats, "folder.format", o.Formats, "comma-separated `formats` of the files in the folder: "+strings.Join(files.Formats(), ", "))
	fs.StringVar(&o.Layout, "folder.layout", files.LayoutTables, files.LayoutHelp)
	o.S3.Register(fs)
	o.HTTP.Register(fs)
	o.Stdout.Register(fs)
	fs.StringVar(&o.Postgres, "postgres.url", "", "`URL` of a PostgreSQL database to file the tables in, such as postgres://archive@db.example.com/gpuledger; libpq's variables, such as PGPASSFILE, are read")
	fs.StringVar(&o.MySQL, "mysql.url", "", "`URL` of a MySQL or MariaDB database to file the tables in, such as mysql://archive@db.example.com/gpuledger?tls=true; tls=true verifies the server")
	fs.StringVar(&o.MySQLPassword, "mysql.password-file", "", "`file` with the password of the user in --mysql.url")
	fs.StringVar(&o.SQLite, "sqlite", "", "`file` of an SQLite database to file the tables in; if the command run has no other sink, the default is gpuledger.db in $STATE_DIRECTORY or the working directory")
}

// Places returns the sinks from flags, in the order of [Kinds], and then the sinks from URLs. The parameters of a URL
// get their defaults from flags. A sink has the name of its [Kind]. The second sink of a kind has the suffix
// -2.
func (o *Options) Places(fs *flag.FlagSet, urls []string) (all []Place, err error) {
	counts, known := make(map[*Kind]int), make(map[string]string)
	add := func(k *Kind, of *Options, label string) error {
		if err := k.distinct(of, label, known); err != nil {
			return err
		}
		p := k.place(of, label)
		if counts[k]++; counts[k] > 1 {
			p.Name = fmt.Sprintf("%s-%d", k.Name, counts[k])
		}
		all = append(all, p)
		return nil
	}
	for _, k := range kinds {
		if err := k.valid(o); err != nil {
			return nil, err
		}
		if *k.target(o) == "" {
			continue
		}
		of := *o
		if err := add(k, &of, "--"+k.Flag); err != nil {
			return nil, err
		}
	}
	for _, text := range urls {
		k, of, label, err := parse("--to", text, fs)
		if err != nil {
			return nil, err
		}
		if err := add(k, of, label); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Parse returns the sink of a URL from a flag that selects an archive to read. Errors contain the name of this flag.
func Parse(name, text string, fs *flag.FlagSet) (Place, error) {
	k, of, label, err := parse(name, text, fs)
	switch {
	case err != nil:
		return Place{}, err
	case k.books == nil:
		return Place{}, fmt.Errorf("%s cannot be read: %s", label, k.unreadable)
	case !k.tables(of):
		return Place{}, fmt.Errorf("%s cannot be read: with the layout gpuid, its files contain only serial numbers", label)
	}
	return k.place(of, label), nil
}

func (k *Kind) place(o *Options, label string) Place {
	p := Place{Name: k.Name, Label: label, Open: func(ctx context.Context) (Sink, error) { return k.open(ctx, o) }}
	if k.Name == "folder" && k.tables(o) {
		p.Folder = o.Folder
	}
	if k.tables(o) && (k.keepsEvents == nil || k.keepsEvents(o)) {
		p.Events = func(ctx context.Context) (events.Sink, error) { return k.openEvents(ctx, o) }
	}
	if k.books != nil && k.tables(o) {
		p.Books = func(ctx context.Context) (books.Source, error) { return k.books(ctx, o) }
	}
	return p
}

func (k *Kind) openEvents(ctx context.Context, o *Options) (events.Sink, error) {
	if k.events != nil {
		return k.events(ctx, o)
	}
	s, err := k.open(ctx, o)
	if err != nil {
		return nil, err
	}
	return s.(events.Sink), nil
}

// tables reports whether a sink contains all tables. It is false for a sink of serial numbers.
func (k *Kind) tables(o *Options) bool { return k.layout == nil || k.layout(o) != files.LayoutGPUID }

// distinct returns an error if an earlier sink is the same or has the same manifest.
func (k *Kind) distinct(o *Options, label string, known map[string]string) error {
	place := k.Name + " " + *k.target(o)
	if k.Name == "stdout" {
		place += " " + o.Stdout.Table
	}
	if other, ok := known[place]; ok {
		return fmt.Errorf("%s and %s are the same place: remove one of them", other, label)
	}
	known[place] = label
	if k.Name == "http" && o.HTTP.Manifest != "" {
		manifest := "manifest " + o.HTTP.Manifest
		if other, ok := known[manifest]; ok {
			return fmt.Errorf("%s and %s have the same manifest: each sink must have its own manifest", other, label)
		}
		known[manifest] = label
	}
	return nil
}
