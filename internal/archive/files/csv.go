package files

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// errColumns is the error of a file with other columns than this version writes.
var errColumns = errors.New("the file has other columns than this version of gpuledger-archive writes: move it away, to file its day again")

func writeCSV(w io.Writer, t table.Table, rows [][]any) error {
	out := csv.NewWriter(w)
	if err := out.Write(names(t)); err != nil {
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

func readCSV(data []byte, t table.Table) (rows [][]any, err error) {
	in := csv.NewReader(bytes.NewReader(data))
	head, err := in.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	columns, places := placesIn(t, head)
	if !slices.Equal(head, columns) {
		return nil, errColumns
	}
	for {
		texts, err := in.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		row := make([]any, len(t.Columns))
		for i, place := range places {
			if place < 0 {
				row[i] = t.Columns[i].Zero()
			} else if row[i], err = parse(t.Columns[i], texts[place]); err != nil {
				line, _ := in.FieldPos(place)
				return nil, fmt.Errorf("line %d, column %s: %w", line, t.Columns[i].Name, err)
			}
		}
		rows = append(rows, row)
	}
}

// parse is the inverse of [table.Format].
func parse(c table.Column, text string) (any, error) {
	switch c.Type {
	case table.Int:
		return strconv.ParseInt(text, 10, 64)
	case table.Time:
		if text == "" {
			return time.Time{}, nil
		}
		return time.Parse(time.RFC3339, text)
	}
	return text, nil
}

// placesIn returns the columns of a table, except for added columns that a file lacks, and the place of
// each column of the table in the file, -1 for those.
func placesIn(t table.Table, file []string) (names []string, places []int) {
	for _, c := range t.Columns {
		if c.Added() && !slices.Contains(file, c.Name) {
			places = append(places, -1)
			continue
		}
		places = append(places, len(names))
		names = append(names, c.Name)
	}
	return names, places
}

func names(t table.Table) []string {
	all := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		all[i] = c.Name
	}
	return all
}
