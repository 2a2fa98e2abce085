package upgrade

import (
	"regexp"
	"strings"
	"testing"

	_ "embed"

	"github.com/google/go-cmp/cmp"
)

//go:embed previous
var previous string

// TestFiles checks that the file "previous" contains a tag or a full commit hash. The file "expected" must be valid and
// contain each difference only once.
func TestFiles(t *testing.T) {
	if !regexp.MustCompile(`^(v\d+\.\d+\.\d+|[0-9a-f]{40})\n$`).MatchString(previous) {
		t.Errorf("previous: %q", previous)
	}
	all, err := parse(expected)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, d := range all {
		if seen[d.kind+d.item] {
			t.Errorf("%s | %s is listed twice", d.kind, d.item)
		}
		seen[d.kind+d.item] = true
	}
}

// TestUnexpected checks that Compare reports a difference without a line in the file, and a line without a difference.
func TestUnexpected(t *testing.T) {
	all, err := parse("# comment\n\nflag | gpuledger --old | renamed\nflag | gpuledger --gone | removed\nmetric | m | removed\n")
	if err != nil {
		t.Fatal(err)
	}
	problems := unexpected(all, "flag", []string{"gpuledger --new", "gpuledger --old", "gpuledger --new"})
	want := []string{
		`flag: "gpuledger --gone" was not found: remove the line from test/upgrade/expected`,
		"flag: gpuledger --new: undo the difference, or announce it and add it to test/upgrade/expected",
	}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	for _, line := range []string{"flag | gpuledger --old", "other | a | b", "flag |  | b"} {
		if _, err := parse(line); err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%q: %v", line, err)
		}
	}
}
