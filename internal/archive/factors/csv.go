package factors

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Within these limits, a file can contain more than a year of hourly data for a hundred zones, or a million boards.
const (
	maxBytes   = 128 << 20
	maxRows    = 1_000_000
	maxColumns = 256
	maxText    = 1024 // maximum size of a field that is used, in bytes
	// maxLine is the maximum length of a line, in bytes. It is large because exports may have columns with comments.
	maxLine = 1 << 20
)

// newReader separates fields by semicolons if the header contains a semicolon and no comma. Otherwise it separates
// fields by commas.
func newReader(r io.Reader) *csv.Reader {
	buffered := bufio.NewReader(&limited{Reader: r})
	if mark, _ := buffered.Peek(3); string(mark) == "\ufeff" {
		_, _ = buffered.Discard(3)
	}
	first, _ := buffered.Peek(4096)
	text, _, _ := strings.Cut(string(first), "\n")
	in := csv.NewReader(buffered)
	if strings.Contains(text, ";") && !strings.Contains(text, ",") {
		in.Comma = ';'
	}
	in.TrimLeadingSpace = true
	in.ReuseRecord = true
	return in
}

// parseCSV calls the function row for each row after the header, with the number of its line. The fields are valid only
// during the call.
func parseCSV(r io.Reader, header func([]string) error, row func(fields []string, line int) error) error {
	in := newReader(r)
	for n := 0; ; n++ {
		fields, err := in.Read()
		switch {
		case errors.Is(err, io.EOF) && n == 0:
			return errors.New("the file is empty: its first line must name the columns")
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errLarge):
			return err
		case err != nil:
			return fmt.Errorf("invalid CSV: %w", err)
		case n > maxRows:
			return fmt.Errorf("%w: more than %d rows", errLarge, maxRows)
		case n == 0 && len(fields) > maxColumns:
			return fmt.Errorf("%w: more than %d columns", errLarge, maxColumns)
		case n == 0:
			err = header(fields)
		default:
			line, _ := in.FieldPos(0)
			err = row(fields, line)
		}
		if err != nil {
			return err
		}
	}
}

var errLarge = errors.New("the file is too large")

// limited limits the size of a file and the length of its lines. A line break in quotes does not end a line.
type limited struct {
	io.Reader
	total, line int
	quoted      bool
}

func (l *limited) Read(b []byte) (int, error) {
	n, err := l.Reader.Read(b)
	l.total += n
	for _, c := range b[:n] {
		l.line++
		switch {
		case c == '"':
			l.quoted = !l.quoted
		case c == '\n' && !l.quoted:
			l.line = 0
		}
		if l.line > maxLine {
			return 0, fmt.Errorf("%w: a line is longer than %d bytes", errLarge, maxLine)
		}
	}
	if l.total > maxBytes {
		return 0, fmt.Errorf("%w: more than %d MiB", errLarge, maxBytes>>20)
	}
	return n, err
}
