package books

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// ErrTooMany means that a statement needs more sums than its query allows.
var ErrTooMany = errors.New("the question needs too many sums: select fewer hours or larger groups")

// sums adds up charges with the same values in some text columns.
type sums struct {
	texts  []table.Field[table.Charge]
	hourly bool
	parts  []time.Time       // starts of the parts of the query
	all    map[string]*hours // by the values of the text columns, joined
	limit  int               // 0 means no limit
	count  int               // number of sums in all
	// key and joined contain the text columns of the last charge. The field "of" is the entry of "all" with these
	// columns. Consecutive charges often have the same text columns, so a new search is rarely needed.
	key    table.Charge
	joined []byte
	of     *hours
}

// hours contains the sums of charges with the same text columns. There is one sum per hour, or a single sum.
type hours struct {
	first *table.Charge           // any of the sums; used to read the text columns
	all   map[int64]*table.Charge // sums by Unix seconds; nil for a single sum
	last  int64                   // hour of sum
	sum   *table.Charge           // sum to which the last charge was added
}

func newSums(of Query) *sums {
	s := &sums{hourly: slices.Contains(of.By, hourColumn), parts: of.Parts, limit: of.Limit, all: make(map[string]*hours)}
	s.texts = fieldsOf(table.ChargeField, slices.DeleteFunc(slices.Clone(of.By), func(name string) bool { return name == hourColumn }))
	return s
}

// add keeps no reference to the charge.
func (s *sums) add(c *table.Charge) {
	same := s.of != nil
	for i := range s.texts {
		known, now := s.texts[i].Text(&s.key), s.texts[i].Text(c)
		if *known != *now {
			*known, same = *now, false
		}
	}
	if !same {
		s.find()
	}
	var hour time.Time
	if s.hourly {
		hour = s.part(c.Hour)
	}
	h := s.of
	if at := hour.Unix(); h.sum == nil || h.last != at {
		if h.sum, h.last = h.all[at], at; h.sum == nil {
			s.begin(hour)
		}
	}
	h.sum.Add(c)
}

func (s *sums) find() {
	s.joined = s.joined[:0]
	for i := range s.texts {
		text := *s.texts[i].Text(&s.key)
		s.joined = append(binary.AppendUvarint(s.joined, uint64(len(text))), text...)
	}
	if s.of = s.all[string(s.joined)]; s.of == nil {
		s.of = new(hours)
		s.all[string(s.joined)] = s.of
	}
}

func (s *sums) begin(hour time.Time) {
	h, sum := s.of, s.key
	sum.Hour = hour
	h.sum = &sum
	if h.first == nil {
		h.first = h.sum
	}
	if s.hourly {
		if h.all == nil {
			h.all = make(map[int64]*table.Charge)
		}
		h.all[h.last] = h.sum
	}
	s.count++
}

func (s *sums) check() error {
	if s.limit > 0 && s.count > s.limit {
		return ErrTooMany
	}
	return nil
}

// part returns the start of the part that contains the hour. It returns the hour itself if the query has no parts.
func (s *sums) part(hour time.Time) time.Time {
	i, found := slices.BinarySearchFunc(s.parts, hour, time.Time.Compare)
	if found || i == 0 {
		return hour
	}
	return s.parts[i-1]
}

func (s *sums) sorted() []table.Charge {
	groups := slices.SortedFunc(maps.Values(s.all), func(a, b *hours) int {
		for i := range s.texts {
			if c := strings.Compare(*s.texts[i].Text(a.first), *s.texts[i].Text(b.first)); c != 0 {
				return c
			}
		}
		return 0
	})
	all := make([]table.Charge, 0, s.count)
	for _, h := range groups {
		if !s.hourly {
			all = append(all, *h.first)
			continue
		}
		for _, at := range slices.Sorted(maps.Keys(h.all)) {
			all = append(all, *h.all[at])
		}
	}
	return all
}
