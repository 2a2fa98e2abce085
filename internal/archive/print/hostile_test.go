package print_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/print"
)

// acts contains the characters that can change a terminal or neighbouring text. Unicode defines these classes:
// controls, format characters such as direction marks, and line and paragraph separators.
var acts = []*unicode.RangeTable{unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Bidi_Control}

// page writes an answer with the label in every possible place.
func page(t *testing.T, format, label string) string {
	t.Helper()
	a := print.Answer{
		Columns: []print.Column{{Name: "serial", Title: "SERIAL"}, {Name: "cost", Title: "COST " + label, Kind: print.Number}},
		Rows:    [][]any{{label, -1.5}, {"next", 2.0}}, Notices: []string{label + " is unknown"},
	}
	var out bytes.Buffer
	var err error
	if format == "markdown" || format == "html" {
		err = print.Pages(&out, format, []print.Page{{Title: "Board " + label, Sections: []print.Section{{Title: "Place of " + label, Answer: a}}}}, print.Style{Zone: time.UTC})
	} else {
		err = a.Write(&out, format, print.Style{Zone: time.UTC})
	}
	check(t, err)
	return out.String()
}

// The output of a format must not contain the control characters of a label. A label must not add a line.
func TestHostile(t *testing.T) {
	for _, format := range []string{"text", "markdown", "html", "json"} {
		lines := strings.Count(page(t, format, "S1"), "\n")
		for _, table := range acts {
			for _, r := range table.R16 {
				for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
					checkText(t, format, "S"+string(c)+"1", lines)
				}
			}
			for _, r := range table.R32 {
				for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
					checkText(t, format, "S"+string(c)+"1", lines)
				}
			}
		}
		checkText(t, format, "S\x9b31m\xff\xc0\x801", lines)
	}
}

func checkText(t *testing.T, format, label string, lines int) {
	t.Helper()
	out := page(t, format, label)
	if n := strings.Count(out, "\n"); n != lines {
		t.Errorf("%s of %q: %d lines, want %d:\n%s", format, label, n, lines, out)
	}
	for _, c := range strings.ToValidUTF8(out, "\x00") {
		if c != '\n' && unicode.In(c, acts...) {
			t.Fatalf("%s of %q has %U:\n%q", format, label, c, out)
		}
	}
}

func TestSame(t *testing.T) {
	const label = "S\x1b[31m\u202e\U000e0001\u2028<é"
	var got struct{ Rows []struct{ Serial string } }
	if err := json.Unmarshal([]byte(page(t, "json", label)), &got); err != nil || got.Rows[0].Serial != label {
		t.Errorf("%q, error %v", got.Rows, err)
	}
}

// opens matches the characters that begin an inline element of CommonMark 0.31 (chapter 6), or that can close a
// heading. Inline elements are backslash escapes, entities, code spans, emphasis, links, images, autolinks and raw
// HTML. It also matches the characters of tables, strikethrough and autolinks on GitHub.
var opens = regexp.MustCompile("[&`*_\\[\\]!<>|~#$@]|(?i:https?://|ftp://|www\\.)")

// block matches the start of a block (chapters 4 and 5): thematic breaks, headings, code, HTML, quotes and lists.
var block = regexp.MustCompile("^(\\s|[-+*_=#>`~<|]|\\d{1,9}[.)])")

// The Markdown must show the label unchanged.
func checkMarkdown(t *testing.T, text, label string) {
	t.Helper()
	var shown, bare strings.Builder // has a blank in place of each escaped character
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", text[i+1]) >= 0 {
			i++
			shown.WriteByte(text[i])
			bare.WriteByte(' ')
			continue
		}
		shown.WriteByte(text[i])
		bare.WriteByte(text[i])
	}
	if shown.String() != label {
		t.Errorf("%q is shown as %q", label, shown.String())
	}
	if found := opens.FindString(bare.String()); found != "" {
		t.Errorf("%q is written as %q, with %q", label, text, found)
	}
}

// These labels contain the syntax of Markdown.
var markdownLabels = []string{
	"<script>alert(1)</script>", "![](https://example.com/x.png)", "[l](javascript:alert(1))", "# heading", "## b ##", "a|b|c", `a\|b`, `a\`, "`code`", "**b** __c__ *d* _e_",
	"&lt;b&gt;", "<https://example.com>", "https://example.com/x", "HTTP://example.com", "WwW.example.com", "ftp://example.com", "a@example.com", "~~s~~", "> quote", "- item", "+ item",
	"1. one", "12) two", "---", "***", "===", "```", "~~~", "[a]: /b", "[^1]", "<!-- c -->", "$x$", "|---|", "a <b", "00000018:01:00.0",
}

// Any printable label must remain text in a heading, a cell and a notice.
func FuzzMarkdown(f *testing.F) {
	for _, label := range markdownLabels {
		f.Add(label)
	}
	f.Fuzz(func(t *testing.T, label string) {
		if strings.ContainsFunc(label, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.ToValidUTF8(label, "") != label || strings.TrimSpace(label) != label || label == "" {
			return
		}
		lines := strings.Split(page(t, "markdown", label), "\n")
		checkMarkdown(t, strings.TrimPrefix(lines[0], "# Board "), label)
		checkMarkdown(t, strings.TrimPrefix(lines[2], "## Place of "), label)
		checkMarkdown(t, strings.TrimSuffix(strings.TrimPrefix(lines[6], "| "), " | -1.50 |"), label)
		checkMarkdown(t, strings.TrimPrefix(lines[9], "> "), label+" is unknown")
		if block.MatchString(strings.TrimPrefix(lines[9], "> ")) {
			t.Errorf("%q begins a block: %q", label, lines[9])
		}
	})
}

// In CSV, a label must not be a spreadsheet formula, and numbers must not change.
func TestFormulas(t *testing.T) {
	for label, want := range map[string]string{
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t=1", "\r=1": "'\r=1", "a=1": "a=1", "'=1": "'=1", "": "", "é": "é",
	} {
		rows, err := csv.NewReader(strings.NewReader(page(t, "csv", label))).ReadAll()
		check(t, err)
		if diff := cmp.Diff([][]string{{"serial", "cost"}, {want, "-1.5"}, {"next", "2"}}, rows); diff != "" {
			t.Errorf("%q (-want +got):\n%s", label, diff)
		}
	}
}
