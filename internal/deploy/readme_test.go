package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOverlaysNamed checks the table in docs/install.md. The table must contain every overlay and a few special cases.
func TestOverlaysNamed(t *testing.T) {
	overlays, err := filepath.Glob(manifests + "overlays/*")
	check(t, err)
	words := []string{"time-slicing", "MPS", "HAMi", "Talos", "k0s"}
	for _, folder := range overlays {
		if name := filepath.Base(folder); name != "example" {
			words = append(words, "`"+name+"`")
		}
	}
	text, err := os.ReadFile("../../docs/install.md")
	check(t, err)
	_, table, _ := strings.Cut(string(text), "| your cluster | overlay |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, word := range words {
		if !strings.Contains(table, word) {
			t.Errorf("the table does not name %s", word)
		}
	}
}

// TestReadme checks the commands in the README's table. A command for a release must also be on a page about the
// installation, because tests run the commands on those pages. Such a command must not need a clone of the
// repository. A command in the column "today" must build the programs first.
func TestReadme(t *testing.T) {
	var pages strings.Builder
	for _, name := range []string{"README.md", "charts/gpuledger/README.md", "docs/packages.md"} {
		text, err := os.ReadFile("../../" + name)
		check(t, err)
		pages.Write(text)
	}
	_, table, ok := strings.Cut(pages.String(), "\n| cluster or machine | today | with a release |\n")
	if !ok {
		t.Fatal("the README has no table of commands")
	}
	table, guides, _ := strings.Cut(table, "\n\n")
	built, commands := 0, 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) == 3 && strings.HasPrefix(cells[1], "`make ") {
			built++
		}
		for _, match := range regexp.MustCompile("`((?:helm|kubectl|sudo|tar) [^`]+)`").FindAllStringSubmatch(cells[len(cells)-1], -1) {
			commands++
			if strings.Contains(match[1], " -k ") || strings.Contains(match[1], "make ") {
				t.Errorf("needs git or a clone: %s", match[1])
			}
			if !strings.HasPrefix(match[1], "kubectl") && !strings.Contains(guides, "$ "+match[1]+"\n") {
				t.Errorf("no guide has this command: %s", match[1])
			}
		}
	}
	if commands != 5 || built != 4 {
		t.Errorf("%d commands for a release and %d that build, want 5 and 4", commands, built)
	}
	for _, match := range regexp.MustCompile("releases/download/v[0-9.]+/([a-z-]+)[.]yaml").FindAllStringSubmatch(table, -1) {
		if _, err := os.Stat(manifests + "overlays/" + match[1]); err != nil {
			t.Error(err)
		}
	}
}
