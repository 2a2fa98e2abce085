package dcgm

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// DefaultFields is the file of fields that comes with the program.
//
//go:embed fields.csv
var DefaultFields string

// A Field is one row of the file of fields: a metric of the field page, or a label of
// all of its metrics.
type Field struct {
	Name string // as the file spells it, which is the metric's name
	Type FieldType
	Help string

	id field
}

// FieldType is what a field is shown as.
type FieldType string

// The types of fields.
const (
	Gauge   FieldType = "gauge"
	Counter FieldType = "counter"
	Label   FieldType = "label"
)

// ParseFields reads a file of fields in the format of dcgm-exporter: rows of name, type
// and help, and comments that begin with #. Rows that are of no use do not spoil the
// others: the error, which is one line, names all of them.
func ParseFields(r io.Reader) ([]Field, error) {
	rows := csv.NewReader(r)
	rows.Comment, rows.FieldsPerRecord, rows.TrimLeadingSpace, rows.LazyQuotes = '#', -1, true, true
	var fields []Field
	var wrong []string
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fields, err
		}
		line, _ := rows.FieldPos(0)
		f, err := parseField(row)
		if err == nil && slices.ContainsFunc(fields, func(o Field) bool { return o.Name == f.Name }) {
			err = fmt.Errorf("%s is there twice", f.Name)
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("line %d: %v", line, err))
			continue
		}
		fields = append(fields, f)
	}
	if len(wrong) > 0 {
		return fields, errors.New(strings.Join(wrong, "; "))
	}
	return fields, nil
}

func parseField(row []string) (Field, error) {
	for i := range row {
		row[i] = strings.TrimSpace(row[i])
	}
	if len(row) != 3 {
		return Field{}, fmt.Errorf("want name, type, help; there are %d columns", len(row))
	}
	f := Field{Name: row[0], Type: FieldType(row[1]), Help: row[2]}
	var known bool
	f.id, known = godcgm.GetFieldID(f.Name)
	switch {
	case strings.HasPrefix(f.Name, "DCGM_EXP_"):
		return Field{}, fmt.Errorf("%s is a metric of dcgm-exporter and no field of DCGM", f.Name)
	case !known:
		return Field{}, fmt.Errorf("DCGM has no field %s", f.Name)
	case f.Type != Gauge && f.Type != Counter && f.Type != Label:
		return Field{}, fmt.Errorf("%s: type %q: want gauge, counter or label", f.Name, f.Type)
	}
	return f, nil
}
