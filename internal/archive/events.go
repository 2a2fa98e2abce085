package archive

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/events"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/stdout"
	"github.com/gpuledger/gpuledger/internal/archive/webhook"
)

// keeper opens a sink that keeps events.
type keeper func(ctx context.Context, c *Config) (events.Sink, error)

// keepers are the sinks that keep events, by the flag of their destination: all. They are opened a
// second time for events, because a sink is not safe for concurrent use.
var keepers = map[string]keeper{
	"folder": func(_ context.Context, c *Config) (events.Sink, error) {
		return opened(files.OpenEvents(c.Folder, c.Formats))
	},
	"s3.url": func(ctx context.Context, c *Config) (events.Sink, error) { return opened(files.OpenS3(ctx, c.S3)) },
	"postgres.url": func(ctx context.Context, c *Config) (events.Sink, error) {
		return opened(database.Postgres.Open(ctx, c.Postgres, ""))
	},
	"mysql.url": func(ctx context.Context, c *Config) (events.Sink, error) {
		return opened(database.MySQL.Open(ctx, c.MySQL, c.MySQLPassword))
	},
	"sqlite": func(ctx context.Context, c *Config) (events.Sink, error) {
		return opened(database.SQLite.Open(ctx, c.SQLite, ""))
	},
	"http.url": func(_ context.Context, c *Config) (events.Sink, error) { return opened(webhook.OpenEvents(c.HTTP)) },
	"stdout": func(_ context.Context, c *Config) (events.Sink, error) {
		return opened(stdout.Open(c.Stdout, os.Stdout))
	},
}

// keepsNone reports whether a sink is set to a format or table without events.
func keepsNone(c *Config, flag string) bool {
	return flag == "http.url" && !c.HTTP.KeepsEvents() || flag == "stdout" && !c.Stdout.KeepsEvents()
}

// opened returns a nil interface in place of a nil pointer.
func opened[T events.Sink](s T, err error) (events.Sink, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// eventDestinations returns the sinks for events that the flags name.
func eventDestinations(c *Config) (all []events.Destination) {
	for _, d := range destinations {
		if open := keepers[d.flag]; open != nil && d.isSet(c) && !keepsNone(c, d.flag) {
			all = append(all, events.Destination{
				Name: sinkName(d),
				Open: func(ctx context.Context) (events.Sink, error) { return open(ctx, c) },
			})
		}
	}
	return all
}

// newReceiver returns the handler of events.
func newReceiver(c Config, log *slog.Logger) *events.Receiver {
	if c.Events.DeadLetter == "" && c.Folder != "" {
		c.Events.DeadLetter = filepath.Join(c.Folder, "dead-letters.jsonl")
	}
	return events.New(c.Events, eventDestinations(&c), log)
}
