package factors

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const maxNames = 10_000

// ReadNames reads the names of boards, nodes or chassis. The input contains one name per line, or is a CSV file with a
// header and a column of names. The default column contains the serial numbers.
func ReadNames(in io.Reader, column string) (names []string, err error) {
	l := &list{}
	place := 0
	add := func(fields []string, line int) error {
		l.fields = fields
		name := l.at(place)
		switch {
		case l.long:
			return fmt.Errorf("line %d: the name is longer than %d bytes", line, maxText)
		case strings.TrimSpace(strings.Join(fields, "")) == "":
			return nil // spreadsheets add empty lines
		case len(names) == maxNames:
			return fmt.Errorf("line %d: more than %d names", line, maxNames)
		}
		names = append(names, name)
		return nil
	}
	err = parseCSV(in, func(header []string) error {
		l.header = slices.Clone(header)
		found := l.column(assetColumns["serial"]...)
		if column != "" {
			found = slices.Index(l.header, column)
		}
		switch {
		case found >= 0:
			place = found
			return nil
		case column != "":
			return fmt.Errorf(`there is no column %q: the list has the columns "%s"`, column, strings.Join(l.header, `", "`))
		case len(header) > 1:
			return errors.New("there is no column with serial numbers: name it with --names.column=HEADER")
		}
		return add(header, 1) // without a header, the first line is a name
	}, add)
	if err == nil && len(names) == 0 {
		err = errors.New("the list contains no names")
	}
	return names, err
}
