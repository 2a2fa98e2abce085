//go:build e2e

package deploy_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/test/markdown"
)

// documented returns the commands in a section of the installation pages. Local paths replace the addresses of the
// manifests. folder is the working directory of the commands.
func documented(t *testing.T, section, folder string) []string {
	t.Helper()
	var pages []byte
	for _, name := range []string{"install", "platforms", "images"} {
		page, err := os.ReadFile("../../../docs/" + name + ".md")
		check(t, err)
		pages = append(pages, page...)
	}
	text, err := markdown.Section(string(pages), section)
	check(t, err)
	tree, err := filepath.Abs(manifests)
	check(t, err)
	folder, err = filepath.Abs(folder)
	check(t, err)
	relative, err := filepath.Rel(folder, tree) // kustomize accepts only relative paths in a kustomization
	check(t, err)
	here := strings.NewReplacer("$M/", tree+"/", "?ref=$V", "", "${M:?}/", tree+"/", "?ref=${V:?}", "", "https://github.com/gpuledger/gpuledger//manifests", relative, "?ref=v0.1.0", "")

	return markdown.Commands(here.Replace(text))
}

func containing(t *testing.T, commands []string, text string) string {
	t.Helper()
	var found []string
	for _, command := range commands {
		if strings.Contains(command, text) {
			found = append(found, command)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d commands contain %q, want 1: %q", len(found), text, commands)
	}
	return found[0]
}

// tryShell can also be called in a cleanup function of the test.
func tryShell(t *testing.T, folder, command string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "bash", "-euo", "pipefail", "-c", command)
	cmd.Dir, cmd.Env = folder, environment()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// shell returns the output of the last command.
func shell(t *testing.T, folder string, commands ...string) string {
	t.Helper()
	var last string
	for _, command := range commands {
		out, err := tryShell(t, folder, command)
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		last = out
	}
	return last
}
