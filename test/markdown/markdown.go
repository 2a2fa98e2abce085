// Package markdown reads the commands in the documents and writes tables of measurements into them.
package markdown

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

// Table is a Markdown table that is easy to read in the source. Its first column contains text. The other columns
// contain numbers.
type Table struct {
	rows   [][]string
	widths []int // widths of the columns, in characters
}

// NewTable returns a table without rows.
func NewTable(head ...string) *Table {
	t := &Table{widths: make([]int, len(head))}
	t.Add(head...)
	return t
}

// Add adds a row. Missing cells are empty.
func (t *Table) Add(cells ...string) {
	row := make([]string, len(t.widths))
	copy(row, cells)
	for i, c := range row {
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c), 3)
	}
	t.rows = append(t.rows, row)
}

// String formats the table as Markdown.
func (t *Table) String() string {
	var out strings.Builder
	for i, row := range t.rows {
		for j, c := range row {
			pad := strings.Repeat(" ", t.widths[j]-utf8.RuneCountInString(c))
			if j == 0 {
				out.WriteString("| " + c + pad + " |")
			} else {
				out.WriteString(" " + pad + c + " |")
			}
		}
		out.WriteString("\n")
		if i == 0 {
			t.rule(&out)
		}
	}
	return out.String()
}

func (t *Table) rule(out *strings.Builder) {
	for j, width := range t.widths {
		if j == 0 {
			out.WriteString("|" + strings.Repeat("-", width+2) + "|")
		} else {
			out.WriteString(strings.Repeat("-", width+1) + ":|")
		}
	}
	out.WriteString("\n")
}

// Put is [Replace] in a file.
func Put(file, command, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := Replace(string(old), command, text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(changed), 0o644)
}

// Replace returns a page with new text between the markers of a command. The markers are HTML comments on separate
// lines: <!-- COMMAND: begin --> and <!-- COMMAND: end -->.
func Replace(page, command, text string) (string, error) {
	begin, end := "<!-- "+command+": begin -->\n", "<!-- "+command+": end -->\n"
	before, rest, found := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", fmt.Errorf("lines %q and %q are missing", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin + text + end + after, nil
}
