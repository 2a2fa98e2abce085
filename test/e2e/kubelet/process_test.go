//go:build e2e

package kubelet_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

type daemon struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{} // closed when the program has ended
}

// start runs a program until the test ends.
func start(t *testing.T, dir, name string, args ...string) *daemon {
	t.Helper()
	d := &daemon{cmd: exec.Command(name, args...), exited: make(chan struct{})}
	d.log = filepath.Join(dir, filepath.Base(name)+".log")
	file, err := os.OpenFile(d.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	check(t, err)
	defer file.Close()
	d.cmd.Stdout, d.cmd.Stderr = file, file
	check(t, d.cmd.Start())
	go func() {
		_ = d.cmd.Wait() // the log contains the reason
		close(d.exited)
	}()
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		<-d.exited
	})
	return d
}

func showLogs(t *testing.T, dir string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log")) // the pattern is valid, so there is no error
	for _, log := range logs {
		t.Logf("end of %s:\n%s", filepath.Base(log), tail(log))
	}
}

func (d *daemon) stop(t *testing.T) {
	t.Helper()
	check(t, d.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-d.exited:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s did not end within 20 s after SIGTERM", d.cmd.Path)
	}
}

func tail(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(data), "\n")
	return strings.Join(lines[max(0, len(lines)-25):], "\n")
}

func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, exit.Stderr)
	}
	return string(out), err
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
