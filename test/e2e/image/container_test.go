//go:build e2e

package image_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

type mount struct {
	source, target string
	writable       bool
}

type container struct {
	image  image
	args   []string
	env    []string
	mounts []mount
}

// The container has the restrictions of the manifests: the image's user, no capabilities, no new privileges and a
// read-only root file system. It shares the machine's PID and network namespaces.
func (c container) command(t *testing.T) *exec.Cmd {
	t.Helper()
	bundle := t.TempDir()
	data, err := json.Marshal(c.spec(t))
	check(t, err)
	check(t, os.WriteFile(filepath.Join(bundle, "config.json"), data, 0o644))
	id := "gpuledger-image-" + strconv.Itoa(os.Getpid()) + "-" + filepath.Base(filepath.Dir(bundle))
	cmd := exec.Command("runc", "--root", t.TempDir(), "run", "--bundle", bundle, id)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return cmd
}

func (c container) spec(t *testing.T) map[string]any {
	t.Helper()
	uid, gid, _ := strings.Cut(c.image.Config.User, ":")
	return map[string]any{
		"ociVersion": "1.0.2",
		"root":       map[string]any{"path": c.image.root, "readonly": true},
		"process": map[string]any{
			"args": append(c.image.Config.Entrypoint, c.args...), "env": append(c.image.Config.Env, c.env...), "cwd": "/",
			"user":            map[string]any{"uid": number(t, uid), "gid": number(t, gid)},
			"capabilities":    map[string]any{},
			"noNewPrivileges": true,
		},
		"mounts": c.specMounts(),
		"linux": map[string]any{
			"namespaces":  []any{map[string]string{"type": "mount"}, map[string]string{"type": "ipc"}},
			"cgroupsPath": "/gpuledger-image-test",
		},
	}
}

func (c container) specMounts() []any {
	mounts := []any{map[string]any{"destination": "/proc", "type": "proc", "source": "proc"}}
	for _, m := range c.mounts {
		options := []string{"rbind", "ro"}
		if m.writable {
			options = []string{"rbind", "rw"}
		}
		mounts = append(mounts, map[string]any{"destination": m.target, "type": "bind", "source": m.source, "options": options})
	}
	return mounts
}

func (c container) output(t *testing.T) string {
	t.Helper()
	out, err := c.command(t).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", c.image.Config.Entrypoint, err, out)
	}
	return string(out)
}

func (c container) start(t *testing.T) {
	t.Helper()
	cmd := c.command(t)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	check(t, cmd.Start())
	t.Cleanup(func() {
		check(t, cmd.Process.Signal(syscall.SIGTERM)) // runc forwards the signal
		if err := cmd.Wait(); err != nil {
			t.Errorf("the exporter ended with %v, want no error", err)
		}
		if t.Failed() {
			t.Logf("log of the exporter:\n%s", &log)
		}
	})
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	check(t, err)
	return n
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
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
