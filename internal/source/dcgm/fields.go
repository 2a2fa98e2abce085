package dcgm

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

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

// ParseFields reads a file of fields in the format of dcgm-exporter: lines of name, type
// and help, and comments that begin with #. Lines that are of no use do not spoil the
// others: the error, which is one line, names all of them.
func ParseFields(r io.Reader) ([]Field, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var fields []Field
	var wrong []string
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f, err := parseField(line)
		if err == nil && slices.ContainsFunc(fields, func(o Field) bool { return o.Name == f.Name }) {
			err = fmt.Errorf("%s is there twice", f.Name)
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("line %d: %v", i+1, err))
			continue
		}
		fields = append(fields, f)
	}
	metrics := slices.DeleteFunc(slices.Clone(fields), func(f Field) bool { return f.Type == Label })
	if n := len(ids(metrics)); n > maxFields {
		return nil, fmt.Errorf("there are %d fields that are no labels, and a host engine takes %d at most", n, maxFields)
	}
	if len(wrong) > 0 {
		return fields, errors.New(strings.Join(wrong, "; "))
	}
	return fields, nil
}

// parseField reads a line. It is parsed alone, so that a quote that is not closed takes no
// other line along.
func parseField(line string) (Field, error) {
	columns := csv.NewReader(strings.NewReader(line))
	columns.TrimLeadingSpace = true
	row, err := columns.Read()
	if e, ok := errors.AsType[*csv.ParseError](err); ok {
		return Field{}, e.Err
	} else if err != nil {
		return Field{}, err
	}
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
	case !utf8.ValidString(f.Help):
		return Field{}, fmt.Errorf("%s: the help is not in UTF-8", f.Name)
	}
	return f, nil
}
