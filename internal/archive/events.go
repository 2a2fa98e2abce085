package archive

import (
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/events"
	"github.com/gpuledger/gpuledger/internal/archive/sinks"
)

func eventDestinations(c *Config) (all []events.Destination) {
	for _, p := range c.places {
		if p.Events != nil {
			all = append(all, events.Destination{Name: p.Name, Open: p.Events})
		}
	}
	return all
}

func newReceiver(c Config, log *slog.Logger) *events.Receiver {
	if i := slices.IndexFunc(c.places, func(p sinks.Place) bool { return p.Folder != "" }); i >= 0 && c.Events.DeadLetter == "" {
		c.Events.DeadLetter = filepath.Join(c.places[i].Folder, "dead-letters.jsonl")
	}
	return events.New(c.Events, eventDestinations(&c), log)
}
