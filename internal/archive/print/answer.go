// Package print writes answers as text for people, and as JSON and CSV for programs.
package print

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// Kind is the kind of the values in a column.
type Kind int

// These are the kinds of values, each with its Go type.
const (
	Text   Kind = iota // string or Hours
	Count              // int64
	Time               // time.Time; zero if unknown or not applicable
	Energy             // int64 in millijoules, printed in kilowatt hours
	Span               // int64 in milliseconds, printed in hours
	Share              // float64 from 0 to 1, printed in percent
	Change             // float64 of at least -1; 0 means no change; printed in percent with a sign
	Number             // float64, such as an amount of money
	Flag               // bool
)

// Hours is a list of strings with their hours.
type Hours []TextHour

// TextHour is a string with its hour.
type TextHour struct {
	Text string
	Hour time.Time
}

func (h Hours) in(zone *time.Location) string {
	all := make([]string, len(h))
	for i, of := range h {
		all[i] = of.Text + " at " + of.Hour.In(zone).Format("2006-01-02 15h")
	}
	return strings.Join(all, ", ")
}

// Column is a column of an answer.
type Column struct {
	// Name is the name in JSON and CSV.
	Name string
	// Title is the heading in text. If it is empty, text omits the column.
	Title string
	Kind  Kind
}

// Answer is the answer to a question: a table with notices.
type Answer struct {
	Columns []Column
	Rows    [][]any // nil means unknown
	// Notices are sentences about missing or uncertain parts of the answer.
	Notices []string
}

// Style contains the options for text.
type Style struct {
	Zone   *time.Location
	Colour bool
}

// Formats returns the names of the formats.
func Formats() []string { return []string{"text", "json", "csv", "markdown", "html"} }

// Write writes an answer in the given format.
func (a Answer) Write(w io.Writer, format string, style Style) error {
	switch format {
	case "json":
		return a.json(w)
	case "csv":
		return a.csv(w)
	case "markdown":
		return a.markdown(w, style)
	case "html":
		return a.html(w, style)
	}
	return a.text(w, style)
}

// json writes energy in millijoules, durations in milliseconds, and times in UTC.
func (a Answer) json(w io.Writer) error {
	type object struct {
		Rows    []json.RawMessage `json:"rows"`
		Notices []string          `json:"notices"`
	}
	all := object{[]json.RawMessage{}, append([]string{}, a.Notices...)}
	for _, row := range a.Rows {
		var b strings.Builder
		for i, c := range a.Columns {
			value, err := json.Marshal(plain(row[i]))
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, `%s%q:%s`, map[bool]string{true: "{", false: ","}[i == 0], c.Name, value)
		}
		all.Rows = append(all.Rows, json.RawMessage(b.String()+"}"))
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, visible(text.String()))
	return err
}

// visible replaces invisible characters in a JSON text by their escapes. The meaning of the JSON does not change.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// plain returns a value for programs. It returns nil if the value is unknown.
func plain(value any) any {
	if hours, ok := value.(Hours); ok {
		return hours.in(time.UTC)
	}
	at, ok := value.(time.Time)
	switch {
	case !ok:
		return value
	case at.IsZero():
		return nil
	}
	return at.UTC().Format("2006-01-02T15:04:05.000Z")
}

// csv writes an apostrophe before text that a spreadsheet would interpret as a formula.
func (a Answer) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	var head []string
	for _, c := range a.Columns {
		head = append(head, c.Name)
	}
	_ = out.Write(head) // out.Error also returns this error
	for _, row := range a.Rows {
		fields := make([]string, len(row))
		for i, value := range row {
			switch v := plain(value).(type) {
			case nil:
			case string:
				if v != "" && strings.ContainsAny(v[:1], "=+-@\t\r") {
					v = "'" + v
				}
				fields[i] = v
			case float64:
				fields[i] = strconv.FormatFloat(v, 'f', -1, 64)
			default:
				fields[i] = fmt.Sprint(v)
			}
		}
		_ = out.Write(fields)
	}
	out.Flush()
	return out.Error()
}

const (
	bold   = "\x1b[1m"
	yellow = "\x1b[33m"
	reset  = "\x1b[0m"
)

// text omits columns without a title, and columns without values.
func (a Answer) text(w io.Writer, style Style) error {
	head, rows := a.cells(style)
	var table strings.Builder
	out := tabwriter.NewWriter(&table, 0, 8, 2, ' ', 0)
	for _, line := range append([][]string{head}, rows...) {
		fmt.Fprintln(out, strings.Join(line, "\t"))
	}
	_ = out.Flush() // writing to a Builder returns no errors
	for i, line := range strings.Split(strings.TrimSuffix(table.String(), "\n"), "\n") {
		line = strings.TrimRight(line, " ")
		if i == 0 && style.Colour {
			line = bold + line + reset
		}
		if len(a.Rows) == 0 {
			break
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	for _, notice := range a.Notices {
		line := "! " + labelvalue.Printable(notice)
		if style.Colour {
			line = yellow + line + reset
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

func (a Answer) cells(style Style) (head []string, rows [][]string) {
	shown, rows := a.Shown(style)
	for _, c := range shown {
		head = append(head, labelvalue.Printable(c.Title))
	}
	return head, rows
}

// Shown returns the printable titles and texts of the columns. It omits columns without a title, and columns without
// values.
func (a Answer) Shown(style Style) (shown []Column, rows [][]string) {
	rows = make([][]string, len(a.Rows))
	for i, c := range a.Columns {
		texts, found := make([]string, len(a.Rows)), false
		for j, row := range a.Rows {
			texts[j] = labelvalue.Printable(c.Text(row[i], style))
			found = found || texts[j] != ""
		}
		if c.Title == "" || !found {
			continue
		}
		shown = append(shown, c)
		for j, text := range texts {
			if text == "" {
				text = "-"
			}
			rows[j] = append(rows[j], text)
		}
	}
	return shown, rows
}

const (
	kilowattHour = 3.6e9  // mJ
	hour         = 3600e3 // ms
)

// Text returns a value as text for people. An unknown value is "". The text may contain unprintable characters.
func (c Column) Text(value any, style Style) string {
	switch v := value.(type) {
	case nil:
		return ""
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return v.In(style.Zone).Format("2006-01-02 15:04")
	case Hours:
		return v.in(style.Zone)
	case int64:
		switch c.Kind {
		case Energy:
			return strconv.FormatFloat(float64(v)/kilowattHour, 'f', 3, 64)
		case Span:
			return strconv.FormatFloat(float64(v)/hour, 'f', 2, 64)
		}
	case float64:
		switch c.Kind {
		case Share:
			return strconv.FormatFloat(100*v, 'f', 1, 64) + " %"
		case Change:
			return fmt.Sprintf("%+.1f %%", 100*v)
		}
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return fmt.Sprint(value)
}
