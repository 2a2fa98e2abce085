package ask

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
)

// boardEvent is an event of one board. If a node is no longer scraped or is scraped again, one boardEvent contains all
// boards of the node.
type boardEvent struct {
	At time.Time
	// Event is arrived, moved, returned, lost, silent or replaced.
	Event string
	// stays contains one [Stay] of each board: the stay that begins or ends with the event. cluster and node are the
	// previous place of the board. replaced is the serial number or UUID of the previous board in this slot.
	stays                   []*Stay
	cluster, node, replaced string
	// silence is the period without scrapes that begins or ends with the event. It is zero for other events.
	silence silence
}

// silence is a period in which no GPU of a node was scraped. from is the first hour of this period for which the
// cluster has data. until is the hour in which the boards return. In the event at the start of the silence, until is
// zero.
type silence struct {
	cluster, node string
	from, until   time.Time
}

// boardEvents returns the events of boards, sorted by time. In the first hour of a cluster, boards do not cause the
// event "arrived".
func boardEvents(ctx context.Context, source books.Source, of books.Query) ([]boardEvent, error) {
	uuids, first, err := changed(ctx, source, of)
	if err != nil || len(uuids) == 0 {
		return nil, err
	}
	of.Places = true
	all, err := stays(ctx, source, where(of, "uuid", uuids...))
	if err != nil {
		return nil, err
	}
	return events(all, first), nil
}

// changed returns the UUIDs of GPUs that may have events, and the first hour of each cluster. A GPU may have events if
// it was in several places, if its place also had another GPU, or if it was missing in an hour with data of its
// cluster.
func changed(ctx context.Context, source books.Source, of books.Query) (uuids []string, first map[string]time.Time, err error) {
	found, filed, err := source.Counted(ctx, of)
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	first, hours := make(map[string]time.Time), make(map[string]int)
	for _, h := range filed {
		if hours[h.Cluster]++; hours[h.Cluster] == 1 {
			first[h.Cluster] = h.Hour
		}
	}
	places, occupant, all := make(map[string]int), make(map[place]string), make(map[string]bool)
	for _, b := range found {
		if places[b.UUID]++; places[b.UUID] > 1 || b.Hours < hours[b.Cluster] {
			all[b.UUID] = true
		}
		at := place{cluster: b.Cluster, node: b.Node, address: b.PCIBusID}
		if other, ok := occupant[at]; ok && other != b.UUID && b.PCIBusID != "" {
			all[b.UUID], all[other] = true, true
		}
		occupant[at] = b.UUID
	}
	return slices.Sorted(maps.Keys(all)), first, nil
}

// The argument first contains the first hour of each cluster.
func events(all []*Stay, first map[string]time.Time) (found []boardEvent) {
	previous, occupant := make(map[string]*Stay), make(map[place]*Stay)
	for _, s := range all {
		at, e := place{s.Cluster, s.Node, s.SystemUUID, s.PCIBusID}, boardEvent{At: s.First, Event: s.Start, stays: []*Stay{s}}
		if other := occupant[at]; other != nil && other.UUID != s.UUID && s.PCIBusID != "" {
			e.replaced = boardOf(other)
		}
		if last := previous[s.UUID]; last != nil {
			e.cluster, e.node = last.Cluster, last.Node
			if s.Start == "returned" && last.End == silent {
				e.silence = silence{s.Cluster, s.Node, last.MissingSince, s.Hour}
			}
			found = append(found, e)
		} else if s.Hour.After(first[s.Cluster]) {
			e.Event = "arrived"
			found = append(found, e)
		}
		switch s.End {
		case silent:
			found = append(found, boardEvent{At: s.Last, Event: s.End, stays: []*Stay{s}, silence: silence{s.Cluster, s.Node, s.MissingSince, time.Time{}}})
		case lost, replaced:
			found = append(found, boardEvent{At: s.Last, Event: s.End, stays: []*Stay{s}})
		}
		previous[s.UUID], occupant[at] = s, s
	}
	slices.SortStableFunc(found, boardEvent.compare)
	return found
}

func (e boardEvent) compare(f boardEvent) int {
	return cmp.Or(e.At.Compare(f.At), cmp.Compare(e.stays[0].UUID, f.stays[0].UUID))
}

// grouped combines the events of all boards of a node that is no longer scraped. The combined period begins with the
// last scrape of any of these boards, and ends with the next scrape.
func grouped(all []boardEvent) (found []boardEvent) {
	known := make(map[silence]int)
	for _, e := range all {
		i, ok := known[e.silence]
		switch {
		case e.silence == silence{}:
			found = append(found, e)
		case !ok:
			known[e.silence] = len(found)
			found = append(found, e)
		default:
			of := &found[i]
			of.stays = append(of.stays, e.stays...)
			if e.Event == silent {
				of.At = e.At // the events are sorted by time
			}
		}
	}
	slices.SortStableFunc(found, boardEvent.compare)
	return found
}

// Moves returns the events of boards as rows of [table.Moves], sorted by time. The id of an event is derived only from
// the board, the node and the hour.
func Moves(ctx context.Context, source books.Source, of books.Query) (rows [][]any, err error) {
	all, err := boardEvents(ctx, source, of)
	for _, e := range all {
		s, side := e.stays[0], "start"
		if e.Event == lost || e.Event == silent || e.Event == replaced {
			side = "end"
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %s %d", s.UUID, s.Cluster, s.Node, side, e.At.Unix()/3600))
		rows = append(rows, []any{
			hex.EncodeToString(sum[:16]), e.At, e.Event, s.Serial, s.UUID, s.Cluster, s.Node, s.ChassisSerial, s.ChassisSlot, s.PCIBusID, e.cluster, e.node, e.replaced,
		})
	}
	return rows, err
}
