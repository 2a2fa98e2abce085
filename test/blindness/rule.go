package blindness

import (
	"fmt"
	"time"
)

// A Violation describes which rule a page violates, and how.
type Violation struct {
	Rule string
	Text string
}

// Rules contains the names of the rules, in the order of the checks.
var Rules = []string{
	ruleBalance, ruleCounters, ruleHeldMore, ruleHeldLess, ruleActive, ruleExclusive, rulePresent, ruleEnergyMore, ruleEnergyLess, ruleBound, ruleReason, ruleRead,
}

const (
	ruleBalance    = "balance"
	ruleCounters   = "counters"
	ruleHeldMore   = "held more"
	ruleHeldLess   = "held less"
	ruleActive     = "active"
	ruleExclusive  = "exclusive"
	rulePresent    = "present"
	ruleEnergyMore = "energy more"
	ruleEnergyLess = "energy less"
	ruleBound      = "bound"
	ruleReason     = "reason"
	ruleRead       = "read"
)

// Check returns the violations of a play, but only the first violation for each rule and series.
func Check(p *Play) []Violation {
	c := &checker{truth: truth{p, p.slack()}, seen: make(map[string]bool), broken: make(map[string]int)}
	if len(p.Shots) == 0 {
		return []Violation{{ruleCounters, "the play has no page"}}
	}
	for i := range p.Shots {
		c.checkShot(&p.Shots[i])
	}
	c.checkSeries()
	c.checkEnd(&p.Shots[len(p.Shots)-1])
	return c.found
}

// Bounded reports whether the last page contains a bound for the uncounted energy.
func (p *Play) Bounded() bool {
	for k := range p.Shots[len(p.Shots)-1].Series {
		if k.Name == uncountedBound {
			return true
		}
	}
	return false
}

const mostTexts = 5

type checker struct {
	truth
	found  []Violation
	seen   map[string]bool
	broken map[string]int
}

// breaks records the first violation of a rule by each subject.
func (c *checker) breaks(rule, subject string, at time.Duration, format string, args ...any) {
	key := rule + subject
	if c.seen[key] {
		return
	}
	c.seen[key] = true
	if c.broken[rule]++; c.broken[rule] > mostTexts {
		return
	}
	text := fmt.Sprintf("%s at %.1f s: ", subject, at.Seconds()) + fmt.Sprintf(format, args...)
	c.found = append(c.found, Violation{rule, text})
}

func (c *checker) checkShot(s *Shot) {
	for g, b := range c.GPUs {
		c.checkBalance(s, b.UUID)
		c.checkReasons(s, g)
		c.checkMore(s, g)
		if age, quiet := c.age(s, g); quiet && age > mostSlack+2*tick {
			c.breaks(ruleRead, b.UUID, s.At, "the age of the last reading is %v", age)
		}
	}
	for i := range c.Owners {
		c.checkOwner(s, &c.Owners[i])
	}
}

// checkBalance checks that the accounts of a GPU add up to its energy.
func (c *checker) checkBalance(s *Shot, uuid string) {
	var parts int64
	for _, name := range []string{containerEnergy, unitEnergy, unattributedEnergy, retiredEnergy} {
		parts += s.sum(Series{Name: name, UUID: uuid})
	}
	if whole := s.sum(Series{Name: gpuEnergy, UUID: uuid}); whole != parts {
		c.breaks(ruleBalance, uuid, s.At, "the GPU has %d mJ, its accounts have %d mJ", whole, parts)
	}
}

// checkSeries checks that no counter decreases, restarts, or is missing at the end.
func (c *checker) checkSeries() {
	last := make(map[Series]Sample)
	for i := range c.Shots {
		s := &c.Shots[i]
		for k, v := range s.Series {
			was, known := last[k]
			subject := fmt.Sprintf("%s{%s %s %s%s}", k.Name, k.UUID, k.Owner, k.Split, k.Rest)
			if known && v.Value < was.Value {
				c.breaks(ruleCounters, subject, s.At, "decreased from %d to %d", was.Value, v.Value)
			}
			if known && !v.Created.Equal(was.Created) {
				c.breaks(ruleCounters, subject, s.At, "was created at %v, and then at %v", was.Created, v.Created)
			}
			last[k] = v
		}
	}
	end := &c.Shots[len(c.Shots)-1]
	for k, v := range last {
		if _, there := end.Series[k]; !there {
			c.breaks(ruleCounters, fmt.Sprintf("%s{%s %s %s%s}", k.Name, k.UUID, k.Owner, k.Split, k.Rest), end.At, "is missing, the last value was %d", v.Value)
		}
	}
}
