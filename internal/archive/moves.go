package archive

import (
	"context"
	"log/slog"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/moves"
)

// maxMoveLag is the time for which events of boards wait for the hours of a cluster that is behind the others. Else a board
// that moves from it to another one seems to be lost.
const maxMoveLag = 3 * time.Hour

// bookOpeners open the books in sinks, by the flag of their destination.
var bookOpeners = map[string]func(ctx context.Context, c *Config) (books.Source, error){
	"folder": func(ctx context.Context, c *Config) (books.Source, error) { return books.OpenFolder(ctx, c.Folder) },
	"s3.url": func(ctx context.Context, c *Config) (books.Source, error) { return books.OpenBucket(ctx, c.S3) },
	"postgres.url": func(ctx context.Context, c *Config) (books.Source, error) {
		return books.OpenDatabase(ctx, c.Postgres, "")
	},
	"mysql.url": func(ctx context.Context, c *Config) (books.Source, error) {
		return books.OpenDatabase(ctx, c.MySQL, c.MySQLPassword)
	},
}

// newPusher returns what sends the events of boards in the first sink that keeps hours, nil if none are sent.
func (a *archive) newPusher(c *Config, log *slog.Logger) (*moves.Pusher, error) {
	if !c.Moves.IsSet() {
		return nil, nil
	}
	d := keeping(c)[0]
	p, err := moves.New(c.Moves, func(ctx context.Context) (books.Source, error) { return bookOpeners[d.flag](ctx, c) }, a.now(), log)
	if err != nil {
		return nil, err
	}
	for _, f := range a.filers {
		if f.flag == d.flag {
			f.pusher = p
		}
	}
	return p, nil
}

// push requests the events of the hours that all clusters have. A cluster that is far behind is not waited for.
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
