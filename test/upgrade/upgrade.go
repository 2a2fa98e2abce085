// Package upgrade compares the programs, metrics, rules, flags and files of an earlier version with this version. The
// file "previous" names the earlier version. The file "expected" lists each difference that affects users, with the
// reason.
package upgrade

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/test/program"
)

// Env is the environment variable with the output folder of tools/previous.
const Env = "GPULEDGER_E2E_PREVIOUS"

// A Version contains the programs of a version.
type Version struct {
	Programs string // folder of the programs
}

// Program returns the path of a program.
func (v Version) Program(name string) string { return filepath.Join(v.Programs, name) }

// Source returns the path of a file in the source of an earlier version.
func (v Version) Source(name ...string) string {
	return filepath.Join(append([]string{v.Programs, "source"}, name...)...)
}

// Previous returns the earlier version. If its commit cannot be fetched, Previous skips the test.
func Previous(t testing.TB) Version {
	t.Helper()
	folder := os.Getenv(Env)
	switch {
	case folder == "":
		t.Fatalf("%s is not set: run the tests with make test-upgrade", Env)
	case strings.HasPrefix(folder, "absent:"):
		t.Skip(folder)
	}
	return Version{folder}
}

// Current returns this version.
func Current(t testing.TB) Version {
	t.Helper()
	var path string
	for _, name := range []string{"gpuledger", "gpuledger-reconciler", "gpuledger-archive"} {
		path = program.BuiltFor(t, name)
	}
	return Version{filepath.Dir(path)}
}

// One test compares all differences of a kind.
var kinds = []string{"metric", "rule", "alert", "series", "forgotten", "json", "flag", "values", "objects"}

//go:embed expected
var expected string

type difference struct{ kind, item, reason string }

// The file "expected" may contain empty lines and lines that begin with #.
func parse(text string) (all []difference, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, " | ")
		if len(fields) != 3 || !slices.Contains(kinds, fields[0]) || fields[1] == "" || fields[2] == "" {
			return nil, fmt.Errorf("%q is not a kind (%s), a difference and its reason, separated by \" | \"", line, strings.Join(kinds, ", "))
		}
		all = append(all, difference{fields[0], fields[1], fields[2]})
	}
	return all, nil
}

// Compare fails the test if a difference is not in the file "expected", or if the file contains a difference that was
// not found.
func Compare(t testing.TB, kind string, found []string) {
	t.Helper()
	all, err := parse(expected)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range unexpected(all, kind, found) {
		t.Error(problem)
	}
}

func unexpected(all []difference, kind string, found []string) (problems []string) {
	known := make(map[string]bool)
	for _, d := range all {
		if d.kind != kind {
			continue
		}
		known[d.item] = true
		if !slices.Contains(found, d.item) {
			problems = append(problems, fmt.Sprintf("%s: %q was not found: remove the line from test/upgrade/expected", kind, d.item))
		}
	}
	for _, item := range slices.Compact(slices.Sorted(slices.Values(found))) {
		if !known[item] {
			problems = append(problems, fmt.Sprintf("%s: %s: undo the difference, or announce it and add it to test/upgrade/expected", kind, item))
		}
	}
	return problems
}
