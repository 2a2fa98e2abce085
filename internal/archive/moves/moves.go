// Package moves sends the events of boards, such as moves to another node, to a webhook and a file. It sends an event
// as soon as the hour of the event is archived. Each event is sent at least once. Receivers can drop duplicates by the
// id of the event.
package moves

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/permanent"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/archive/webhook"
	"github.com/gpuledger/gpuledger/internal/cli"
)

// Config contains the values of the flags.
type Config struct{ Webhook, TokenFile, File string }

// Register adds the flags.
func (c *Config) Register(fs *flag.FlagSet) {
	fs.StringVar(&c.Webhook, "moves.webhook", "", "`URL` to which the command run posts the events of boards as JSON lines, after each filed hour")
	fs.StringVar(&c.TokenFile, "moves.token-file", "", "`file` with a bearer token for --moves.webhook, read for every request; only for https or loopback")
	fs.StringVar(&c.File, "moves.file", "", "`file` to which the command run appends the events of boards as JSON lines, after each filed hour")
}

// IsSet reports whether a flag requests events.
func (c *Config) IsSet() bool { return c.Webhook != "" || c.File != "" }

// Validate checks the flags.
func (c *Config) Validate() error {
	if c.Webhook == "" && c.TokenFile != "" {
		return errors.New("--moves.token-file requires --moves.webhook")
	}
	hook := c.webhook()
	if err := hook.Validate(); err != nil {
		return fmt.Errorf("--moves.webhook (see --http.url): %w", err)
	}
	return cli.CheckSecret("moves.token-file", c.TokenFile)
}

func (c *Config) webhook() webhook.Config {
	return webhook.Config{URL: c.Webhook, TokenFile: c.TokenFile, Format: "ndjson", Batch: 1000, Timeout: 30 * time.Second}
}

const (
	// window is a period before the new hours. It is read again for each push, because late samples may reveal more
	// events.
	window = 7 * 24 * time.Hour
	// lookback is the length of another period, before the window. If a board was in its place in this period, it did
	// not arrive in the window.
	lookback = 24 * time.Hour
	// After a failed push, the delay before the next attempt is first minRetry, and doubles up to maxRetry.
	minRetry, maxRetry = 10 * time.Second, 5 * time.Minute
)

// Pusher sends the events of boards to a webhook and a file.
type Pusher struct {
	open    func(ctx context.Context) (books.Source, error)
	log     *slog.Logger
	since   time.Time
	outlets []*outlet
	wake    chan time.Time
	logged  string // last failure that was logged
}

// outlet is a webhook or a file. sent contains the ids of the events that it has received.
type outlet struct {
	name string
	sent map[string]bool
	add  func(ctx context.Context, rows [][]any) error
}

// New returns a pusher for the events since a week before now. It opens the archive for each push.
func New(c Config, open func(ctx context.Context) (books.Source, error), now time.Time, log *slog.Logger) (*Pusher, error) {
	p := &Pusher{open: open, log: log, since: now.Add(-window), wake: make(chan time.Time, 1)}
	if c.Webhook != "" {
		sink, err := webhook.Open(c.webhook())
		if err != nil {
			return nil, fmt.Errorf("--moves.webhook: %w", err)
		}
		add := func(ctx context.Context, rows [][]any) error { return sink.Append(ctx, table.Moves, rows) }
		p.outlets = append(p.outlets, &outlet{"webhook", make(map[string]bool), add})
	}
	if c.File != "" {
		f, sent, err := openFile(c.File)
		if err != nil {
			return nil, fmt.Errorf("--moves.file: %w", err)
		}
		p.outlets = append(p.outlets, &outlet{"file", sent, f.add})
	}
	return p, nil
}

// Filed makes the pusher send the events until a time. All earlier hours must be archived.
func (p *Pusher) Filed(until time.Time) {
	select {
	case <-p.wake: // drops the earlier time
	default:
	}
	p.wake <- until
}

// Run sends events until the context ends.
func (p *Pusher) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case until := <-p.wake:
			p.repeat(ctx, until)
		}
	}
}

// repeat sends the events until it succeeds. It stops early if a later time is requested.
func (p *Pusher) repeat(ctx context.Context, until time.Time) {
	for delay := minRetry; ; delay = min(2*delay, maxRetry) {
		err := p.push(ctx, until)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if p.logged != "" {
				p.log.Info("sending moves again")
			}
			p.logged = ""
			return
		case err.Error() != p.logged:
			p.logged = err.Error()
			p.log.Error("cannot send moves", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case until = <-p.wake:
		case <-time.After(delay):
		}
	}
}

func (p *Pusher) push(ctx context.Context, until time.Time) (err error) {
	source, err := p.open(ctx)
	if err != nil {
		return err
	}
	from := p.since.Add(-lookback).UTC().Truncate(time.Hour)
	rows, err := ask.Moves(ctx, source, books.Query{From: from, Until: until})
	if err := errors.Join(err, source.Close()); err != nil {
		return err
	}
	for _, o := range p.outlets {
		err = errors.Join(err, o.send(ctx, rows, p.since, p.log))
	}
	if next := until.Add(-window); err == nil && next.After(p.since) {
		p.since = next
	}
	return err
}

// send omits the events that the outlet has received. If an event is rejected, it is logged and not sent again.
func (o *outlet) send(ctx context.Context, rows [][]any, since time.Time, log *slog.Logger) error {
	var waiting [][]any
	for _, row := range rows {
		if !row[timeColumn].(time.Time).Before(since) && !o.sent[row[idColumn].(string)] {
			waiting = append(waiting, row)
		}
	}
	for n := len(waiting); len(waiting) > 0; {
		n = min(n, len(waiting))
		err := o.add(ctx, waiting[:n])
		switch {
		case permanent.Is(err) && n > 1:
			n = max(n/2, 1)
			continue
		case permanent.Is(err):
			log.Error("the receiver rejects a move", "outlet", o.name, "move", string(table.Moves.AppendJSON(nil, 0, waiting[0])), "err", err)
		case err != nil:
			return fmt.Errorf("%s: %w", o.name, err)
		}
		for _, row := range waiting[:n] {
			o.sent[row[idColumn].(string)] = true
		}
		waiting = waiting[n:]
		n = cmp.Or(len(waiting), 1)
	}
	return nil
}

// These are indexes of columns in [table.Moves].
const idColumn, timeColumn = 0, 1
