package factors

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxNames is the number of names in a list.
const maxNames = 10_000

// ReadNames reads names of boards, nodes or chassis: one in a line, or a column of a CSV file with a header. Without
// the name of a column it is the one with serial numbers.
func ReadNames(in io.Reader, column string) (names []string, err error) {
	l := &list{}
	place := -1
	err = parseCSV(in, func(header []string) error {
		l.header = slices.Clone(header)
		if column == "" {
			place = l.column(assetColumns["serial"]...)
		} else if place = slices.Index(l.header, column); place < 0 {
			return fmt.Errorf(`there is no column %q: it has "%s"`, column, strings.Join(l.header, `", "`))
		}
		switch {
		case place >= 0:
			return nil
		case len(header) > 1:
			return errors.New("there is no column with serial numbers: name it with --names.column=HEADER")
		}
		place = 0 // there is no header
		names = append(names, strings.TrimSpace(l.header[0]))
		return nil
	}, func(fields []string, line int) error {
		l.fields = fields
		switch name := l.value(place); {
		case l.long:
			return fmt.Errorf("line %d: the name has more than %d bytes", line, maxText)
		case len(names) == maxNames:
			return fmt.Errorf("line %d: more than %d names", line, maxNames)
		case strings.TrimSpace(strings.Join(fields, "")) != "": // else spreadsheets add lines
			names = append(names, name)
		}
		return nil
	})
	if err == nil && len(names) == 0 {
		err = errors.New("the list has no names")
	}
	return names, err
}
