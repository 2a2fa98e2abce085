//go:build e2e

package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The error of try contains standard output and standard error.
func try(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), world.kubectl, args...)
	cmd.Env = environment()
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out), nil
}

// environment adds kubectl and helm from tools/servers to PATH. Both use the cluster of the tests.
func environment() []string {
	return append(os.Environ(), "KUBECONFIG="+world.kubeconfig, "HOME="+world.home,
		"PATH="+os.Getenv(kubectlEnv)+":"+os.Getenv(helmEnv)+":"+os.Getenv("PATH"))
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := try(t, "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apply deletes the objects after the test.
func apply(t *testing.T, args ...string) {
	t.Helper()
	kubectl(t, append([]string{"apply", "--server-side", "--validate=strict"}, args...)...)
	t.Cleanup(func() { remove(t, args...) })
}

func remove(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(world.kubectl, append([]string{"delete", "--ignore-not-found", "--wait", "--timeout=60s"}, args...)...)
	cmd.Env = environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// hangTimeout is long enough for a busy machine.
const hangTimeout = 3 * time.Minute

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); {
		if time.Since(begun) > hangTimeout {
			t.Fatalf("timeout while waiting until %s", what)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func quote(t *testing.T, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	check(t, err)
	return string(quoted)
}
