package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/archive"
	"github.com/gpuledger/gpuledger/internal/reconciler"
	"github.com/gpuledger/gpuledger/test/alerts"
)

// pages returns the Markdown pages below this folder and in the root of the repository, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("../*.md")
	check(t, err)
	check(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			names = append(names, path)
		}
		return err
	}))
	if len(names) < 30 {
		t.Fatalf("only %d pages", len(names))
	}
	texts := make(map[string]string)
	for _, name := range names {
		texts[name] = read(t, name)
	}
	return texts
}

var (
	block   = regexp.MustCompile("(?s)```.*?```")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	anchor  = regexp.MustCompile(`<a id="([^"]+)">`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

const maxHeading = 80

// limits contains the maximum numbers of words. The README must stay short, because readers decide after its first
// screens. Reference pages are generated, so their words are not counted.
var (
	limits = map[string]int{
		"../README.md":     1320,
		"amd.md":           1580,
		"archive.md":       3200,
		"ask.md":           2190,
		"dba.md":           880,
		"dcgm.md":          2040,
		"dispute.md":       1410,
		"hardware.md":      725,
		"health.md":        1630,
		"install.md":       2744,
		"managers.md":      1045,
		"opentelemetry.md": 250,
		"packages.md":      590,
		"queues.md":        585,
		"slurm.md":         1070,
		"take-over.md":     612,
		"web.md":           1010,
		"upgrades.md":      1005,
		others:             34700,
	}
	reference = []string{"accuracy.md", "metrics.md", "flags.md", "tables.md"}
)

// Pages directly in this folder that have no limit of their own share this limit.
const others = "other pages"

func TestLengths(t *testing.T) {
	count := make(map[string]int)
	for name, text := range pages(t) {
		switch _, limited := limits[name]; {
		case slices.Contains(reference, name):
		case limited:
			count[name] += words(text)
		case filepath.Dir(name) == ".":
			count[others] += words(text)
		}
		for _, match := range heading.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
			if n := len([]rune(match[1])); n > maxHeading {
				t.Errorf("%s: a heading has %d characters, must have at most %d: %s", name, n, maxHeading, match[1])
			}
		}
	}
	for name, limit := range limits {
		if count[name] == 0 || count[name] > limit {
			t.Errorf("%s: %d words, want 1 to %d: state each fact once", name, count[name], limit)
		}
		t.Logf("%s: %d words", name, count[name])
	}
}

// words counts fields with a letter or a digit.
func words(text string) int {
	n := 0
	for field := range strings.FieldsSeq(text) {
		if strings.ContainsFunc(field, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

func TestLinks(t *testing.T) {
	for name, text := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
			path, fragment, _ := strings.Cut(match[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", name, match[1], err)
			} else if fragment != "" && !slices.Contains(fragments(read(t, target)), fragment) {
				t.Errorf("%s links to %s, which has no such heading", name, match[1])
			}
		}
	}
}

// GitHub renders the rest of a wrapped row of a table as another row.
func TestTables(t *testing.T) {
	rows := 0
	for name, text := range pages(t) {
		for line := range strings.SplitSeq(block.ReplaceAllString(text, ""), "\n") {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "|") {
				continue
			}
			if rows++; !strings.HasSuffix(line, "|") {
				t.Errorf("%s: a row does not end with |: %s", name, line)
			}
		}
	}
	if rows < 1000 {
		t.Errorf("only %d rows", rows)
	}
}

// TestIndex checks that the README's index has a row for each kind of reader, and that the README links every page of
// this folder.
func TestIndex(t *testing.T) {
	text := read(t, "../README.md")
	for _, reader := range []string{
		"were paged", "return boards", "bill teams", "plan capacity", "run Slurm or another scheduler", "have one workstation", "run the platform", "contribute",
	} {
		if n := strings.Count(text, "\n| "+reader+" | ["); n != 1 {
			t.Errorf("the README has %d rows for readers who %s, must have one", n, reader)
		}
	}
	names, err := filepath.Glob("*.md")
	check(t, err)
	for _, name := range names {
		if !strings.Contains(text, "](docs/"+name+")") {
			t.Errorf("the README does not link docs/%s", name)
		}
	}
}

// TestDecisions checks that the records of decisions are numbered, fit on one screen and have the same three sections,
// and that design.md links each record by its title.
func TestDecisions(t *testing.T) {
	names, err := filepath.Glob("decisions/*")
	check(t, err)
	if len(names) < 15 {
		t.Fatalf("only %d records", len(names))
	}
	design := read(t, "design.md")
	for i, name := range names {
		text := read(t, name)
		title, _, _ := strings.Cut(text, "\n")
		number := fmt.Sprint(i + 1)
		if !strings.HasPrefix(filepath.Base(name), fmt.Sprintf("%04d-", i+1)) || !strings.HasPrefix(title, "# "+number+". ") {
			t.Errorf("%s is record %s, with the title %q", name, number, title)
		}
		var sections []string
		for _, match := range heading.FindAllStringSubmatch(text, -1)[1:] {
			sections = append(sections, match[1])
		}
		if want := []string{"Context", "Decision", "Reconsider if"}; !slices.Equal(sections, want) {
			t.Errorf("%s has the sections %q, must have %q", name, sections, want)
		}
		if n := words(text); n > 180 {
			t.Errorf("%s has %d words, must have at most 180", name, n)
		}
		if row := "| [" + number + "](" + name + ") | " + strings.TrimPrefix(title, "# "+number+". ") + " |"; !strings.Contains(design, row) {
			t.Errorf("design.md has no row %s", row)
		}
	}
}

// fragments returns the targets of links within a page: the anchors that GitHub derives from its headings, and explicit
// anchors.
func fragments(text string) (names []string) {
	for _, match := range heading.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
		names = append(names, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-"))
	}
	for _, match := range anchor.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}

func TestNames(t *testing.T) {
	known := map[string]bool{"gpuledger_build_info": true, "gpuledger_reconciler_build_info": true, "gpuledger_archive_build_info": true}
	for _, m := range append(collector.Catalogue(), archive.Catalogue()...) {
		known[m.Name] = true
	}
	for _, part := range reconciler.Catalogue() {
		for _, m := range part.Metrics {
			known[m.Name] = true
		}
	}
	_, recorded, err := alerts.Read("../dashboards/rules")
	check(t, err)
	for _, name := range recorded {
		known[name] = true
	}
	for _, match := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(read(t, "../Makefile"), -1) {
		known["make "+match[1]] = true
	}
	named := regexp.MustCompile("gpuledger_[a-z][a-z0-9_]*|gpuledger:[a-z0-9_]+:[a-z0-9_]+|`make [a-z0-9-]+")
	for page, text := range pages(t) {
		for _, name := range named.FindAllString(text, -1) {
			// A name that ends in "_" is the prefix of several names.
			if !known[strings.TrimPrefix(name, "`")] && !strings.HasSuffix(name, "_") {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
	}
}

// TestTargets checks that `make help` lists at most 20 targets, and that CONTRIBUTING.md describes every target that
// has a comment in the Makefile.
func TestTargets(t *testing.T) {
	listed, contributing := 0, read(t, "../CONTRIBUTING.md")
	for _, match := range regexp.MustCompile(`(?m)^([a-z0-9-]+):[^=\n]* (##?) .`).FindAllStringSubmatch(read(t, "../Makefile"), -1) {
		if match[2] == "##" {
			listed++
		}
		if match[1] != "help" && !strings.Contains(contributing, "`make "+match[1]+"`") {
			t.Errorf("CONTRIBUTING.md does not describe make %s", match[1])
		}
	}
	if listed < 10 || listed > 20 {
		t.Errorf("make help lists %d targets, it must be 10 to 20", listed)
	}
}

// TestFlags checks that every flag in the pages exists. It ignores flags with a prefix that our programs do not use.
func TestFlags(t *testing.T) {
	known := make(map[string]bool)
	for _, match := range regexp.MustCompile("(?m)^\\| `(--[a-z.-]+)").FindAllStringSubmatch(read(t, "flags.md"), -1) {
		known[match[1]] = true
	}
	if len(known) < 50 {
		t.Fatalf("only %d flags", len(known))
	}
	ours := regexp.MustCompile(`--(?:collector|nvml|dcgm|kubelet|path|state|exporter|leader-election|label-(?:chassis|dmi|prefix|scheme|take|ttl)|pod|web|log|expected|snapshots|write-rate|max-)\b[a-z.-]*[a-z]`)
	for page, text := range pages(t) {
		for _, name := range ours.FindAllString(text, -1) {
			if !known[name] {
				t.Errorf("%s names the flag %s, which does not exist", page, name)
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	check(t, err)
	return string(text)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
