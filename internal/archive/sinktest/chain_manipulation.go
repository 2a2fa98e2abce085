package sinktest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

type place struct{ cluster, hour string }

func (p place) String() string {
	return fmt.Sprintf("%s %s", p.cluster, strings.TrimSuffix(p.hour, ":00:00.000Z"))
}

// manipulation is a way to change rows. change returns the changed hours. It returns nil if the random row cannot be
// changed in this way.
type manipulation struct {
	name   string
	change func(*chainTest) []place
	// published is set if only published checkpoints can reveal the manipulation.
	published bool
}

var manipulations = []manipulation{
	{"change a value", (*chainTest).changeValue, false},
	{"swap unknown and zero", (*chainTest).swapUnknown, false},
	{"remove a row", (*chainTest).removeRow, false},
	{"insert a row", (*chainTest).insertRow, false},
	{"remove an hour", (*chainTest).removeHour, false},
	{"swap two hours", (*chainTest).swapHours, false},
	{"remove an acceptance", (*chainTest).removeAcceptance, false},
	{"mark an hour as pruned", (*chainTest).markPruned, false},
	{"edit an entry", (*chainTest).editEntry, false},
	{"remove an entry", (*chainTest).removeEntry, false},
	{"truncate the chain", (*chainTest).truncate, false},
	{"replace a signature", (*chainTest).replaceSignature, false},
	{"rewrite the chain with another key", func(c *chainTest) []place { return c.rewrite(c.other) }, false},
	{"rewrite the chain with the same key", func(c *chainTest) []place { return c.rewrite(c.current) }, true},
	{"restore an earlier state", (*chainTest).rollBack, true},
}

// manipulate makes all kinds of manipulations repeatedly, in random order.
func (c *chainTest) manipulate() {
	found, counts := 0, make(map[string]int)
	n := c.Manipulations
	if testing.Short() {
		n = max(n/10, 2*len(manipulations))
	}
	var order []int
	for i := 0; i < n; {
		if len(order) == 0 {
			order = c.random.Perm(len(manipulations))
		}
		m := manipulations[order[0]]
		order = order[1:]
		before := make(map[string][][]string)
		for name, rows := range c.rows {
			before[name] = rows
			c.rows[name] = nil
			for _, row := range rows {
				c.rows[name] = append(c.rows[name], slices.Clone(row))
			}
		}
		changed := m.change(c)
		if changed != nil {
			i++
			counts[m.name]++
			var published []chain.Checkpoint
			if m.published {
				published = c.published
			}
			c.write(before, c.rows)
			if c.reveals(m, changed, c.problems(published)) {
				found++
			}
			c.write(c.rows, before)
		}
		c.rows = before
	}
	c.verifies("undoing all manipulations")
	c.Logf("found %d of %d manipulations: %v", found, n, counts)
	if len(counts) != len(manipulations) {
		c.Errorf("only %d kinds of manipulations were made", len(counts))
	}
}

func (c *chainTest) write(from, to map[string][][]string) {
	for _, of := range chainTables {
		if !slices.EqualFunc(from[of.Name], to[of.Name], slices.Equal[[]string]) {
			c.Raw.Replace(of, to[of.Name])
		}
	}
}

// reveals reports whether a problem names one of the changed hours.
func (c *chainTest) reveals(m manipulation, changed []place, problems []chain.Problem) bool {
	named := slices.ContainsFunc(problems, func(p chain.Problem) bool {
		return slices.Contains(changed, place{p.Cluster, table.Format(p.Hour)})
	})
	if !named {
		c.Errorf("%s of %v: problems %v", m.name, changed, problems)
	}
	return named
}

func (c *chainTest) row(tables ...table.Table) (table.Table, int) {
	of := tables[c.random.IntN(len(tables))]
	return of, c.random.IntN(len(c.rows[of.Name]))
}

func placeOf(row []string) place { return place{row[0], row[1]} }

func changed(of table.Column, text string) string {
	switch of.Type {
	case table.Int:
		n, _ := strconv.ParseInt(text, 10, 64)
		return strconv.FormatInt(n+1, 10)
	case table.OptionalInt:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "0" // the number was unknown
		}
		return strconv.FormatInt(n+1, 10)
	case table.Time:
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			at = Noon
		}
		return table.Format(at.Add(time.Hour * 24 * 365))
	}
	return text + "x"
}
