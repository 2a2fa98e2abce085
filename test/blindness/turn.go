package blindness

import (
	"slices"
	"time"
)

type turn struct {
	Spell
	at  time.Duration
	end bool
	// began is the actual start of the outage, for the turn that ends it.
	began *time.Duration
}

func (s *Schedule) turns() []turn {
	var out []turn
	for _, spell := range s.Spells {
		began := new(time.Duration)
		out = append(out, turn{spell, spell.From, false, began}, turn{spell, spell.Until, true, began})
	}
	slices.SortStableFunc(out, func(a, b turn) int { return int(a.at - b.at) })
	return out
}

func (p *Play) turn(m *machine, t turn) error {
	kind := Kinds[t.Kind]
	do := kind.begin
	if t.end {
		do = kind.end
	} else {
		*t.began = m.elapsed()
	}
	if err := m.setFaults(kind, t); err != nil {
		return err
	}
	if do != nil {
		if err := do(m, t.Spell); err != nil {
			return err
		}
	}
	if !t.end {
		return nil
	}
	seen := blindness{kind.hides, everyGPU, span{*t.began, m.elapsed()}, kind.Name}
	if kind.perGPU {
		seen.gpu = t.GPU
	}
	if kind.end == nil && len(kind.faults) == 0 {
		seen.to = seen.from + step // the spell ended immediately
	}
	p.blind = append(p.blind, seen)
	if kind.Name == driverReloaded {
		p.unloaded = append(p.unloaded, seen.span)
	}
	return nil
}

func (m *machine) setFaults(kind Kind, t turn) error {
	if len(kind.faults) == 0 {
		return nil
	}
	for _, f := range kind.faults {
		if kind.perGPU {
			f.GPU = m.schedule.GPUs[t.GPU].UUID
		}
		if t.end {
			i := slices.Index(m.faults, f)
			m.faults = slices.Delete(m.faults, i, i+1)
		} else {
			m.faults = append(m.faults, f)
		}
	}
	return m.node.SetFaults(m.faults...)
}
