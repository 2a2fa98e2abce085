// Package table declares the tables of the archive and their rows. They are the same in every sink. Each column is
// declared once, with its name, its type, its help text and a pointer to its value. All code that writes, reads and
// adds up rows iterates over the columns.
package table

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// Table is a table of the archive. The archive always replaces all rows of one cluster and hour together, except in
// [Corrections] and [Appended].
type Table struct {
	Name    string
	Help    string
	Columns []Column
	// Key contains the columns that identify a row.
	Key []string
	// Rows returns the sorted rows of an hour. Values are string, int64 or time.Time. An unknown value of the type
	// [OptionalInt] is nil.
	Rows func(h *Hour) [][]any
}

const (
	clusterHelp = "external label of the Prometheus"
	hourHelp    = "start of the hour"
)

// build adds the cluster and the hour as the first columns, and also to the key.
func build[T any](name, help string, key []string, rows func(*Hour) []T, fields ...Field[T]) Table {
	fields = append([]Field[T]{
		computed("cluster", Text, clusterHelp, func(h *Hour, _ *T) any { return h.Cluster }),
		computed("hour", Time, hourHelp, func(h *Hour, _ *T) any { return h.Start }),
	}, fields...)
	t := Table{Name: name, Help: help, Key: append([]string{"cluster", "hour"}, key...), Columns: columnsOf(fields, 0)}
	t.Rows = func(h *Hour) (all [][]any) {
		source := rows(h)
		for i := range source {
			row := make([]any, len(fields))
			for j := range fields {
				row[j] = fields[j].value(h, &source[i])
			}
			all = append(all, row)
		}
		return all
	}
	return t
}

// columnsOf marks a column as added if its schema version is higher than since.
func columnsOf[T any](fields []Field[T], since int) []Column {
	all := make([]Column, len(fields))
	for i, f := range fields {
		all[i] = f.Column
		all[i].added = f.since > since
	}
	return all
}

func named[T any](fields []Field[T], name string) (found Field[T], ok bool) {
	i := slices.IndexFunc(fields, func(f Field[T]) bool { return f.Name == name })
	if i < 0 {
		return found, false
	}
	return fields[i], true
}

// Data contains the tables whose rows are replaced when an hour is written again.
var Data = []Table{GPUHours, Charges, Pods, Workloads}

// All contains all tables of the archive except [Chain] and [Summaries].
var All = append(slices.Concat(Data, Appended), Corrections, Hours, MonthlyCharges)

// Names returns the names of the columns.
func (t Table) Names() []string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return names
}

// Only returns a copy of the table that contains only the given columns.
func (t Table) Only(names []string) Table {
	t.Columns = slices.DeleteFunc(slices.Clone(t.Columns), func(c Column) bool { return !slices.Contains(names, c.Name) })
	return t
}

func (t Table) value(row []any, column string) any { return row[t.index(column)] }

// index returns -1 if the table has no such column.
func (t Table) index(column string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == column })
}

// Digest returns the SHA-256 of the rows of an hour, which is the same in every sink.
func Digest(h *Hour) string { return DigestRows(func(t Table) [][]any { return t.Rows(h) }) }

// DigestRows returns the digest of the rows in all tables [Data]. If a later version adds a column, an empty value does
// not change the digest. Hours from earlier versions are therefore not written again.
func DigestRows(rows func(t Table) [][]any) string {
	sum := sha256.New()
	for _, t := range Data {
		for _, row := range rows(t) {
			for i, value := range row {
				if t.Columns[i].Added() && value == t.Columns[i].Zero() {
					continue
				}
				_, _ = io.WriteString(sum, strconv.Quote(Format(value)))
			}
			_, _ = sum.Write([]byte{'\n'})
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Format returns a value as text. Times are in the RFC 3339 format with milliseconds. An unknown value is empty.
func Format(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return v.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return fmt.Sprint(value)
}
