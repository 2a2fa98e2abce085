package ask

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Stay is a period in which a GPU was in one place. If the source has data for an hour of this period, the GPU has a
// row in this hour.
type Stay struct {
	// GPU contains the place of the GPU, and its energy and errors during the stay.
	table.GPU
	// Start is the event at the start of the stay: seen, moved or returned.
	Start string
	// First and Last are the times of the first and the last scrape in the stay. LastHour is the last hour of the stay.
	First, Last, LastHour time.Time
	// MissingSince is the first hour with data after the stay. It is zero if the stay has not ended.
	MissingSince time.Time
	// End is the reason for the end of the stay: moved, replaced, silent or lost. It is empty while the GPU is in this
	// place.
	End string
	// NextBoard is the next stay of another board in this place, and NextPlace is the next stay of this GPU. Each is
	// nil if there is no such stay.
	NextBoard, NextPlace *Stay
	// XIDHours contains the hours with XID errors, sorted by time.
	XIDHours []table.GPU
	// models contains the names of the model. A driver upgrade may change the name during the stay.
	models []modelName
}

type modelName struct {
	since time.Time // first hour with this name
	name  string
}

// boardOf identifies a board by its serial number if this is known, and otherwise by the UUID of the GPU.
func boardOf(s *Stay) string { return cmp.Or(s.Serial, s.UUID) }

func stays(ctx context.Context, source books.Source, of books.Query) ([]*Stay, error) {
	var p parts
	for row, err := range source.Rows(ctx, of) {
		if err != nil {
			return nil, err
		}
		p.add(row, of.Until)
	}
	return p.stays(ctx, source, of.Until)
}

func staysIn(ctx context.Context, source books.Source, of books.Query, rows []books.Row) ([]*Stay, error) {
	var p parts
	for _, row := range rows {
		p.add(row, of.Until)
	}
	return p.stays(ctx, source, of.Until)
}

// A stay has several parts if the source lacks data for some hours of the stay.
type parts struct {
	all    []*Stay
	latest map[string]*Stay
}

// A row of an archive may contain scrapes after the end of the query.
func (p *parts) add(row books.Row, until time.Time) {
	g := row.GPU
	if g.Scrapes == 0 || g.First.After(until) {
		return
	}
	if p.latest == nil {
		p.latest = make(map[string]*Stay)
	}
	g.Last = earlier(g.Last, until)
	s := p.latest[g.UUID]
	switch {
	case s == nil:
		s = newStay(g, "seen")
	case moved(s.GPU, g):
		s = newStay(g, "moved")
	case g.Hour.Sub(s.LastHour) > time.Hour:
		s = newStay(g, "returned")
	default:
		s.add(g)
		s.LastHour = later(s.LastHour, row.LastHour)
		return
	}
	s.LastHour = later(s.LastHour, row.LastHour)
	p.latest[g.UUID] = s
	p.all = append(p.all, s)
}

func (p *parts) stays(ctx context.Context, source books.Source, until time.Time) ([]*Stay, error) {
	c := &calendar{source: source, until: until, known: make(map[span]time.Time), silent: make(map[silence]bool)}
	all, err := c.join(ctx, p.all)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b *Stay) int {
		return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.Node, b.Node), cmp.Compare(a.UUID, b.UUID))
	})
	return all, c.end(ctx, all)
}

func newStay(g table.GPU, start string) *Stay {
	s := &Stay{GPU: g, Start: start, First: g.First, Last: g.Last, LastHour: g.Hour}
	s.Energy, s.XIDs, s.Scrapes, s.Losses, s.RemappedCorrectable, s.RemappedUncorrectable = 0, nil, 0, 0, 0, 0
	s.ClearErrors()
	s.add(g)
	return s
}

// modelIn returns the model of the GPU in an hour. If that hour has none, modelIn returns the last model before the hour,
// or the first model after it.
func (s *Stay) modelIn(hour time.Time) (name string) {
	for _, m := range s.models {
		if name == "" || !m.since.After(hour) {
			name = m.name
		}
	}
	return name
}

func (s *Stay) add(g table.GPU) {
	s.LastHour = g.Hour
	if n := len(s.models); g.Model != "" && (n == 0 || g.Model != s.models[n-1].name) {
		s.models = append(s.models, modelName{g.Hour, g.Model})
	}
	s.Last = later(s.Last, g.Last)
	s.Energy += g.Energy
	s.Scrapes += g.Scrapes
	s.Losses += g.Losses
	for _, text := range []struct{ known, now *string }{
		{&s.Serial, &g.Serial},
		{&s.Model, &g.Model},
		{&s.Machine, &g.Machine},
		{&s.SystemUUID, &g.SystemUUID},
		{&s.ChassisSerial, &g.ChassisSerial},
		{&s.ChassisSlot, &g.ChassisSlot},
		{&s.TrayIndex, &g.TrayIndex},
		{&s.PCIBusID, &g.PCIBusID},
	} {
		*text.known = cmp.Or(*text.now, *text.known)
	}
	s.RemappedCorrectable += g.RemappedCorrectable
	s.RemappedUncorrectable += g.RemappedUncorrectable
	s.AddErrors(&g)
	if len(g.XIDs) > 0 {
		s.XIDHours = append(s.XIDHours, g)
	}
}

// join adds the next part of a stay. The source lacks data for the hours between the two parts.
func (s *Stay) join(next *Stay) {
	xids := append(s.XIDHours, next.XIDHours...)
	s.models = append(s.models, next.models...)
	g := next.GPU
	g.Hour, g.Last, g.XIDs = next.LastHour, next.Last, nil
	s.add(g)
	s.XIDHours = xids
}

// moved reports whether two rows of a GPU are about different places. Unknown attributes are not compared.
func moved(a, b table.GPU) bool {
	differ := func(a, b string) bool { return a != b && a != "" && b != "" }
	return a.Cluster != b.Cluster || a.Node != b.Node || differ(a.SystemUUID, b.SystemUUID) || differ(a.ChassisSerial, b.ChassisSerial) ||
		differ(a.ChassisSlot, b.ChassisSlot) || differ(a.PCIBusID, b.PCIBusID)
}

type span struct {
	cluster     string
	from, until time.Time
}

type calendar struct {
	source books.Source
	until  time.Time
	known  map[span]time.Time
	silent map[silence]bool
}

// silent means that no GPU of the node was scraped after the stay. lost means that a different GPU of the node was
// scraped after the stay.
const silent, lost = "silent", "lost"

// replaced means that another board was scraped in the place of the removed board.
const replaced = "replaced"

// The result is zero if the cluster has no data in the period.
func (c *calendar) filed(ctx context.Context, s span) (first time.Time, err error) {
	if !s.from.Before(s.until) {
		return time.Time{}, nil
	}
	if at, ok := c.known[s]; ok {
		return at, nil
	}
	of := books.Query{From: s.from, Until: s.until, Where: map[string][]string{"cluster": {s.cluster}}}
	for h, failed := range c.source.Hours(ctx, of) {
		first, err = h.Hour, failed
		break
	}
	c.known[s] = first
	return first, err
}

// join joins two parts of a stay if there is no hour with data between them.
func (c *calendar) join(ctx context.Context, parts []*Stay) (all []*Stay, err error) {
	latest := make(map[string]*Stay)
	for _, s := range parts {
		before := latest[s.UUID]
		if s.Start == "returned" {
			missing, err := c.filed(ctx, span{s.Cluster, before.LastHour.Add(time.Hour), s.Hour})
			if err != nil {
				return nil, err
			}
			if missing.IsZero() {
				before.join(s)
				continue
			}
		}
		latest[s.UUID] = s
		all = append(all, s)
	}
	return all, nil
}

type place struct{ cluster, node, machine, address string }

func (c *calendar) end(ctx context.Context, all []*Stay) (err error) {
	gpus, places := make(map[string]*Stay), make(map[place]*Stay)
	for _, s := range all {
		if before := gpus[s.UUID]; before != nil {
			before.NextPlace = s
		}
		gpus[s.UUID] = s
		at := place{s.Cluster, s.Node, s.SystemUUID, s.PCIBusID}
		if before := places[at]; before != nil && before.UUID != s.UUID && s.PCIBusID != "" {
			before.NextBoard = s
		}
		places[at] = s
	}
	for _, s := range all {
		if s.MissingSince, err = c.filed(ctx, span{s.Cluster, s.LastHour.Add(time.Hour), c.until}); err != nil {
			return err
		}
		if s.End, err = c.cause(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// The result is "" if the stay has not ended.
func (c *calendar) cause(ctx context.Context, s *Stay) (string, error) {
	soon := earlier(s.MissingSince.Add(time.Hour), c.until)
	at := func(next *Stay) bool { return next != nil && (s.MissingSince.IsZero() || !next.First.After(soon)) }
	switch {
	case at(s.NextPlace) && s.NextPlace.Start == "moved":
		return "moved", nil
	case at(s.NextBoard) && s.NextBoard.First.After(s.Last):
		return replaced, nil
	case s.MissingSince.IsZero():
		return "", nil
	}
	return c.missing(ctx, silence{cluster: s.Cluster, node: s.Node, from: s.MissingSince})
}

func (c *calendar) missing(ctx context.Context, at silence) (string, error) {
	is, known := c.silent[at]
	if !known {
		is = true
		of := books.Query{From: at.from, Until: earlier(at.from.Add(time.Hour), c.until), Places: true, Where: map[string][]string{"cluster": {at.cluster}, "node": {at.node}}}
		for row, err := range c.source.Rows(ctx, of) {
			if err != nil {
				return "", err
			}
			is = is && row.Scrapes == 0
		}
		c.silent[at] = is
	}
	if is {
		return silent, nil
	}
	return lost, nil
}
