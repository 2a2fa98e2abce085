package blindness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/test/exposition"
)

// A Play is the result of a schedule: the exporter's pages, and the actual times in which the exporter could not read a
// source.
type Play struct {
	Schedule
	Began time.Time
	Shots []Shot
	blind []blindness
	// unloaded contains the spans without a driver. No process works in these spans.
	unloaded []span
	// late is the longest delay of a simulated step.
	late time.Duration
	// Mounted is unset if the state directory could not be mounted. Outages of the state directory then had no effect.
	Mounted bool
	// Log is the end of the last exporter's log.
	Log string
}

const everyGPU = -1

// A blindness is a span in which the exporter could not read a kind of data about a GPU.
type blindness struct {
	what hides
	gpu  int
	span
	by string // kind of the spell; empty if the exporter ended
}

const (
	resolution  = 200 * time.Millisecond
	scrapeEvery = 1500 * time.Millisecond
	// starting is the time between the start of an exporter and its first reading.
	starting = 3 * time.Second
)

// Run plays a schedule in real time.
func Run(ctx context.Context, s Schedule, p Programs) (play *Play, err error) {
	m, err := openMachine(&s, p)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	play = &Play{Schedule: s, Began: m.started.Wall, Mounted: m.mounted}
	if err := m.launch(Spell{}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	shots := make(chan []Shot)
	go func() { shots <- m.scrapes(ctx) }()
	err = play.perform(ctx, m)
	cancel()
	play.Shots = <-shots
	play.blind = append(play.blind, m.blind...)
	if m.exporter != nil {
		play.Log = m.exporter.Tail()
	}
	return play, err
}

func (p *Play) perform(ctx context.Context, m *machine) error {
	ticker := time.NewTicker(resolution)
	defer ticker.Stop()
	spells := p.turns()
	for last := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		now := m.elapsed()
		p.late = max(p.late, now-last-2*resolution)
		last = now
		if now >= p.Length {
			return nil
		}
		for ; len(spells) > 0 && spells[0].at <= now; spells = spells[1:] {
			if err := p.turn(m, spells[0]); err != nil {
				return fmt.Errorf("spell %s: %w", Kinds[spells[0].Kind].Name, err)
			}
		}
		if err := errors.Join(m.advance(), m.writeHeld(m.elapsed())); err != nil {
			return err
		}
	}
}

func (m *machine) scrapes(ctx context.Context) (shots []Shot) {
	ticker := time.NewTicker(scrapeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return shots
		case <-ticker.C:
		}
		url := m.address()
		if url == "" {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		page, err := exposition.ScrapeCreated(limited, url)
		cancel()
		if err == nil { // otherwise the exporter ended
			shots = append(shots, NewShot(m.elapsed(), page))
		}
	}
}
