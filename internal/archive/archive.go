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
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/cli"
)

// Config is the configuration from the flags.
type Config struct {
	Log   cli.LogConfig
	Store store.Config
	// Folder is where the archive is.
	Folder string
	// From is the first hour, zero for the last full one. Until is the end of the last hour,
	// zero for now.
	From, Until moment
	// Again also replaces hours that are filed.
	Again bool
	// AcceptGaps files hours in which nodes are silent.
	AcceptGaps bool
	Version    bool
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
	c := &Config{}
	fs := flag.NewFlagSet("gpuledger-archive", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // the caller prints one line
	c.Log.Register(fs)
	c.Store.Register(fs)
	fs.StringVar(&c.Folder, "folder", "gpuledger-archive", "`folder` to file the tables in, as CSV")
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
	if len(args) > 0 && args[0] == "once" {
		args = args[1:]
	} else if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		return *c, fmt.Errorf("unknown command %q: the command is once", args[0])
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
	return *c, c.Log.Validate()
}

// settle is how long after its end an hour is read: stores receive samples late, and hide the
// newest ones.
const settle = 5 * time.Minute

// ErrRefused means that hours were refused, because their data is incomplete.
var ErrRefused = errors.New("hours refused")

// Once files all hours of the range that are not filed. It returns ErrRefused if some hours are
// incomplete, and continues with the others.
func Once(ctx context.Context, c Config, now time.Time, log *slog.Logger) error {
	source, err := store.New(c.Store)
	if err != nil {
		return err
	}
	folder, err := files.Open(c.Folder)
	if err != nil {
		return fmt.Errorf("--folder: %w", err)
	}
	defer folder.Close()
	a := archive{config: c, store: source, folder: folder, now: now, log: log}
	first, last := c.span(now)
	refused, found := 0, false
	for hour := first; !hour.After(last); hour = hour.Add(time.Hour) {
		clusters, err := source.Clusters(ctx, hour)
		if err != nil {
			return fmt.Errorf("clusters of %s: %w", hour.Format(time.RFC3339), err)
		}
		for _, cluster := range clusters {
			found = true
			switch err := a.file(ctx, cluster, hour); {
			case errors.As(err, new(*refusal)):
				refused++
				log.Warn("hour refused", "cluster", cluster, "hour", hour, "err", err)
			case err != nil:
				return fmt.Errorf("cluster %s, hour %s: %w", cluster, hour.Format(time.RFC3339), err)
			}
		}
	}
	if !found {
		return fmt.Errorf("%s has no boards from %s to %s: check that it receives the job gpuledger-record", c.Store.URL, first.Format(time.RFC3339), last.Add(time.Hour).Format(time.RFC3339))
	}
	if refused > 0 {
		return fmt.Errorf("%w: %d, for the reasons above; run the command again when the data is complete", ErrRefused, refused)
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
	folder *files.Folder
	now    time.Time
	log    *slog.Logger
}

// file files an hour of a cluster unless it is filed.
func (a *archive) file(ctx context.Context, cluster string, hour time.Time) error {
	filed, err := a.folder.Filed(cluster, hour)
	if err != nil || filed != "" && !a.config.Again {
		return err
	}
	began := time.Now()
	record, err := a.store.Read(ctx, cluster, hour)
	if err != nil {
		return err
	}
	after, err := a.store.SampledSince(ctx, cluster, hour.Add(time.Hour), a.now)
	if err != nil {
		return err
	}
	if err := check(record, gates{sampledAfter: after, now: a.now, acceptGaps: a.config.AcceptGaps}); err != nil {
		return err
	}
	h, err := fold.Fold(record.Input)
	if err != nil {
		return &refusal{err}
	}
	if filed == table.Digest(h) {
		return nil
	}
	if err := a.folder.Replace(h); err != nil {
		return err
	}
	a.log.Info("hour filed", "cluster", cluster, "hour", hour, "gpus", len(h.GPUs), "charges", len(h.Charges), "seconds", math.Round(time.Since(began).Seconds()*1000)/1000)
	return nil
}
