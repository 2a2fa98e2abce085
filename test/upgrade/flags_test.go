//go:build e2e

package upgrade

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A program and some of its commands have separate flags.
var commands = [][]string{
	{"gpuledger"},
	{"gpuledger", "status"},
	{"gpuledger", "explain"},
	{"gpuledger-reconciler"},
	{"gpuledger-archive"},
	{"gpuledger-archive", "where"},
	{"gpuledger-archive", "history"},
	{"gpuledger-archive", "ran"},
	{"gpuledger-archive", "statement"},
	{"gpuledger-archive", "idle"},
	{"gpuledger-archive", "capacity"},
	{"gpuledger-archive", "moves"},
	{"gpuledger-archive", "missing"},
	{"gpuledger-archive", "verify"},
	{"gpuledger-archive", "report"},
}

var usage = regexp.MustCompile(`(?m)^(?:usage:)? +(gpuledger[a-z-]*) ([a-z-]+)\b`)

var (
	aFlag     = regexp.MustCompile(`(?m)^  -([a-z0-9.-]+)(?: .*)?\n(.*)$`)
	defaultOf = regexp.MustCompile(`\(default "?(.*?)"?\)$`)
)

func help(t *testing.T, v Version, command []string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), v.Program(command[0]), append(slices.Clone(command[1:]), "--help")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v --help: %v\n%s", command, err, out)
	}
	return string(out)
}

func flagsOf(help string) map[string]string {
	flags := make(map[string]string)
	for _, match := range aFlag.FindAllStringSubmatch(help, -1) {
		flags[match[1]] = ""
		if of := defaultOf.FindStringSubmatch(match[2]); of != nil {
			flags[match[1]] = of[1]
		}
	}
	return flags
}

// accepts reports whether a flag is defined. If it is, the command prints its help or rejects the flag's value.
func accepts(t *testing.T, v Version, command []string, flag string) bool {
	t.Helper()
	out, _ := exec.CommandContext(t.Context(), v.Program(command[0]), slices.Concat(command[1:], []string{"--" + flag, "--help"})...).CombinedOutput()
	return !strings.Contains(string(out), "not defined: -"+flag)
}

// TestUpgradeFlags checks that each command of the earlier version still exists and accepts its flags with the same
// defaults. It tries each flag separately, because an alias is not in the help.
func TestUpgradeFlags(t *testing.T) {
	previous, current := Previous(t), Current(t)
	if accepts(t, current, []string{"gpuledger"}, "no-such-flag") {
		t.Fatal("an unknown flag is accepted")
	}
	var found []string
	for _, command := range commands {
		name := strings.Join(command, " ")
		earlier, now := flagsOf(help(t, previous, command)), flagsOf(help(t, current, command))
		if len(earlier) == 0 {
			t.Fatalf("%s has no flags", name)
		}
		for flag, was := range earlier {
			is, listed := now[flag]
			switch {
			case !listed && !accepts(t, current, command, flag):
				found = append(found, name+" --"+flag+" is unknown")
			case listed && is != was:
				found = append(found, name+" --"+flag+" has another default: "+is)
			}
		}
		if len(command) > 1 {
			continue
		}
		for _, match := range usage.FindAllStringSubmatch(help(t, previous, command), -1) {
			if !strings.Contains(help(t, current, command), match[1]+" "+match[2]) {
				found = append(found, match[1]+" "+match[2]+" is unknown")
			}
		}
	}
	Compare(t, "flag", found)
}
