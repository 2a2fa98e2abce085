package factors

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// parseCSV reads a file with a header. Fields are separated by commas, or by semicolons if the header
// has one and no comma. Lines are the numbers of the rows' lines.
func parseCSV(r io.Reader) (header []string, rows [][]string, lines []int, err error) {
	buffered := bufio.NewReader(r)
	if mark, _ := buffered.Peek(3); string(mark) == "\ufeff" {
		_, _ = buffered.Discard(3)
	}
	first, _ := buffered.Peek(4096)
	line, _, _ := strings.Cut(string(first), "\n")
	in := csv.NewReader(buffered)
	if strings.Contains(line, ";") && !strings.Contains(line, ",") {
		in.Comma = ';'
	}
	in.TrimLeadingSpace = true
	if header, err = in.Read(); errors.Is(err, io.EOF) {
		return nil, nil, nil, errors.New("the file is empty: its first line must name the columns")
	}
	for err == nil {
		var row []string
		if row, err = in.Read(); err == nil {
			n, _ := in.FieldPos(0)
			rows, lines = append(rows, row), append(lines, n)
		}
	}
	if errors.Is(err, io.EOF) {
		return header, rows, lines, nil
	}
	return nil, nil, nil, fmt.Errorf("invalid CSV: %w", err)
}
