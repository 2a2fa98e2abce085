package files

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

func writeCSV(w io.Writer, t table.Table, rows [][]any) error {
	out := csv.NewWriter(w)
	if err := out.Write(t.Names()); err != nil {
		return err
	}
	return writeRows(out, rows)
}

func writeRows(out *csv.Writer, rows [][]any) error {
	var texts []string
	for _, row := range rows {
		texts = slices.Grow(texts[:0], len(row))[:len(row)]
		for i, value := range row {
			texts[i] = table.Format(value)
		}
		if err := out.Write(texts); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

type csvFile struct {
	*csv.Reader
	table table.Table
	head  []string
}

func openCSV(in content, t table.Table) (decoder, error) { return openCSVFile(in, t) }

func openCSVFile(in io.Reader, t table.Table) (*csvFile, error) {
	f := &csvFile{Reader: csv.NewReader(in), table: t}
	head, err := f.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	f.head, f.ReuseRecord = head, true
	return f, nil
}

func (f *csvFile) current() bool { return slices.Equal(f.head, written(f.table, f.head).Names()) }

// written returns the table without the added columns that the file lacks. An earlier version may have written the
// file.
func written(t table.Table, head []string) table.Table {
	t.Columns = slices.DeleteFunc(slices.Clone(t.Columns), func(c table.Column) bool { return c.Added() && !slices.Contains(head, c.Name) })
	return t
}

func (f *csvFile) scan(columns []string, each func([]table.Cell)) error {
	fields := make([]*csvColumn, len(columns))
	for i, name := range columns {
		c, err := f.table.Column(name)
		if err != nil {
			return err
		}
		fields[i] = &csvColumn{Column: c, place: slices.Index(f.head, name), texts: make(map[string]string)}
		if fields[i].place < 0 && !c.Added() {
			return fmt.Errorf("column %s: %w", name, errMissing)
		}
	}
	row := make([]table.Cell, len(columns))
	for {
		record, err := f.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for i, c := range fields {
			if row[i], err = c.cell(record); err != nil {
				line, _ := f.FieldPos(c.place)
				return fmt.Errorf("line %d, column %s: %w", line, c.Name, err)
			}
		}
		each(row)
	}
}

type csvColumn struct {
	table.Column
	place int // -1 if the file is older than the column
	texts map[string]string
	read  bool   // whether a cell was read
	text  string // text of the last cell
	last  table.Cell
}

// Many cells equal the cell above, so cell parses a repeated text only once. Equal strings share memory. The result
// does not keep the rest of the line in memory.
func (c *csvColumn) cell(record []string) (table.Cell, error) {
	if c.place < 0 {
		return table.Cell{}, nil
	}
	text := record[c.place]
	if c.read && text == c.text {
		return c.last, nil
	}
	cell, err := c.ParseCell(text)
	if err != nil {
		return cell, err
	}
	if cell.Text != "" {
		shared, known := c.texts[cell.Text]
		if !known {
			shared = strings.Clone(cell.Text)
			c.texts[shared] = shared
		}
		cell.Text = shared
	}
	c.read, c.text, c.last = true, text, cell
	return cell, nil
}
