package books

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// sums adds up charges by columns.
type sums struct {
	by     []string
	texts  []table.Field[table.Charge] // of by
	hourly bool
	parts  []time.Time // of the selection
	all    map[table.Charge]*hours
	// key and of cache the entry of the last charge, because charges with the same key follow each
	// other.
	key table.Charge
	of  *hours
}

// hours contains the sums of charges with equal texts: one sum for each hour, or a single sum.
type hours struct {
	all  map[int64]*table.Charge // by seconds
	last int64                   // hour of sum
	sum  *table.Charge           // the last one
}

func newSums(of Query) *sums {
	s := &sums{hourly: slices.Contains(of.By, hourColumn), parts: of.Parts, all: make(map[table.Charge]*hours)}
	s.by = slices.DeleteFunc(slices.Clone(of.By), func(name string) bool { return name == hourColumn })
	s.texts = chargeFields(s.by)
	return s
}

// add adds a charge to the sum with the same column values. It does not keep the charge.
func (s *sums) add(c *table.Charge) {
	same := s.of != nil
	for i := range s.texts {
		known, now := s.texts[i].Text(&s.key), s.texts[i].Text(c)
		if *known != *now {
			*known, same = *now, false
		}
	}
	if !same {
		if s.of = s.all[s.key]; s.of == nil {
			s.of = &hours{all: make(map[int64]*table.Charge)}
			s.all[s.key] = s.of
		}
	}
	var hour time.Time
	if s.hourly {
		hour = s.part(c.Hour)
	}
	h := s.of
	if at := hour.Unix(); h.sum == nil || h.last != at {
		if h.sum, h.last = h.all[at], at; h.sum == nil {
			first := s.key
			first.Hour = hour
			h.sum, h.all[at] = &first, &first
		}
	}
	h.sum.Add(c)
}

// part returns the start of the part that contains an hour, or the hour if the query has no parts.
func (s *sums) part(hour time.Time) time.Time {
	i, found := slices.BinarySearchFunc(s.parts, hour, time.Time.Compare)
	if found || i == 0 {
		return hour
	}
	return s.parts[i-1]
}

// sorted returns the sums in the order of their columns, then of their hours.
func (s *sums) sorted() []table.Charge {
	groups := slices.SortedFunc(maps.Keys(s.all), func(a, b table.Charge) int {
		for i := range s.texts {
			if c := strings.Compare(*s.texts[i].Text(&a), *s.texts[i].Text(&b)); c != 0 {
				return c
			}
		}
		return 0
	})
	all := make([]table.Charge, 0, len(groups))
	for _, key := range groups {
		hours := s.all[key].all
		for _, at := range slices.Sorted(maps.Keys(hours)) {
			all = append(all, *hours[at])
		}
	}
	return all
}
