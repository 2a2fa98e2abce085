package table

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Type is the type of a column.
type Type int

// A column has one of these types.
const (
	Text        Type = iota // string, empty if it is unknown
	Int                     // int64
	Time                    // time.Time in UTC, zero if it is unknown
	Date                    // time.Time in UTC at the start of a day
	OptionalInt             // int64, nil if it is unknown
)

// Column is a column of a table.
type Column struct {
	Name string
	Type Type
	Help string

	since int // version of the schema that added the column; 0 for the first version
	added bool
}

// Added reports whether the column was added after the first version of its table. In rows from earlier versions, the
// column is empty, unknown or 0.
func (c Column) Added() bool { return c.added }

// Zero returns the value of an added column in a row from before the column was added.
func (c Column) Zero() any {
	switch c.Type {
	case Int:
		return int64(0)
	case Time:
		return time.Time{}
	case OptionalInt:
		return nil
	}
	return ""
}

// Field is a column with a function that accesses its value in a row of T. Exactly one of the functions is set.
type Field[T any] struct {
	Column
	text     func(row *T) *string
	number   func(row *T) *int64
	optional func(row *T) **int64
	moment   func(row *T) *time.Time
	counts   func(row *T) *Counts
	computed func(h *Hour, row *T) any

	short bool // the text is the value of a label, which may be shortened (see [shorten])
	// summed is the help text of the column in [MonthlyCharges]. It is empty if [MonthlyCharges] does not have the
	// column.
	summed string
}

// text returns a column for the value of a label. It shortens values of more than [MaxText] bytes.
func text[T any](name, help string, of func(*T) *string) Field[T] {
	return Field[T]{Column: Column{Name: name, Type: Text, Help: help}, text: of, short: true}
}

// long returns a column whose strings are not shortened to [MaxText].
func long[T any](name, help string, of func(*T) *string) Field[T] {
	return Field[T]{Column: Column{Name: name, Type: Text, Help: help}, text: of}
}

func counts[T any](name, help string, of func(*T) *Counts) Field[T] {
	return Field[T]{Column: Column{Name: name, Type: Text, Help: help}, counts: of}
}

func integer[T any](name, help string, of func(*T) *int64) Field[T] {
	return Field[T]{Column: Column{Name: name, Type: Int, Help: help}, number: of}
}

func optional[T any](name, help string, of func(*T) **int64) Field[T] {
	return Field[T]{Column: Column{Name: name, Type: OptionalInt, Help: help}, optional: of}
}

func moment[T any](name, help string, of func(*T) *time.Time) Field[T] {
	return Field[T]{Column: Column{Name: name, Type: Time, Help: help}, moment: of}
}

// computed returns a column whose values are computed from the hour or from several values of a row. A reader cannot
// set these values in a row.
func computed[T any](name string, as Type, help string, value func(h *Hour, row *T) any) Field[T] {
	return Field[T]{Column: Column{Name: name, Type: as, Help: help}, computed: value}
}

func (f Field[T]) addedIn(version int) Field[T] {
	f.since = version
	return f
}

func (f Field[T]) inSums(help string) Field[T] {
	f.summed = help
	return f
}

func (f *Field[T]) value(h *Hour, row *T) any {
	switch {
	case f.short:
		return shorten(*f.text(row))
	case f.text != nil:
		return *f.text(row)
	case f.number != nil:
		return *f.number(row)
	case f.optional != nil:
		if n := *f.optional(row); n != nil {
			return *n
		}
		return nil
	case f.moment != nil:
		return *f.moment(row)
	case f.counts != nil:
		return f.counts(row).String()
	}
	return f.computed(h, row)
}

// set accepts values from [Table.Rows]. An unknown time may be nil.
func (f *Field[T]) set(row *T, value any) {
	switch {
	case f.text != nil:
		*f.text(row) = value.(string)
	case f.number != nil:
		*f.number(row) = value.(int64)
	case f.optional != nil:
		*f.optional(row) = nil
		if n, known := value.(int64); known {
			*f.optional(row) = &n
		}
	case f.moment != nil:
		at, _ := value.(time.Time)
		*f.moment(row) = at.UTC()
	case f.counts != nil:
		*f.counts(row) = parseCounts(value.(string))
	}
}

// SetCell sets the value in a row.
func (f *Field[T]) SetCell(row *T, c Cell) {
	switch {
	case f.text != nil:
		*f.text(row) = c.Text
	case f.number != nil:
		*f.number(row) = c.Int
	case f.optional != nil:
		*f.optional(row) = nil
		if n := c.Int; c.Known {
			*f.optional(row) = &n
		}
	case f.moment != nil:
		*f.moment(row) = c.Time()
	case f.counts != nil:
		*f.counts(row) = parseCounts(c.Text)
	}
}

// IsAmount reports whether sums add up the values of the column.
func (c Column) IsAmount() bool { return c.Type == Int || c.Type == OptionalInt }

func (f *Field[T]) amount(row *T) *int64 {
	if f.optional != nil {
		return *f.optional(row)
	}
	return f.number(row)
}

// Several rows may share the pointer to an optional number. Therefore add gives the sum a new pointer.
func (f *Field[T]) add(to, row *T, factor int64) {
	if f.optional == nil {
		*f.number(to) += factor * *f.number(row)
		return
	}
	n := *f.optional(row)
	if n == nil {
		return
	}
	sum := factor * *n
	if known := *f.optional(to); known != nil {
		sum += *known
	}
	*f.optional(to) = &sum
}

func (f *Field[T]) clear(row *T) {
	if f.optional != nil {
		*f.optional(row) = nil
		return
	}
	*f.number(row) = 0
}

// Text returns a pointer to the string in a row. The type of the column must be [Text].
func (f *Field[T]) Text(row *T) *string { return f.text(row) }

// Counts contains numbers by name. As text, it is a list of name=number with spaces between the elements.
type Counts map[string]int64

func (c Counts) String() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(c)) {
		all = append(all, key+"="+strconv.FormatInt(c[key], 10))
	}
	return strings.Join(all, " ")
}

func parseCounts(text string) Counts {
	if text == "" {
		return nil
	}
	all := make(Counts)
	for field := range strings.FieldsSeq(text) {
		key, n, _ := strings.Cut(field, "=")
		all[key], _ = strconv.ParseInt(n, 10, 64)
	}
	return all
}
