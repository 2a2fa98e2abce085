package words_test

import (
	"bytes"
	_ "embed"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
)

//go:embed words.txt
var list string

// A rule is applied to text in lower case.
type rule struct {
	pattern *regexp.Regexp
	// Every match contains at least one of these parts. A search for the parts is much faster than a search for the
	// pattern. parts is nil if no part is known.
	parts  [][]byte
	advice string
}

// find returns the matches in a text.
func (r rule) find(text []byte) [][]int {
	if r.parts != nil && !slices.ContainsFunc(r.parts, func(part []byte) bool { return bytes.Contains(text, part) }) {
		return nil
	}
	return r.pattern.FindAllIndex(text, -1)
}

// partsOf returns strings of which every match contains at least one, or nil if there are no such strings. It prefers
// long strings.
func partsOf(pattern *syntax.Regexp) (parts [][]byte) {
	switch pattern.Op {
	case syntax.OpLiteral:
		return [][]byte{[]byte(string(pattern.Rune))}
	case syntax.OpCapture:
		return partsOf(pattern.Sub[0])
	case syntax.OpConcat:
		for _, sub := range pattern.Sub {
			if found := partsOf(sub); shortest(found) > shortest(parts) {
				parts = found
			}
		}
	case syntax.OpAlternate:
		for _, sub := range pattern.Sub {
			found := partsOf(sub)
			if found == nil {
				return nil
			}
			parts = append(parts, found...)
		}
	}
	return parts
}

// shortest returns the length of the shortest part, or 0 if there are no parts.
func shortest(parts [][]byte) (length int) {
	for _, part := range parts {
		if length == 0 || len(part) < length {
			length = len(part)
		}
	}
	return length
}

func rules(t *testing.T) []rule {
	t.Helper()
	var rules []rule
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, advice, found := strings.Cut(line, "\t")
		if !found {
			t.Fatalf("words.txt: no tab in %q", line)
		}
		pattern = strings.ReplaceAll(strings.ToLower(pattern), " ", `(?:[ \t]+|[ \t]*\n[ \t]*)`)
		end := `\b`
		if strings.HasSuffix(pattern, "]") || strings.HasSuffix(pattern, `\.`) {
			end = "" // no word has to begin after a final punctuation mark
		}
		pattern = `\b(?:` + pattern + `)` + end
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatalf("words.txt: %v", err)
		}
		rules = append(rules, rule{regexp.MustCompile(pattern), partsOf(parsed), strings.TrimSpace(advice)})
	}
	return rules
}

// skipped matches generated files and third-party files.
var skipped = regexp.MustCompile(`(^|/)(\.git|bin|node_modules|testdata|golden)/|^LICENSE$`)

// TestWords checks that no comment, string or document uses a word on the list.
func TestWords(t *testing.T) {
	rules := rules(t)
	files := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel("../..", path)
		if err != nil || entry.IsDir() {
			if skipped.MatchString(name + "/") {
				return fs.SkipDir
			}
			return err
		}
		if skipped.MatchString(name) {
			return nil
		}
		text := prose(t, path)
		if text == nil {
			return nil
		}
		files++
		text = bytes.ToLower(text)
		for _, r := range rules {
			for _, at := range r.find(text) {
				line := 1 + bytes.Count(text[:at[0]], []byte("\n"))
				t.Errorf("%s:%d: %q: %s", name, line, text[at[0]:at[1]], r.advice)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 300 {
		t.Errorf("only %d files were read", files)
	}
}

// prose returns the text of a file for people, such as comments. It replaces everything else with spaces and keeps the
// line numbers. It returns nil for a kind of file that is not checked.
func prose(t *testing.T, path string) []byte {
	t.Helper()
	if !texts.MatchString(path) {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	switch filepath.Ext(path) {
	case ".go":
		return goProse(t, path, text)
	case ".md":
		return code.ReplaceAllFunc(text, blank)
	}
	return marks.ReplaceAll(imports.ReplaceAll(text, nil), []byte("${1} "))
}

var (
	// texts matches the files that are checked, by extension. It includes files without an extension, such as scripts.
	texts = regexp.MustCompile(`\.(go|md|yaml|yml|html|tmpl|c|h|js|mjs|jsx|css|sql|service)$|(^|/)[A-Za-z][A-Za-z-]*$|/\.ci/run$`)
	// code matches code and link targets in Markdown.
	code    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|\\]\\([^)]*\\)")
	imports = regexp.MustCompile(`(?m)^import .*$`)
	marks   = regexp.MustCompile(`(?m)^(\s*)(//|#)`)
)

// blank returns the same number of lines without text.
func blank(text []byte) []byte {
	return append([]byte(" · "), bytes.Repeat([]byte("\n"), bytes.Count(text, []byte("\n")))...)
}

func goProse(t *testing.T, path string, text []byte) []byte {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	kept := make([]byte, len(text))
	for i, c := range text {
		kept[i] = ' '
		if c == '\n' {
			kept[i] = c
		}
	}
	keep := func(node ast.Node) {
		from := files.Position(node.Pos()).Offset
		to := min(files.Position(node.End()).Offset, len(text))
		copy(kept[from:to], text[from:to])
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			keep(comment)
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if lit, ok := node.(*ast.BasicLit); ok && lit.Kind == token.STRING && bytes.ContainsRune([]byte(lit.Value), ' ') {
			keep(lit)
		}
		return true
	})
	return marks.ReplaceAll(oneSpace(kept), []byte("${1}  "))
}

// Most of a Go file is code, which becomes spaces. oneSpace shortens the spaces, because the rules would have to search
// all of them.
func oneSpace(text []byte) []byte {
	short := text[:0]
	for i, c := range text {
		if c != ' ' || i == 0 || text[i-1] != ' ' {
			short = append(short, c)
		}
	}
	return short
}

// TestRules checks that the rules find each example in testdata/found.txt and no example in testdata/allowed.txt. A "⏎"
// represents a line break.
func TestRules(t *testing.T) {
	rules := rules(t)
	for name, want := range map[string]bool{"found": true, "allowed": false} {
		examples, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(examples)) {
			text := []byte(strings.ToLower(strings.ReplaceAll(line, "⏎", "\n")))
			if got := slices.ContainsFunc(rules, func(r rule) bool { return len(r.find(text)) > 0 }); got != want {
				t.Errorf("a rule finds %q: %v, want %v", line, got, want)
			}
		}
	}
}
