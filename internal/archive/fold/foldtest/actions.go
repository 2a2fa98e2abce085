package foldtest

import "slices"

// absence is a period, in minutes, in which a board or node is missing. hours is the number of full hours in it.
type absence struct{ from, until, hours int }

func (p *Places) short(block int) absence {
	from := 60*(block+2) + p.IntN(120)
	return absence{from, from + 1 + p.IntN(58), 0}
}

func (p *Places) long(block, least, most int) absence {
	first, hours := block+3, least+p.IntN(most-least+1)
	return absence{60*first - p.IntN(50), 60*(first+hours) + p.IntN(50), hours}
}

func (n *drawnNode) present() (all []*drawnBoard) {
	for _, s := range n.slots {
		if s.board != nil {
			all = append(all, s.board)
		}
	}
	return all
}

// vanished returns the event for a board that disappears. It is "silent" if the node has no other boards, and "lost"
// otherwise.
func (n *drawnNode) vanished() string {
	if len(n.present()) == 1 {
		return "silent"
	}
	return "lost"
}

// free returns a random empty slot on a node without an event in this block. It returns nil if there is no such slot.
func (p *Places) free(not *drawnNode) *drawnSlot {
	var all []*drawnSlot
	for _, c := range p.clusters {
		for _, n := range c.nodes[1:] {
			for _, s := range n.slots {
				if !n.busy && n != not && s.board == nil {
					all = append(all, s)
				}
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	s := all[p.IntN(len(all))]
	s.busy = true
	return s
}

// block makes a random event for each node in the next hours. It skips the first node of each cluster.
func (p *Places) block(hour int, gaps bool) {
	p.gone, p.going = append(p.gone, p.going...), nil
	for _, c := range p.clusters {
		for _, n := range c.nodes {
			n.busy = c.installed > hour || n == c.nodes[0]
		}
		if gaps && p.IntN(5) == 0 && c.installed <= hour {
			p.unfiled(c, hour)
		}
	}
	for _, c := range p.clusters {
		for _, n := range c.nodes {
			if n.busy {
				continue
			}
			n.busy = true
			if boards := n.present(); len(boards) > 0 {
				p.action(hour, n, boards[p.IntN(len(boards))])
			} else {
				s, short := n.slots[p.IntN(len(n.slots))], p.short(hour)
				p.come(p.board(), s, short.until)
			}
		}
	}
}

// unfiled removes an hour from the history while a board is missing. The board has an event only if it is also missing
// in a second hour.
func (p *Places) unfiled(c *drawnCluster, hour int) {
	for _, n := range c.nodes {
		n.busy = true
	}
	n := c.nodes[1+p.IntN(3)]
	boards := n.present()
	if len(boards) == 0 {
		return
	}
	a, b := p.long(hour, 1, 2), boards[0]
	c.unfiled[hour+3] = true
	p.absent(b, a, a.hours == 2)
}

func (p *Places) absent(b *drawnBoard, a absence, noticed bool) {
	at := b.last
	if noticed {
		p.vanish(b, a.from, at.vanished())
		p.come(b, at, a.until)
		return
	}
	p.away(b, a.from)
	at.board = b
	b.spans = append(b.spans, drawnSpan{at, a.until, -1})
}

func (p *Places) action(hour int, n *drawnNode, b *drawnBoard) {
	short, long := p.short(hour), p.long(hour, 1, 4)
	switch p.IntN(13) {
	case 0: // a reboot
		n.silent = append(n.silent, [2]int{short.from, short.until})
	case 1:
		p.silence(n, long, nil)
	case 2:
		p.absent(b, long, true)
	case 3:
		p.absent(b, short, false)
	case 4: // lost
		p.vanish(b, long.from, n.vanished())
		p.going = append(p.going, b)
	case 5:
		p.swap(b, short)
	case 6:
		p.move(b, short)
	case 7:
		p.move(b, long)
	case 8:
		p.replace(b, short)
	case 9:
		p.replace(b, long)
	case 10: // the board is removed while its node is not scraped
		p.silence(n, long, b)
	case 11: // the board is found again later
		if len(p.gone) > 0 {
			if s := p.free(nil); s != nil {
				i := p.IntN(len(p.gone))
				p.come(p.gone[i], s, short.until)
				p.gone = slices.Delete(p.gone, i, i+1)
			}
		}
	case 12:
		if s := p.free(nil); s != nil {
			p.come(p.board(), s, short.until)
		}
	}
}

// silence stops the scrapes of a node for some hours. removed is a board that is removed during these hours, or nil.
func (p *Places) silence(n *drawnNode, a absence, removed *drawnBoard) {
	boards := n.present()
	n.silent = append(n.silent, [2]int{a.from, a.until})
	p.of(a.from-1, "silent", n, boards)
	for _, b := range boards {
		at := b.last
		p.leave(b, a.from, "silent")
		if b == removed {
			p.going = append(p.going, b)
		} else {
			p.enter(b, at, a.until, "returned")
		}
	}
	p.of(a.until, "returned", n, n.present())
}

func (p *Places) swap(b *drawnBoard, a absence) {
	for _, c := range p.clusters {
		for _, n := range c.nodes[1:] {
			if boards := n.present(); !n.busy && len(boards) > 0 {
				n.busy = true
				other, at, there := boards[0], b.last, boards[0].last
				p.leave(b, a.from, "moved")
				p.leave(other, a.from, "moved")
				p.come(b, there, a.until)
				p.come(other, at, a.until)
				return
			}
		}
	}
}

// move moves a board to an empty slot. If the board is in no slot for a full hour, it counts as missing.
func (p *Places) move(b *drawnBoard, a absence) {
	s := p.free(b.last.drawnNode)
	if s == nil {
		return
	}
	if a.hours > 0 {
		p.vanish(b, a.from, b.last.vanished())
	} else {
		p.leave(b, a.from, "moved")
	}
	p.come(b, s, a.until)
}

func (p *Places) replace(b *drawnBoard, a absence) {
	at, end := b.last, "replaced"
	if a.hours > 0 {
		end = at.vanished()
	}
	p.vanish(b, a.from, end)
	p.come(p.board(), at, a.until)
	p.going = append(p.going, b)
}

func (p *Places) lastHour() {
	n := p.clusters[p.IntN(3)].nodes[1]
	if boards := n.present(); len(boards) > 0 {
		from := 60*(PlacesHours-1) + 10 + p.IntN(20)
		p.replace(boards[0], absence{from, from + 1 + p.IntN(20), 0})
	}
}
