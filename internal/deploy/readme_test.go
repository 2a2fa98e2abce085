package deploy_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReadme: what the README says to type in a cluster stands in docs/install.md, too,
// whose commands are run by the tests of test/e2e/deploy. Not there are those that hold a
// choice of the reader's: the overlay, or the name of a pod.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	check(t, err)
	guide, err := os.ReadFile("../../docs/install.md")
	check(t, err)
	_, section, ok := strings.Cut(string(readme), "\n## Install it on Kubernetes\n")
	if !ok {
		t.Fatal("the README has no section about Kubernetes")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	known := regexp.MustCompile(`\$\{(\w+):\?\}`).ReplaceAllString(string(guide), "$$$1")
	commands := 0
	for _, command := range regexp.MustCompile(`(?m)^\$ .*`).FindAllString(section, -1) {
		if strings.Contains(command, "$O") || strings.Contains(command, "POD") && strings.Contains(command, "--raw") {
			continue
		}
		commands++
		if !strings.Contains(known, command+"\n") {
			t.Errorf("docs/install.md has no such command: %s", command)
		}
	}
	if commands < 8 {
		t.Errorf("only %d commands: this test does not see them", commands)
	}
}
