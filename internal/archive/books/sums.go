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
var ErrTooMany = errors.New("too many sums of charges")

// sums adds up charges with the same values in some columns.
type sums struct {
	texts  []table.Field[table.Charge]
	hourly bool
	parts  []time.Time              // starts of the parts of the query
	all    map[string]*table.Charge // sums by their texts and hour
	key    []byte                   // buffer for a key
	limit  int                      // 0 means no limit
}

func newSums(of Query) *sums {
	texts := fieldsOf(table.ChargeField, slices.DeleteFunc(slices.Clone(of.By), func(name string) bool { return name == hourColumn }))
	return &sums{texts: texts, hourly: slices.Contains(of.By, hourColumn), parts: of.Parts, limit: of.Limit, all: make(map[string]*table.Charge)}
}

// add adds a charge to the sum with the same strings. It keeps no reference to the charge.
func (s *sums) add(c *table.Charge) {
	s.key = s.key[:0]
	for i := range s.texts {
		text := *s.texts[i].Text(c)
		s.key = append(binary.AppendUvarint(s.key, uint64(len(text))), text...)
	}
	var hour time.Time
	if s.hourly {
		hour = s.part(c.Hour)
		s.key = binary.AppendVarint(s.key, hour.Unix())
	}
	sum := s.all[string(s.key)]
	if sum == nil {
		sum = &table.Charge{Hour: hour}
		for i := range s.texts {
			*s.texts[i].Text(sum) = *s.texts[i].Text(c)
		}
		s.all[string(s.key)] = sum
	}
	sum.Add(c)
}

func (s *sums) check() error {
	if s.limit > 0 && len(s.all) > s.limit {
		return ErrTooMany
	}
	return nil
}

// part returns the start of the part that contains an hour. If the query has no parts, it returns the hour.
func (s *sums) part(hour time.Time) time.Time {
	i, found := slices.BinarySearchFunc(s.parts, hour, time.Time.Compare)
	if found || i == 0 {
		return hour
	}
	return s.parts[i-1]
}

// sorted returns the sums by columns and then by hour.
func (s *sums) sorted() []table.Charge {
	sorted := slices.SortedFunc(maps.Values(s.all), func(a, b *table.Charge) int {
		for i := range s.texts {
			if c := strings.Compare(*s.texts[i].Text(a), *s.texts[i].Text(b)); c != 0 {
				return c
			}
		}
		return a.Hour.Compare(b.Hour)
	})
	all := make([]table.Charge, len(sorted))
	for i, sum := range sorted {
		all[i] = *sum
	}
	return all
}
