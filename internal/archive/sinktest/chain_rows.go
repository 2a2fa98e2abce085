package sinktest

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

var coveredTables = append(slices.Clone(table.Chained), table.Hours, table.MonthlyCharges)

func (c *chainTest) changeValue() []place {
	of, i := c.row(coveredTables...)
	row := c.rows[of.Name][i]
	at := placeOf(row)
	column := c.random.IntN(len(row))
	row[column] = changed(of.Columns[column], row[column])
	return []place{at, placeOf(row)}
}

// swapUnknown replaces an unknown number by 0, or 0 by an unknown number.
func (c *chainTest) swapUnknown() []place {
	of, i := c.row(table.Charges, table.Corrections, table.MonthlyCharges)
	row := c.rows[of.Name][i]
	column := slices.Index(of.Names(), optionalAmounts[c.random.IntN(len(optionalAmounts))])
	switch row[column] {
	case "":
		row[column] = "0"
	case "0":
		row[column] = ""
	default:
		return nil
	}
	return []place{placeOf(row)}
}

func (c *chainTest) removeRow() []place {
	of, i := c.row(coveredTables...)
	at := placeOf(c.rows[of.Name][i])
	c.rows[of.Name] = slices.Delete(c.rows[of.Name], i, i+1)
	return []place{at}
}

// insertRow inserts a copy of a row. In the copy, the cluster, the hour or another key column is different.
func (c *chainTest) insertRow() []place {
	of, i := c.row(coveredTables...)
	row := slices.Clone(c.rows[of.Name][i])
	key := of.Columns[c.random.IntN(2)].Name
	if n := len(of.Key); n > 2 {
		key = of.Key[c.random.IntN(n)]
	}
	column := slices.Index(of.Names(), key)
	row[column] = changed(of.Columns[column], row[column])
	c.rows[of.Name] = append(c.rows[of.Name], row)
	return []place{placeOf(row)}
}

func (c *chainTest) hours() (a, b place) {
	_, i := c.row(table.Hours)
	_, j := c.row(table.Hours)
	return placeOf(c.rows[table.Hours.Name][i]), placeOf(c.rows[table.Hours.Name][j])
}

func (c *chainTest) removeHour() []place {
	at, _ := c.hours()
	for _, of := range append(slices.Clone(table.Chained), table.Hours) {
		c.rows[of.Name] = slices.DeleteFunc(c.rows[of.Name], func(row []string) bool { return placeOf(row) == at })
	}
	return []place{at}
}

// markPruned removes the rows of an hour and changes its state, as if the hour had been pruned.
func (c *chainTest) markPruned() []place {
	_, i := c.row(table.Hours)
	row, state := c.rows[table.Hours.Name][i], slices.Index(table.Hours.Names(), "state")
	if row[state] == string(table.Pruned) {
		return nil
	}
	row[state] = string(table.Pruned)
	for _, of := range table.Chained {
		c.rows[of.Name] = slices.DeleteFunc(c.rows[of.Name], func(other []string) bool { return placeOf(other) == placeOf(row) })
	}
	return []place{placeOf(row)}
}

func (c *chainTest) swapHours() []place {
	a, b := c.hours()
	if a == b {
		return nil
	}
	for _, of := range append(slices.Clone(table.Chained), table.Hours) {
		for _, row := range c.rows[of.Name] {
			switch placeOf(row) {
			case a:
				row[0], row[1] = b.cluster, b.hour
			case b:
				row[0], row[1] = a.cluster, a.hour
			}
		}
	}
	return []place{a, b}
}

func (c *chainTest) removeAcceptance() []place {
	state, reason := slices.Index(table.Hours.Names(), "state"), slices.Index(table.Hours.Names(), "reason")
	var accepted [][]string
	for _, row := range c.rows[table.Hours.Name] {
		if row[state] == string(table.Gaps) {
			accepted = append(accepted, row)
		}
	}
	row := accepted[c.random.IntN(len(accepted))]
	row[state], row[reason] = string(table.Complete), ""
	return []place{placeOf(row)}
}
