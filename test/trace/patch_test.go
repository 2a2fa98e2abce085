package trace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// hunk is a part of a unified diff. Its line numbers are ignored, so a patch can be applied as long as the lines around
// the changes stay the same.
type hunk struct{ file, before, after string }

func readPatch(t *testing.T, name string) (hunks []hunk) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".patch"))
	if err != nil {
		t.Fatal(err)
	}
	file := ""
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "+++ b/"):
			file = strings.TrimSpace(strings.TrimPrefix(line, "+++ b/"))
		case strings.HasPrefix(line, "@@ "):
			hunks = append(hunks, hunk{file: file})
		case strings.HasPrefix(line, "diff "):
			file = ""
		case file == "":
		case strings.HasPrefix(line, " "), strings.HasPrefix(line, "-"), strings.HasPrefix(line, "+"):
			h := &hunks[len(hunks)-1]
			if line[0] != '+' {
				h.before += line[1:]
			}
			if line[0] != '-' {
				h.after += line[1:]
			}
		}
	}
	if len(hunks) == 0 {
		t.Fatalf("%s.patch has no hunk", name)
	}
	return hunks
}

// In apply, the old lines of each hunk must occur exactly once in the text.
func apply(text, file string, hunks []hunk) (string, error) {
	for _, h := range hunks {
		if h.file != file {
			continue
		}
		if n := strings.Count("\n"+text, "\n"+h.before); n != 1 && (h.before != "" || text != "") {
			return "", fmt.Errorf("%s contains these lines %d times, must be once:\n%s", file, n, h.before)
		}
		text = strings.TrimPrefix(strings.Replace("\n"+text, "\n"+h.before, "\n"+h.after, 1), "\n")
	}
	return text, nil
}

func filesOf(hunks []hunk) (names []string) {
	for _, h := range hunks {
		names = append(names, h.file)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// docs/design.md counts all files except tests.
func counted(hunks []hunk) []string {
	return slices.DeleteFunc(filesOf(hunks), func(name string) bool { return strings.HasSuffix(name, "_test.go") })
}

// patch returns the new text of each changed file by path.
func patch(t *testing.T, dir string, hunks []hunk) (changed map[string]string) {
	t.Helper()
	changed = make(map[string]string)
	for _, name := range filesOf(hunks) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if changed[name], err = apply(string(text), name, hunks); err != nil {
			t.Error(err)
		}
	}
	return changed
}

// TestFileCounts checks that each patch can be applied to the current code. docs/design.md must state how many files
// the patch changes, and must name each file. CONTRIBUTING.md must state the same number.
func TestFileCounts(t *testing.T) {
	page, err := os.ReadFile("../../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\|[^|]*\[[^]]*\]\(\.\./test/trace/testdata/([a-z]+)\.patch\)[^|]*\| (\d+) \|(.*)\|$`).FindAllStringSubmatch(string(page), -1)
	if len(rows) != len(changes) {
		t.Fatalf("design.md describes %d changes, but there are %d", len(rows), len(changes))
	}
	contributing, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		t.Run(row[1], func(t *testing.T) {
			hunks := readPatch(t, row[1])
			names := counted(hunks)
			t.Logf("%s: %d files: %s", row[1], len(names), strings.Join(names, ", "))
			if row[2] != fmt.Sprint(len(names)) {
				t.Errorf("design.md states %s files, the patch changes %d: %s", row[2], len(names), strings.Join(names, ", "))
			}
			link := fmt.Sprintf("[%d files](test/trace/testdata/%s.patch)", len(names), row[1])
			if len(names) == 1 {
				link = strings.Replace(link, "files]", "file]", 1)
			}
			if !strings.Contains(string(contributing), link) {
				t.Errorf("CONTRIBUTING.md has no link %s", link)
			}
			for _, name := range names {
				if !strings.Contains(row[3], "`"+name+"`") {
					t.Errorf("design.md does not name %s", name)
				}
			}
			patch(t, "../..", hunks)
		})
	}
}
