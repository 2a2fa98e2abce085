package promdoc_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/promdoc"
)

const document = "# Boards\n\n### Where\n\n```promql\nup{serial=\"$serial\"}\n* $n\n```\n\n" +
	"```sh\nls\n```\n\n# Pods\n\n## Life\n\n### Who\n\n```promql\nlabel_replace(up, \"a\", \"$1\", \"b\", \"(.+)\")\n```\n"

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "doc.md")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRead(t *testing.T) {
	doc, err := promdoc.Read(write(t, document))
	if err != nil {
		t.Fatal(err)
	}
	want := promdoc.Doc{
		{Part: "Boards", Title: "Where", Text: "up{serial=\"$serial\"}\n* $n\n"},
		{Part: "Pods", Title: "Who", Text: "label_replace(up, \"a\", \"$1\", \"b\", \"(.+)\")\n"},
	}
	if diff := cmp.Diff(want, doc); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(want[1:], doc.Part("Pods")); diff != "" {
		t.Errorf("part: (-want +got)\n%s", diff)
	}
}

func TestQuery(t *testing.T) {
	doc, err := promdoc.Read(write(t, document))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		title     string
		variables map[string]string
		want, err string
	}{
		{title: "Where", variables: map[string]string{"serial": "1", "n": "2", "more": "3"}, want: "up{serial=\"1\"}\n* 2\n"},
		{title: "Where", variables: map[string]string{"serial": "1"}, err: `fill "Where": no value for $n`},
		{title: "Who", want: doc[1].Text},
		{title: "When", err: `lacks the question "When"`},
	}
	for _, tt := range tests {
		got, err := doc.Query(tt.title, tt.variables)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: error %v, want %s", tt.title, err, tt.err)
			}
			continue
		}
		if err != nil || got != tt.want {
			t.Errorf("%s: %q, %v", tt.title, got, err)
		}
	}
}

func TestReadRefusesTwoAnswers(t *testing.T) {
	_, err := promdoc.Read(write(t, document+"### Who\n\n```promql\nup\n```\n"))
	if err == nil || !strings.Contains(err.Error(), `"Who" has two queries`) {
		t.Errorf("error %v", err)
	}
}

func TestBlocks(t *testing.T) {
	runbook := "1. Ask:\n\n   ```promql\n   up == 0\n   ```\n\n   ```sh\n   ls\n   ```\n\n```promql\nsum(up)\n```\n"
	if diff := cmp.Diff([]string{"   up == 0\n", "sum(up)\n"}, promdoc.Blocks(runbook)); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
}
