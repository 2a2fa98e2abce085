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

// DefaultFields is the content of the built-in field file.
//
//go:embed fields.csv
var DefaultFields string

// A Field is one row of the field file. The row defines a metric on the field page, or a label of all metrics on the
// page.
type Field struct {
	Name string // name in the spelling of the file, which is also the name of the metric
	Type FieldType
	Help string

	id field
}

// FieldType is the type of a field on the field page.
type FieldType string

// Types of fields.
const (
	Gauge   FieldType = "gauge"
	Counter FieldType = "counter"
	Label   FieldType = "label"
)

// ParseFields parses a field file in the format of dcgm-exporter. Each line of the file contains a
// name, a type and a help text. Comments start with #. Invalid lines do not affect other lines. The
// error lists all invalid lines in one line.
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
			err = fmt.Errorf("%s is listed twice", f.Name)
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("line %d: %v", i+1, err))
			continue
		}
		fields = append(fields, f)
	}
	metrics := slices.DeleteFunc(slices.Clone(fields), func(f Field) bool { return f.Type == Label })
	if n := len(ids(metrics)); n > maxFields {
		return nil, fmt.Errorf("%d gauge and counter fields, but a host engine accepts at most %d", n, maxFields)
	}
	if len(wrong) > 0 {
		return fields, errors.New(strings.Join(wrong, "; "))
	}
	return fields, nil
}

// parseField parses a single line, so that an unterminated quote does not affect other lines.
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
		return Field{}, fmt.Errorf("line must have 3 columns (name, type, help), got %d", len(row))
	}
	f := Field{Name: row[0], Type: FieldType(row[1]), Help: row[2]}
	var known bool
	f.id, known = godcgm.GetFieldID(f.Name)
	switch {
	case strings.HasPrefix(f.Name, "DCGM_EXP_"):
		return Field{}, fmt.Errorf("%s is a metric of dcgm-exporter, not a DCGM field", f.Name)
	case !known:
		return Field{}, fmt.Errorf("DCGM has no field %s", f.Name)
	case f.Type != Gauge && f.Type != Counter && f.Type != Label:
		return Field{}, fmt.Errorf("%s: type must be gauge, counter or label, got %q", f.Name, f.Type)
	case !utf8.ValidString(f.Help):
		return Field{}, fmt.Errorf("%s: help is not valid UTF-8", f.Name)
	}
	return f, nil
}
