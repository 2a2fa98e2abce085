package blindness

import (
	"bytes"
	"strconv"
	"time"
)

// A counter simulates the energy counter that the driver returns for a GPU, in millijoules. It follows the board's true
// counter, except during a [Spell].
type counter struct {
	truth  []reading // last ten seconds, oldest first
	base   int64     // true value at which the counter shows 0
	frozen bool
	value  int64         // shown value while frozen; last shown value while late
	late   time.Duration // delay behind the truth
}

// A reading is a true value and the time at which the counter reached it.
type reading struct {
	at    time.Duration
	value int64
}

func (c *counter) follow(at time.Duration, value int64) {
	if n := len(c.truth); n > 0 && value < c.truth[n-1].value {
		c.truth, c.base, c.value = nil, 0, 0 // the driver was reloaded
	}
	c.truth = append(c.truth, reading{at, value})
	for len(c.truth) > 1 && c.truth[1].at < at-10*time.Second {
		c.truth = c.truth[1:]
	}
}

func (c *counter) shown() int64 {
	if c.frozen {
		return c.value
	}
	now := c.truth[len(c.truth)-1].at
	shown := c.truth[0]
	for _, r := range c.truth {
		if r.at <= now-c.late {
			shown = r
		}
	}
	if c.late > 0 { // the counter does not change until its delayed value is higher
		c.value = max(c.value, shown.value-c.base)
		return c.value
	}
	return shown.value - c.base
}

func (m *machine) show(at time.Duration, state []byte) []byte {
	var out bytes.Buffer
	next := 0
	for line := range bytes.Lines(state) {
		if bytes.HasPrefix(line, []byte("gpu\t")) && next < len(m.counters) {
			line = m.counters[next].replace(at, line)
			next++
		}
		out.Write(line)
	}
	return out.Bytes()
}

func (c *counter) replace(at time.Duration, line []byte) []byte {
	before, rest, found := bytes.Cut(line, []byte("\tenergy="))
	if !found {
		return line
	}
	text, after, _ := bytes.Cut(rest, []byte("\t"))
	value, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return line
	}
	c.follow(at, value)
	out := append(bytes.Clone(before), "\tenergy="...)
	out = strconv.AppendInt(out, c.shown(), 10)
	return append(append(out, '\t'), after...)
}

func (m *machine) freeze(s Spell) error {
	c := &m.counters[s.GPU]
	c.value, c.frozen = c.shown(), true
	return nil
}

func (m *machine) delay(s Spell) error {
	c := &m.counters[s.GPU]
	c.value = c.shown()
	c.late = 2*time.Second + time.Duration(m.schedule.Seed%5)*time.Second
	return nil
}

func (m *machine) thaw(s Spell) error {
	c := &m.counters[s.GPU]
	c.frozen, c.late = false, 0
	return nil
}

func (m *machine) reset(s Spell) error {
	c := &m.counters[s.GPU]
	c.base = c.truth[len(c.truth)-1].value
	return nil
}
