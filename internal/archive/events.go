package archive

import (
	"context"
	"log/slog"

	"github.com/gpuledger/gpuledger/internal/archive/events"
	"github.com/gpuledger/gpuledger/internal/archive/files"
)

// newReceiver returns the handler of events, which files them in the sinks that the flags name.
func newReceiver(c Config, log *slog.Logger) *events.Receiver {
	var all []events.Destination
	for _, d := range destinations {
		if d.isSet(&c) {
			all = append(all, events.Destination{
				Name: sinkName(d),
				Open: func(ctx context.Context) (events.Sink, error) { return openForEvents(ctx, d, &c) },
			})
		}
	}
	return events.New(c.Events, all, log)
}

// openForEvents opens a sink a second time, because a sink is not safe for concurrent use. It returns
// nil for a sink that cannot keep events.
func openForEvents(ctx context.Context, d destination, c *Config) (events.Sink, error) {
	if d.flag == "folder" {
		return files.OpenEvents(c.Folder, c.Formats)
	}
	s, err := d.open(ctx, c)
	if err != nil {
		return nil, err
	}
	if keeper, ok := s.(events.Sink); ok {
		return keeper, nil
	}
	return nil, s.Close()
}
