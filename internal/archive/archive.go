// Package archive files the record of GPU fleets (docs/history.md) where SQL and spreadsheets can
// read it. It asks a Prometheus-compatible store for the raw samples of each cluster and hour,
// folds them, and replaces that hour in the archive, so a run can be repeated at any time.
package archive

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/postgres"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/cli"
)

// Config is the configuration from the flags.
type Config struct {
	Log   cli.LogConfig
	Store store.Config
	// Folder and Postgres are where the archive is: a folder, a database, or both.
	Folder, Postgres string
	// Formats are the formats of files in the folder.
	Formats cli.List
	// From is the first hour, zero for the last full one. Until is the end of the last hour,
	// zero for now.
	From, Until moment
	// Again also replaces hours that are filed.
	Again bool
	// AcceptGaps files hours in which nodes are silent.
	AcceptGaps bool

	// Schema is set by the command "schema": print the statements that create the tables.
	Schema  bool
	Version bool
}

// moment is a time in a flag.
type moment struct{ time.Time }

func (m *moment) UnmarshalText(text []byte) error {
	for _, layout := range []string{time.DateOnly, "2006-01-02T15", "2006-01-02T15:04Z", time.RFC3339} {
		if at, err := time.Parse(layout, string(text)); err == nil {
			m.Time = at.UTC()
			return nil
		}
	}
	return errors.New("must be a time in UTC such as 2026-11-01 or 2026-11-01T15")
}

func (m moment) MarshalText() ([]byte, error) {
	if m.IsZero() {
		return nil, nil
	}
	return []byte(m.Format(time.RFC3339)), nil
}

// Flags returns the flag set of gpuledger-archive, bound to a configuration with the defaults.
func Flags() (*flag.FlagSet, *Config) {
	c := &Config{Formats: cli.List{"csv"}}
	fs := flag.NewFlagSet("gpuledger-archive", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // the caller prints one line
	c.Log.Register(fs)
	c.Store.Register(fs)
	fs.StringVar(&c.Folder, "folder", "", "`folder` to file the tables in")
	fs.TextVar(&c.Formats, "folder.format", c.Formats, "comma-separated `formats` of the files in the folder: "+strings.Join(files.Formats(), ", "))
	fs.StringVar(&c.Postgres, "postgres.url", "", "`URL` of a PostgreSQL database to file the tables in, such as postgres://archive@db.example.com/gpuledger; libpq's variables, such as PGPASSFILE, are read")
	fs.TextVar(&c.From, "from", moment{}, "first `hour` to file, in UTC, such as 2026-11-01 or 2026-11-01T15; default is the last full hour")
	fs.TextVar(&c.Until, "until", moment{}, "`end` of the last hour to file; default is now")
	fs.BoolVar(&c.Again, "again", false, "also file hours again that are filed")
	fs.BoolVar(&c.AcceptGaps, "accept-gaps", false, "file hours although more than 5 % of the nodes have no samples and no failed scrapes")
	fs.BoolVar(&c.Version, "version", false, "print the version and exit")
	return fs, c
}

// Parse parses the command line, without the program's name.
func Parse(args []string) (Config, error) {
	fs, c := Flags()
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "once":
		case "schema":
			c.Schema = true
		default:
			return *c, fmt.Errorf("unknown command %q: must be once or schema", args[0])
		}
		args = args[1:]
	}
	if err := fs.Parse(args); err != nil {
		return *c, err
	}
	if fs.NArg() > 0 {
		return *c, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if !c.From.IsZero() && !c.Until.IsZero() && !c.From.Before(c.Until.Time) {
		return *c, fmt.Errorf("--from=%s is not before --until=%s", c.From.Format(time.RFC3339), c.Until.Format(time.RFC3339))
	}
	if c.Folder == "" && c.Postgres == "" && !c.Schema && !c.Version {
		return *c, errors.New("nowhere to file: set --folder or --postgres.url")
	}
	return *c, c.Log.Validate()
}

// settle is how long after its end an hour is read: stores receive samples late, and hide the
// newest ones.
const settle = 5 * time.Minute

// ErrIncomplete means that hours were refused, because their samples may be incomplete, or that a
// sink failed.
var ErrIncomplete = errors.New("not all hours were filed")

// sink is where hours are filed.
type sink interface {
	// Filed returns the digest of an hour, empty if the hour is not filed.
	Filed(ctx context.Context, cluster string, hour time.Time) (digest string, err error)
	// Replace files an hour in place of what is filed of it.
	Replace(ctx context.Context, h *fold.Hour) error
	Close() error
}

// Once files all hours of the range that are not filed. It returns ErrIncomplete if some hours
// could not be filed, after all others.
func Once(ctx context.Context, c Config, now time.Time, log *slog.Logger) error {
	source, err := store.New(c.Store)
	if err != nil {
		return err
	}
	a := archive{config: c, store: source, sinks: make(map[string]sink), closings: make(map[string]*store.Closings), now: now, log: log}
	defer a.close()
	if err := a.open(ctx); err != nil {
		return err
	}
	first, last := c.span(now)
	found := false
	for hour := first; !hour.After(last) && len(a.sinks) > 0; hour = hour.Add(time.Hour) {
		clusters, err := source.Clusters(ctx, hour)
		if err != nil {
			return fmt.Errorf("clusters of %s: %w", hour.Format(time.RFC3339), err)
		}
		for _, cluster := range clusters {
			found = true
			if err := a.file(ctx, cluster, hour); err != nil {
				return fmt.Errorf("cluster %s, hour %s: %w", cluster, hour.Format(time.RFC3339), err)
			}
		}
	}
	switch {
	case !found:
		return fmt.Errorf("%s has no boards from %s to %s: check that it receives the job gpuledger-record", c.Store.URL, first.Format(time.RFC3339), last.Add(time.Hour).Format(time.RFC3339))
	case a.failed:
		return fmt.Errorf("%w, for the reasons above: run the command again", ErrIncomplete)
	}
	return nil
}

// span returns the first and the last hour to file. Only full hours are filed.
func (c *Config) span(now time.Time) (first, last time.Time) {
	end := now.Add(-settle)
	if !c.Until.IsZero() && c.Until.Before(end) {
		end = c.Until.Time
	}
	last = end.UTC().Truncate(time.Hour).Add(-time.Hour)
	first = last
	if !c.From.IsZero() {
		first = c.From.UTC().Truncate(time.Hour)
	}
	return first, last
}

// archive files hours.
type archive struct {
	config Config
	store  *store.Store
	sinks  map[string]sink // by the name of their flag
	failed bool            // an hour was refused, or a sink failed
	// closings are those of the last hour that was read, by cluster.
	closings map[string]*store.Closings
	now      time.Time
	log      *slog.Logger
}

// open opens the sinks.
func (a *archive) open(ctx context.Context) error {
	if a.config.Folder != "" {
		folder, err := files.Open(a.config.Folder, a.config.Formats)
		if err != nil {
			return fmt.Errorf("--folder: %w", err)
		}
		a.sinks["folder"] = folder
	}
	if a.config.Postgres != "" {
		database, err := postgres.Open(ctx, a.config.Postgres)
		if err != nil {
			return fmt.Errorf("--postgres.url: %w", err)
		}
		a.sinks["postgres"] = database
	}
	return nil
}

func (a *archive) close() {
	for name, s := range a.sinks {
		if err := s.Close(); err != nil {
			a.log.Error("cannot close the sink", "sink", name, "err", err)
		}
	}
}

// file files an hour of a cluster in the sinks that lack it. A sink that fails is not used again;
// the error is that of the store.
func (a *archive) file(ctx context.Context, cluster string, hour time.Time) error {
	filed := make(map[string]string) // digests by sink
	for name, s := range a.sinks {
		digest, err := s.Filed(ctx, cluster, hour)
		switch {
		case err != nil:
			a.fail(name, err)
		case digest == "" || a.config.Again:
			filed[name] = digest
		}
	}
	if len(filed) == 0 {
		return ctx.Err()
	}
	began := time.Now()
	h, err := a.read(ctx, cluster, hour)
	if errors.As(err, new(*refusal)) {
		a.failed = true
		a.log.Warn("hour refused", "cluster", cluster, "hour", hour, "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	digest := table.Digest(h)
	for name, before := range filed {
		if before == digest {
			continue
		}
		if err := a.sinks[name].Replace(ctx, h); err != nil {
			a.fail(name, err)
			continue
		}
		a.log.Info("hour filed", "sink", name, "cluster", cluster, "hour", hour, "gpus", len(h.GPUs), "charges", len(h.Charges),
			"seconds", math.Round(time.Since(began).Seconds()*1000)/1000)
	}
	return ctx.Err()
}

// fail stops the use of a sink.
func (a *archive) fail(name string, err error) {
	a.failed = true
	a.log.Error("sink failed", "sink", name, "err", err)
	if err := a.sinks[name].Close(); err != nil {
		a.log.Debug("cannot close the sink", "sink", name, "err", err)
	}
	delete(a.sinks, name)
}

// read reads and folds an hour. The error is a refusal if the samples may be incomplete.
func (a *archive) read(ctx context.Context, cluster string, hour time.Time) (*fold.Hour, error) {
	record, err := a.store.Read(ctx, cluster, hour, a.closings[cluster])
	if err != nil {
		return nil, err
	}
	a.closings[cluster] = record.Closings()
	after, err := a.store.SampledSince(ctx, cluster, hour.Add(time.Hour), a.now)
	if err != nil {
		return nil, err
	}
	if err := check(record, gates{sampledAfter: after, now: a.now, acceptGaps: a.config.AcceptGaps}); err != nil {
		return nil, err
	}
	h, err := fold.Fold(record.Input)
	if err != nil {
		return nil, &refusal{err}
	}
	return h, nil
}
