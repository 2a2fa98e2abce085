package markdown_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/markdown"
)

func TestTable(t *testing.T) {
	table := markdown.NewTable("node", "× plain")
	table.Add("8 GPUs", "0.5", "left out")
	table.Add("µ")
	want := `| node   | × plain |
|--------|--------:|
| 8 GPUs |     0.5 |
| µ      |         |
`
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// TestPut checks that Put does not change the text around the markers, and does not write a file without markers.
func TestPut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "doc.md")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(want string) {
		t.Helper()
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("file (-want +got):\n%s", diff)
		}
	}
	write("before\n<!-- make x: begin -->\nold\n<!-- make x: end -->\nafter\n")
	if err := markdown.Put(file, "make x", "new\n"); err != nil {
		t.Fatal(err)
	}
	holds("before\n<!-- make x: begin -->\nnew\n<!-- make x: end -->\nafter\n")
	if err := markdown.Put(file, "make y", "new\n"); err == nil || !strings.Contains(err.Error(), "<!-- make y: begin -->") {
		t.Errorf("without markers: %v", err)
	}
	holds("before\n<!-- make x: begin -->\nnew\n<!-- make x: end -->\nafter\n")
}

// TestCommands checks that Commands omits output and text outside console blocks, and includes whole here-documents.
func TestCommands(t *testing.T) {
	text := "```console\n$ first --flag\nits output\n$ cat > file <<EOF\na: line\n\nlast\nEOF\n$ third\n```\n\n```sh\n$ other\n```\n"
	want := []string{"first --flag", "cat > file <<EOF\na: line\n\nlast\nEOF\n", "third"}
	if diff := cmp.Diff(want, markdown.Commands(text)); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

// TestSection checks that a section ends at a heading of any level, and that a missing section is an error.
func TestSection(t *testing.T) {
	const text = "# Page\n\n## One\n\nfirst\n\n### Part\n\npart\n\n## Two\n\nsecond\n"
	for heading, want := range map[string]string{"## One": "\nfirst\n", "### Part": "\npart\n", "## Two": "\nsecond\n"} {
		if got, err := markdown.Section(text, heading); err != nil || got != want {
			t.Errorf("Section(%q) = %q, %v; want %q", heading, got, err, want)
		}
	}
	if got, err := markdown.Section(text, "## Three"); err == nil {
		t.Errorf("a missing section is %q, want an error", got)
	}
}
