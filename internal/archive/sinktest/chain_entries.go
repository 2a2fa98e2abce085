package sinktest

import (
	"cmp"
	"slices"
	"strconv"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// entry returns a random entry. A problem with this entry may name the hour of the entry or the hour of the next entry.
// The result at contains both hours.
func (c *chainTest) entry() (i int, at []place) {
	entries := c.rows[table.Chain.Name]
	i = c.random.IntN(len(entries))
	at = []place{placeOf(entries[i])}
	for _, other := range entries {
		if other[0] == entries[i][0] && number(other) == number(entries[i])+1 {
			at = append(at, placeOf(other))
		}
	}
	return i, at
}

func number(row []string) int {
	n, _ := strconv.Atoi(row[2])
	return n
}

func (c *chainTest) editEntry() []place {
	i, at := c.entry()
	row := c.rows[table.Chain.Name][i]
	column := c.random.IntN(len(row))
	row[column] = changed(table.Chain.Columns[column], row[column])
	if column == 2 {
		row[column] = strconv.Itoa(number(row) + 1000)
	}
	return append(at, placeOf(row))
}

func (c *chainTest) removeEntry() []place {
	i, at := c.entry()
	c.rows[table.Chain.Name] = slices.Delete(c.rows[table.Chain.Name], i, i+1)
	return at
}

func (c *chainTest) truncate() (at []place) {
	i, _ := c.entry()
	first := c.rows[table.Chain.Name][i]
	c.rows[table.Chain.Name] = slices.DeleteFunc(c.rows[table.Chain.Name], func(row []string) bool {
		removed := row[0] == first[0] && number(row) >= number(first)
		if removed {
			at = append(at, placeOf(row))
		}
		return removed
	})
	return at
}

// replaceSignature replaces a signature by the signature of another entry, by a signature with another key, or by "".
func (c *chainTest) replaceSignature() []place {
	i, at := c.entry()
	row := c.rows[table.Chain.Name][i]
	key, signature := len(row)-2, len(row)-1
	if row[signature] == "" {
		return nil
	}
	switch c.random.IntN(3) {
	case 0:
		row[signature] = c.other.Append(table.Entry{}, []table.Entry{{Cluster: row[0]}})[0].Signature
	case 1:
		row[key], row[signature] = "", ""
	case 2:
		other := c.rows[table.Chain.Name][c.random.IntN(len(c.rows[table.Chain.Name]))]
		if other[signature] == row[signature] {
			return nil
		}
		row[signature] = other[signature]
	}
	return at
}

// rewrite changes the energy of a charge, and writes a new chain that matches the changed rows.
func (c *chainTest) rewrite(by *chain.Signer) []place {
	_, i := c.row(table.Charges)
	row := c.rows[table.Charges.Name][i]
	column := slices.Index(table.Charges.Names(), "energy_mj")
	row[column] = changed(table.Charges.Columns[column], row[column])
	entries, at := c.entries(row[0]), placeOf(row)
	rows := func(of table.Table) (found [][]any) {
		for _, row := range c.rows[of.Name] {
			if placeOf(row) == at {
				found = append(found, values(c.T, of, row))
			}
		}
		return found
	}
	var all []place
	for i := range entries {
		if e := &entries[i]; (place{e.Cluster, table.Format(e.Hour)}) == at && e.Kind != table.SumsEntry {
			e.Kind, e.Rows = table.HourEntry, table.RowsDigest(rows)
		}
		all = append(all, place{entries[i].Cluster, table.Format(entries[i].Hour)})
	}
	c.replaceChain(row[0], by.Append(table.Entry{}, entries))
	return all
}

// rollBack removes the newest entry of a cluster, and the rows of its hour.
func (c *chainTest) rollBack() []place {
	i, _ := c.entry()
	entries := c.entries(c.rows[table.Chain.Name][i][0])
	last := entries[len(entries)-1]
	at := place{last.Cluster, table.Format(last.Hour)}
	for _, of := range append(slices.Clone(table.Chained), table.Hours) {
		c.rows[of.Name] = slices.DeleteFunc(c.rows[of.Name], func(row []string) bool { return placeOf(row) == at })
	}
	c.replaceChain(last.Cluster, entries[:len(entries)-1])
	return []place{{last.Cluster, ""}, at}
}

func (c *chainTest) entries(cluster string) (all []table.Entry) {
	for _, row := range c.rows[table.Chain.Name] {
		if row[0] == cluster {
			all = append(all, table.EntryIn(values(c.T, table.Chain, row)))
		}
	}
	slices.SortFunc(all, func(a, b table.Entry) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return all
}

func (c *chainTest) replaceChain(cluster string, entries []table.Entry) {
	rows := slices.DeleteFunc(c.rows[table.Chain.Name], func(row []string) bool { return row[0] == cluster })
	for _, row := range table.EntryRows(entries...) {
		rows = append(rows, formatted(row))
	}
	c.rows[table.Chain.Name] = rows
}

func values(t *testing.T, of table.Table, row []string) []any {
	t.Helper()
	all := make([]any, len(row))
	for i, text := range row {
		cell, err := of.Columns[i].ParseCell(text)
		check(t, err)
		all[i] = cell.Value(of.Columns[i].Type)
	}
	return all
}
