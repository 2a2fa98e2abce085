package table

import (
	"fmt"
	"strconv"
	"time"
)

// Cell is a value of a row, a text or an integer, that needs no allocation. Times are integers, in
// milliseconds since the Unix epoch; an unknown time is 0. Known is set if the value of a column of the
// type [OptionalInt] is known.
type Cell struct {
	Text  string
	Int   int64
	Known bool
}

// Time returns the value of a time in UTC, or zero if it is unknown.
func (c Cell) Time() time.Time {
	if c.Int == 0 {
		return time.Time{}
	}
	return time.UnixMilli(c.Int).UTC()
}

// Value returns the value for a column of the given type, as in a row of [Table].
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

// Column returns a column by its name.
func (t Table) Column(name string) (Column, error) {
	i := t.index(name)
	if i < 0 {
		return Column{}, fmt.Errorf("table %s has no column %q", t.Name, name)
	}
	return t.Columns[i], nil
}

// ParseCell returns the value of a text of [Format].
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
