package doctor_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/doctor"
)

// kubectl writes a script that is run instead of kubectl. The script logs its arguments and responds like an API server
// without Nodes.
func kubectl(t *testing.T, script string) (path, log string) {
	t.Helper()
	dir := t.TempDir()
	path, log = filepath.Join(dir, "kubectl"), filepath.Join(dir, "log")
	check(t, os.WriteFile(path, []byte("#!/bin/sh\necho \"$*\" >> "+log+"\n"+script), 0o700))
	return path, log
}

const answers = `case "$*" in
*/version*) echo '{"gitVersion": "v1.36.2"}' ;;
*"/apis "* | */apis) echo '{"groups": [{"name": "apps", "versions": [{"version": "v1"}]}]}' ;;
*) echo '{"items": []}' ;;
esac
`

func run(t *testing.T, program string, args ...string) (status int, out, errors string) {
	t.Helper()
	var o, e bytes.Buffer
	status = doctor.Run(context.Background(), args, doctor.Process{Out: &o, Err: &e, Program: "kubectl gpuledger", Kubectl: program})
	return status, o.String(), e.String()
}

// TestFlags checks that the program passes flags on to kubectl, and that the flag --kubectl has precedence over
// $KUBECTL.
func TestFlags(t *testing.T) {
	program, log := kubectl(t, answers)
	status, out, errors := run(t, "/nonexistent", "--kubectl="+program+" first", "--context=lab", "--kubeconfig", "/tmp/a b", "--as=me", "-n", "books", "--request-timeout=5s")
	if status != 1 || errors != "" || !strings.Contains(out, "No Node has GPUs") {
		t.Errorf("status %d, errors %q:\n%s", status, errors, out)
	}
	lines := logged(t, log)
	const flags = " --context=lab --kubeconfig=/tmp/a b --as=me --request-timeout=5s"
	if lines[0] != "first get --raw /version"+flags {
		t.Errorf("kubectl %s", lines[0])
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "first get --raw /") || !strings.HasSuffix(line, flags) {
			t.Errorf("kubectl %s", line)
		}
	}
}

func logged(t *testing.T, log string) []string {
	t.Helper()
	text, err := os.ReadFile(log)
	check(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func TestErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		args   []string
		want   string
	}{
		"unknown flag":   {args: []string{"--contex=x"}, want: "flag provided but not defined: -contex"},
		"argument":       {args: []string{"gpu-1"}, want: `unexpected argument "gpu-1"`},
		"no such server": {script: "echo first >&2; printf 'no such host \\033[31m\\n' >&2; exit 1", want: `read the version: no such host \x1b[31m`},
		"silent":         {script: "exit 3", want: "read the version: kubectl: exit status 3"},
		"no document":    {script: "echo hello", want: "read the version: the response is not the expected document"},
		"endless":        {script: "yes x", want: "read the version: the document has more than 64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			program, _ := kubectl(t, tt.script)
			status, out, errors := run(t, program, tt.args...)
			if want := "kubectl gpuledger doctor: " + tt.want + "\n"; status != 2 || out != "" || errors != want {
				t.Errorf("status %d, output %q, errors %q, want 2 and %q", status, out, errors, want)
			}
		})
	}
	if status, _, errors := run(t, "/nonexistent/kubectl"); status != 2 || !strings.Contains(errors, "run /nonexistent/kubectl: ") {
		t.Errorf("status %d, errors %q for a missing kubectl", status, errors)
	}
}

func TestHelp(t *testing.T) {
	status, out, errors := run(t, "", "--help")
	if status != 0 || errors != "" || !strings.Contains(out, "Exit status: 0") || !strings.Contains(out, "-kubeconfig file") {
		t.Errorf("status %d, errors %q:\n%s", status, errors, out)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
