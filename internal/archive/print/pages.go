package print

import (
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
	"github.com/gpuledger/gpuledger/internal/style"
)

// Section is a part of a page: a heading and an answer.
type Section struct {
	Title string
	Answer
}

func (a Answer) markdown(w io.Writer, style Style) error {
	head, rows := a.cells(style)
	var text strings.Builder
	line := func(cells []string) {
		for _, cell := range cells {
			text.WriteString("| " + escape(cell) + " ")
		}
		text.WriteString("|\n")
	}
	if len(rows) > 0 {
		line(head)
		text.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	}
	for _, row := range rows {
		line(row)
	}
	for i, notice := range a.Notices {
		if i > 0 || len(rows) > 0 {
			text.WriteString("\n")
		}
		text.WriteString("> " + paragraph(notice) + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (a Answer) html(w io.Writer, style Style) error {
	head, rows := a.cells(style)
	var text strings.Builder
	line := func(tag string, cells []string) {
		text.WriteString("<tr>")
		for _, cell := range cells {
			fmt.Fprintf(&text, "<%s>%s</%s>", tag, html.EscapeString(cell), tag)
		}
		text.WriteString("</tr>\n")
	}
	if len(rows) > 0 {
		text.WriteString("<table>\n")
		line("th", head)
		for _, row := range rows {
			line("td", row)
		}
		text.WriteString("</table>\n")
	}
	for _, notice := range a.Notices {
		fmt.Fprintf(&text, "<p class=\"notice\">%s</p>\n", html.EscapeString(labelvalue.Printable(notice)))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// With this style sheet, a page fits on paper.
const pageStyle = `
@page { size: A4 landscape; margin: 12mm }
body { font: 10pt/1.4 sans-serif; color: #111; margin: 2em }
h1 { font-size: 15pt } h1:not(:first-of-type) { break-before: page } h2 { font-size: 11pt; margin: 1.2em 0 .4em }
table { border-collapse: collapse } th, td { border-bottom: 1px solid #bbb; padding: .15em .7em .15em 0; text-align: left; vertical-align: top }
tr { break-inside: avoid } .notice { font-weight: bold }
`

const pageHead = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>%[1]s</title><style>%[2]s</style></head><body>
<h1>%[1]s</h1>
`

// SecurityPolicy is the Content-Security-Policy of an HTML page. It allows nothing but the page's own style sheet.
var SecurityPolicy = "default-src 'none'; style-src " + style.Source(pageStyle) + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page is a page with a title.
type Page struct {
	Title    string
	Sections []Section
}

// Pages writes pages as Markdown or HTML. The title of the first page is the title of the document.
func Pages(w io.Writer, format string, pages []Page, style Style) error {
	var text strings.Builder
	for i, p := range pages {
		title := labelvalue.Printable(p.Title)
		switch {
		case format == "html" && i == 0:
			fmt.Fprintf(&text, pageHead, html.EscapeString(title), pageStyle)
		case format == "html":
			fmt.Fprintf(&text, "<h1>%s</h1>\n", html.EscapeString(title))
		case i == 0:
			fmt.Fprintf(&text, "# %s\n", escape(title))
		default:
			fmt.Fprintf(&text, "\n# %s\n", escape(title))
		}
		for _, s := range p.Sections {
			if err := s.section(&text, format, style); err != nil {
				return err
			}
		}
	}
	if format == "html" {
		text.WriteString("</body></html>\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (s Section) section(w io.Writer, format string, style Style) error {
	heading, text := "\n## %s\n\n", labelvalue.Printable(s.Title)
	if format == "html" {
		heading, text = "<h2>%s</h2>\n", html.EscapeString(text)
	} else {
		text = escape(text)
	}
	if len(s.Rows) == 0 && len(s.Notices) == 0 {
		s.Notices = []string{"None."}
	}
	if _, err := fmt.Fprintf(w, heading, text); err != nil {
		return err
	}
	return s.Write(w, format, style)
}

var (
	// special matches characters that begin an inline element of Markdown. It includes GitHub's extensions: math,
	// mentions and links without brackets.
	special = regexp.MustCompile("[\\\\`*_\\[\\]<>#|~&!$@]|:/|(?i:www)\\.")
	// start matches text that begins a list or underlines a heading.
	start = regexp.MustCompile(`^([-+=]|\d+[.)])`)
)

// escape returns printable text as Markdown in a line. In CommonMark, a punctuation character after a backslash is
// plain text.
func escape(text string) string {
	return special.ReplaceAllStringFunc(text, func(found string) string {
		last := len(found) - 1
		if found == ":/" {
			last = 0
		}
		return found[:last] + `\` + found[last:]
	})
}

func paragraph(text string) string {
	text = escape(strings.TrimSpace(labelvalue.Printable(text)))
	return start.ReplaceAllStringFunc(text, func(found string) string {
		last := len(found) - 1
		return found[:last] + `\` + found[last:]
	})
}
