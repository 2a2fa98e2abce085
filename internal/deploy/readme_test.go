package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOverlaysNamed checks that the table of docs/install.md names every overlay, and the ways of
// sharing a GPU with which the policy ignores the device plugin.
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

// TestReadme checks that docs/install.md contains the README's commands for a cluster, except
// commands with an overlay or a pod name to fill in. The tests of test/e2e/deploy run the commands
// of docs/install.md.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	check(t, err)
	guide, err := os.ReadFile("../../docs/install.md")
	check(t, err)
	_, section, ok := strings.Cut(string(readme), "\n## Install on Kubernetes\n")
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
	if commands < 3 {
		t.Errorf("%d commands found, want at least 3", commands)
	}
}
