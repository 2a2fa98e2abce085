package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// The values of rows have the types in [table.Table].
type format struct {
	name  string // also the extension of the files
	write func(w io.Writer, t table.Table, rows [][]any) error
	open  func(in content, t table.Table) (decoder, error)
}

var formats = []format{{"csv", writeCSV, openCSV}, {"parquet", writeParquet, openParquet}}

type decoder interface {
	// current reports whether the file has exactly the columns of the table. A file from an earlier version lacks later
	// columns.
	current() bool
	// scan calls the function each for every row, with the values of the given columns. If the file does not have a
	// column, its value is empty. The row is valid only during the call.
	scan(columns []string, each func(row []table.Cell)) error
}

var (
	errColumns = errors.New("the columns of the file differ from the columns of this gpuledger-archive version: move the file away, to file its day again")
	errMissing = errors.New("the file has no such column: it was written by another version of gpuledger-archive")
)

// Formats returns the names of the file formats.
func Formats() []string {
	var all []string
	for _, f := range formats {
		all = append(all, f.name)
	}
	return all
}

// CheckFormats returns an error if a format is unknown. The error names the flag.
func CheckFormats(flag string, names []string) error {
	for _, name := range names {
		if !slices.Contains(Formats(), name) {
			return fmt.Errorf("%s=%s: must be %s", flag, name, strings.Join(Formats(), ", "))
		}
	}
	return nil
}

func formatOf(name string) (format, bool) {
	i := slices.IndexFunc(formats, func(f format) bool { return strings.HasSuffix(name, "."+f.name) })
	if i < 0 {
		return format{}, false
	}
	return formats[i], true
}

func choose(names []string) (chosen []format, err error) {
	for _, name := range names {
		f, ok := formatOf("." + name)
		if !ok {
			return nil, fmt.Errorf("unknown format %q: must be one of %s", name, strings.Join(Formats(), ", "))
		}
		chosen = append(chosen, f)
	}
	if len(chosen) == 0 {
		return nil, errors.New("no format is given")
	}
	return chosen, nil
}

type file struct {
	format
	table table.Table
	name  string
}

func (f file) encode(rows [][]any) ([]byte, error) {
	var data bytes.Buffer
	err := f.write(&data, f.table, rows)
	return data.Bytes(), err
}

func (f file) scan(in content, columns []string, each func(row []table.Cell)) error {
	d, err := f.open(in, f.table)
	if err != nil {
		return err
	}
	return d.scan(columns, each)
}

// decode returns the rows with the columns of this version.
func (f file) decode(in content) (rows [][]any, err error) {
	defer recovered(&err)
	d, err := f.open(in, f.table)
	if err != nil {
		return nil, err
	}
	if !d.current() {
		return nil, errColumns
	}
	return f.rows(d)
}

// In the result, equal strings in successive rows share memory.
func (f file) rows(d decoder) (rows [][]any, err error) {
	columns := f.table.Columns
	last := make([]any, len(columns))
	err = d.scan(f.table.Names(), func(cells []table.Cell) {
		row := make([]any, len(columns))
		for i, cell := range cells {
			if columns[i].Type == table.Text && last[i] == cell.Text {
				row[i] = last[i]
			} else {
				row[i] = cell.Value(columns[i].Type)
			}
		}
		last = row
		rows = append(rows, row)
	})
	return rows, err
}
