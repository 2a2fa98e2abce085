package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// table is a table of Markdown that is readable as it stands. Its first column is text,
// the others are numbers.
type table struct {
	rows   [][]string
	widths []int
}

func newTable(head ...string) *table {
	t := &table{widths: make([]int, len(head))}
	t.add(head...)
	return t
}

// add adds a row; one that is too short goes on with empty cells.
func (t *table) add(cells ...string) {
	row := make([]string, len(t.widths))
	copy(row, cells)
	for i, c := range row {
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c), 3)
	}
	t.rows = append(t.rows, row)
}

func (t *table) String() string {
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

func (t *table) rule(out *strings.Builder) {
	for j, width := range t.widths {
		if j == 0 {
			out.WriteString("|" + strings.Repeat("-", width+2) + "|")
		} else {
			out.WriteString(strings.Repeat("-", width+1) + ":|")
		}
	}
	out.WriteString("\n")
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}

func kilobytes(n uint64) string { return thousands(int(n/1000)) + " kB" }

func ratio(a, b time.Duration) string {
	if b == 0 {
		return ""
	}
	r := float64(a) / float64(b)
	if r < 1 {
		return fmt.Sprintf("%.2f", r)
	}
	return fmt.Sprintf("%.1f", r)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// thousands writes 12345 as 12,345.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
