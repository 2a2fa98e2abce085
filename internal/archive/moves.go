package archive

import (
	"log/slog"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/moves"
)

// maxMoveLag is the time for which the events of boards wait for the hours of a late cluster. Without this wait, a
// board that moved to the late cluster would seem to be lost.
const maxMoveLag = 3 * time.Hour

// newPusher returns nil if no flag sets a receiver of events. The pusher reads the first sink that keeps rows.
func (a *archive) newPusher(c *Config, log *slog.Logger) (*moves.Pusher, error) {
	if !c.Moves.IsSet() {
		return nil, nil
	}
	place := keeping(c)[0]
	p, err := moves.New(c.Moves, place.Books, a.now(), log)
	if err != nil {
		return nil, err
	}
	for _, f := range a.filers {
		if f.Name == place.Name {
			f.pusher = p
		}
	}
	return p, nil
}

// push makes the pusher send the events of hours that are archived for all clusters. It does not wait for clusters that
// are far behind.
func (f *filer) push() {
	if f.pusher == nil || !f.fresh || len(f.newest) == 0 {
		return
	}
	f.fresh = false
	var newest time.Time
	for _, hour := range f.newest {
		if hour.After(newest) {
			newest = hour
		}
	}
	until := newest
	for _, hour := range f.newest {
		if hour.Before(until) && newest.Sub(hour) <= maxMoveLag {
			until = hour
		}
	}
	f.pusher.Filed(until.Add(time.Hour))
}
