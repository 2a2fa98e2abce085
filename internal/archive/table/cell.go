package table

import (
	"fmt"
	"strconv"
	"time"
)

// Cell is a value in a row. It needs no allocation. Int contains an integer, or a time in milliseconds since the Unix
// epoch. An unknown time is 0. Known is used only for the type [OptionalInt].
type Cell struct {
	Text  string
	Int   int64
	Known bool
}

// Time returns a time in UTC. It returns zero if the time is unknown.
func (c Cell) Time() time.Time {
	if c.Int == 0 {
		return time.Time{}
	}
	return time.UnixMilli(c.Int).UTC()
}

// Value converts the cell to a value of the given type, as in [Table.Rows].
func (c Cell) Value(as Type) any {
	switch as {
	case Int:
		return c.Int
	case Time:
		return c.Time()
	case OptionalInt:
		if c.Known {
			return c.Int
		}
		return nil
	}
	return c.Text
}

// Column returns the column with the given name.
func (t Table) Column(name string) (Column, error) {
	i := t.index(name)
	if i < 0 {
		return Column{}, fmt.Errorf("table %s has no column %q", t.Name, name)
	}
	return t.Columns[i], nil
}

// ParseCell is the inverse of [Format].
func (c Column) ParseCell(text string) (Cell, error) {
	switch c.Type {
	case Int:
		n, err := strconv.ParseInt(text, 10, 64)
		return Cell{Int: n}, err
	case OptionalInt:
		if text == "" {
			return Cell{}, nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		return Cell{Int: n, Known: true}, err
	case Time:
		if text == "" {
			return Cell{}, nil
		}
		at, err := time.Parse(time.RFC3339, text)
		return Cell{Int: at.UnixMilli()}, err
	}
	return Cell{Text: text}, nil
}
