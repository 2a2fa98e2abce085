package archive

import (
	"context"
	"log/slog"

	"github.com/gpuledger/gpuledger/internal/archive/events"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/mysql"
	"github.com/gpuledger/gpuledger/internal/archive/postgres"
)

// keeper opens a sink that keeps events.
type keeper func(ctx context.Context, c *Config) (events.Sink, error)

// keepers are the sinks that keep events, by the flag of their destination. They are opened a second
// time for events, because a sink is not safe for concurrent use.
var keepers = map[string]keeper{
	"folder": func(_ context.Context, c *Config) (events.Sink, error) {
		return opened(files.OpenEvents(c.Folder, c.Formats))
	},
	"s3.url": func(ctx context.Context, c *Config) (events.Sink, error) { return opened(files.OpenS3(ctx, c.S3)) },
	"postgres.url": func(ctx context.Context, c *Config) (events.Sink, error) {
		return opened(postgres.Open(ctx, c.Postgres))
	},
	"mysql.url": func(ctx context.Context, c *Config) (events.Sink, error) {
		return opened(mysql.Open(ctx, c.MySQL, c.MySQLPassword))
	},
}

// opened returns no sink in place of a nil pointer.
func opened[T events.Sink](s T, err error) (events.Sink, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// eventDestinations returns the sinks for events that the flags name.
func eventDestinations(c *Config) (all []events.Destination) {
	for _, d := range destinations {
		if open := keepers[d.flag]; open != nil && d.isSet(c) {
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
	return events.New(c.Events, eventDestinations(&c), log)
}
