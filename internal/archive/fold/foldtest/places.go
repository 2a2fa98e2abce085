package foldtest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Places is a random history of boards in slots. DrawPlaces records the expected events and stays during the history.
// It does not compute them from the hours.
type Places struct {
	Start time.Time
	// Hours contains the hours of the archive, sorted by time and cluster.
	Hours  []*table.Hour
	Events []PlaceEvent
	Stays  []PlaceStay

	*rand.Rand
	clusters []*drawnCluster
	boards   []*drawnBoard
	gone     []*drawnBoard // boards that were removed in an earlier block, and are still in no slot
	going    []*drawnBoard // boards that were removed in this block
}

const (
	// PlacesHours is the number of hours in a random history.
	PlacesHours = 56
	firstBlock  = 4
	blockHours  = 10
)

// PlaceEvent is an expected event. If several boards of a node disappear together, they have one event without a serial
// number.
type PlaceEvent struct {
	At                                                        time.Time
	Event, Serial, Cluster, Node, FromCluster, FromNode, Took string
	GPUs                                                      int
}

// PlaceStay is an expected stay: a period in which a board was in one slot.
type PlaceStay struct {
	Serial, Cluster, Node, Start string
	First, Last                  time.Time
	End                          string
}

type drawnCluster struct {
	name      string
	installed int // first hour of the cluster
	nodes     []*drawnNode
	unfiled   map[int]bool // hours that are missing in the archive
}

type drawnNode struct {
	*drawnCluster
	name   string
	slots  []*drawnSlot
	silent [][2]int // periods without scrapes: first minute, and minute after the end
	busy   bool
}

type drawnSlot struct {
	*drawnNode
	number   int
	board    *drawnBoard // nil if the slot is empty
	occupant *drawnBoard // the last board in the slot; nil if there was none
}

type drawnBoard struct {
	serial, uuid string
	last         *drawnSlot // the last slot of the board
	spans        []drawnSpan
	stay         int // index of the board's last stay in Places.Stays
}

type drawnSpan struct {
	*drawnSlot
	first, end int // in minutes; the end is -1 while the board is in the slot
}

// DrawPlaces returns a random history. Two clusters exist from the beginning. A third cluster is installed later. If
// gaps is set, the archive lacks some hours.
func DrawPlaces(seed uint64, start time.Time, gaps bool) *Places {
	p := &Places{Start: start, Rand: rand.New(rand.NewPCG(seed, 0))}
	for i, name := range []string{"east", "north", "west"} {
		c := &drawnCluster{name: name, unfiled: make(map[int]bool)}
		if i == 2 {
			c.installed = 6 + p.IntN(30)
		}
		for n := range 4 {
			node := &drawnNode{drawnCluster: c, name: fmt.Sprintf("%s-%d", name, n)}
			for number := range 3 {
				slot := &drawnSlot{drawnNode: node, number: number}
				node.slots = append(node.slots, slot)
				if number == 0 || n > 0 && p.IntN(2) == 0 {
					p.enter(p.board(), slot, 60*c.installed+p.IntN(50), "seen")
				}
			}
			c.nodes = append(c.nodes, node)
		}
		p.clusters = append(p.clusters, c)
	}
	for block := firstBlock; block+blockHours <= PlacesHours-2; block += blockHours {
		p.block(block, gaps)
	}
	p.lastHour()
	p.scrape()
	slices.SortFunc(p.Events, func(a, b PlaceEvent) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	return p
}

func (p *Places) board() *drawnBoard {
	b := &drawnBoard{serial: fmt.Sprintf("S%03d", len(p.boards)), uuid: fmt.Sprintf("GPU-%03d", len(p.boards))}
	p.boards = append(p.boards, b)
	return b
}

func (p *Places) at(minute int) time.Time {
	return p.Start.Add(time.Duration(minute)*time.Minute + 7*time.Second)
}

func (p *Places) event(minute int, event string, b *drawnBoard, at *drawnSlot, from *drawnSlot, took *drawnBoard) {
	e := PlaceEvent{At: p.at(minute), Event: event, Serial: b.serial, Cluster: at.drawnCluster.name, Node: at.name, GPUs: 1}
	if from != nil {
		e.FromCluster, e.FromNode = from.drawnCluster.name, from.name
	}
	if took != nil && took != b {
		e.Took = took.serial
	}
	p.Events = append(p.Events, e)
}

// The recorded event is about all given boards of a node.
func (p *Places) of(minute int, event string, n *drawnNode, boards []*drawnBoard) {
	if len(boards) == 0 {
		return
	}
	e := PlaceEvent{At: p.at(minute), Event: event, Cluster: n.drawnCluster.name, Node: n.name, GPUs: len(boards)}
	if len(boards) == 1 {
		e.Serial = boards[0].serial
	}
	if event == "returned" {
		e.FromCluster, e.FromNode = e.Cluster, e.Node
	}
	p.Events = append(p.Events, e)
}

// enter puts a board into a slot, and begins a stay.
func (p *Places) enter(b *drawnBoard, s *drawnSlot, minute int, start string) {
	s.board, s.occupant, b.last, b.stay = b, b, s, len(p.Stays)
	b.spans = append(b.spans, drawnSpan{s, minute, -1})
	p.Stays = append(p.Stays, PlaceStay{Serial: b.serial, Cluster: s.drawnCluster.name, Node: s.name, Start: start, First: p.at(minute)})
}

// come puts a board into a slot, and records the event.
func (p *Places) come(b *drawnBoard, s *drawnSlot, minute int) {
	event, start := "moved", "moved"
	switch b.last {
	case nil:
		event, start = "arrived", "seen"
	case s:
		event, start = "returned", "returned"
	}
	p.event(minute, event, b, s, b.last, s.occupant)
	p.enter(b, s, minute, start)
}

// leave removes a board from its slot, and ends the stay. end is the reason.
func (p *Places) leave(b *drawnBoard, minute int, end string) {
	p.away(b, minute)
	p.Stays[b.stay].Last, p.Stays[b.stay].End = p.at(minute-1), end
}

// vanish removes a board from its slot. The event has the time of the board's last scrape.
func (p *Places) vanish(b *drawnBoard, minute int, end string) {
	p.event(minute-1, end, b, b.last, nil, nil)
	p.leave(b, minute, end)
}

// away removes a board from its slot, but does not end the stay.
func (p *Places) away(b *drawnBoard, minute int) {
	b.last.board = nil
	b.spans[len(b.spans)-1].end = minute
}

// scrape creates the rows of all hours. Every node is scraped once per minute, except in the periods in silent.
func (p *Places) scrape() {
	const minutes = PlacesHours * 60
	for _, b := range p.boards {
		if s := &p.Stays[b.stay]; s.Last.IsZero() {
			s.Last = p.at(minutes - 1)
		}
	}
	hours := make(map[string]*table.Hour)
	for hour := range PlacesHours {
		for _, c := range p.clusters {
			if hour >= c.installed && !c.unfiled[hour] {
				h := &table.Hour{Cluster: c.name, Start: p.Start.Add(time.Duration(hour) * time.Hour)}
				hours[c.name+strconv.Itoa(hour)] = h
				p.Hours = append(p.Hours, h)
			}
		}
	}
	for _, b := range p.boards {
		for _, span := range b.spans {
			if span.end < 0 {
				span.end = minutes
			}
			for minute := span.first; minute < span.end; minute++ {
				silent := slices.ContainsFunc(span.silent, func(s [2]int) bool { return s[0] <= minute && minute < s[1] })
				if h := hours[span.drawnCluster.name+strconv.Itoa(minute/60)]; h != nil && !silent {
					b.scrape(h, span.drawnSlot, p.at(minute))
				}
			}
		}
	}
}

func (b *drawnBoard) scrape(h *table.Hour, s *drawnSlot, at time.Time) {
	i := slices.IndexFunc(h.GPUs, func(g table.GPU) bool { return g.UUID == b.uuid && g.Node == s.name })
	if i < 0 {
		i = len(h.GPUs)
		h.GPUs = append(h.GPUs, table.GPU{
			Node: s.name, UUID: b.uuid, Serial: b.serial, First: at, Model: "H100", SystemUUID: "machine-of-" + s.name,
			ChassisSerial: "C-" + s.name, ChassisSlot: strconv.Itoa(s.number), PCIBusID: fmt.Sprintf("00000000:%d:00.0", s.number),
		})
	}
	g := &h.GPUs[i]
	g.Last = at
	g.Scrapes++
}

// Record returns the samples of the history. All boards have constant power.
func (p *Places) Record() *Store {
	s := NewStore()
	for _, h := range p.Hours {
		for _, g := range h.GPUs {
			for at := g.First; !at.After(g.Last); at = at.Add(time.Minute) {
				labels := []string{"cluster", h.Cluster, "node", g.Node, "UUID", g.UUID, "serial", g.Serial}
				s.Add(at, float64(at.Sub(p.Start)/time.Second)*100, "gpuledger_board_energy_joules_total", labels...)
				s.Add(at, 1, "gpuledger_placement_info", append(labels, "chassis_serial", g.ChassisSerial, "chassis_slot", g.ChassisSlot,
					"pci_bus_id", g.PCIBusID, "model", g.Model, "system_uuid", g.SystemUUID)...)
			}
		}
	}
	return s
}
