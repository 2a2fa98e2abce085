//go:build realtime

package main_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The command cleanup must fail with the reason while an exporter runs. When the exporter has ended, it must remove
// everything except a directory that another program uses.
func TestCleanup(t *testing.T) {
	n := newNode(t, "dgx-h100")
	host := t.TempDir()
	books, unused, used := filepath.Join(host, "gpuledger"), filepath.Join(host, "unused"), filepath.Join(host, "used")
	for _, folder := range []string{unused, filepath.Join(used, "pods-api.sock")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cleanup := func(podsAPI string) (string, error) {
		cmd := exec.Command(binary, "cleanup", "--state.path="+books, "--kubelet.pods-api-socket="+filepath.Join(podsAPI, "pods-api.sock"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}

	e := start(t, n, "--state.path="+books)
	if out, err := cleanup(unused); err == nil || !strings.Contains(out, "locked by another gpuledger") {
		t.Errorf("cleanup while an exporter runs: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(books, "ledger.json")); err != nil {
		t.Errorf("the state file of the running exporter is gone: %v", err)
	}
	if err := e.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-e.exited

	// The second call finds no state directory.
	for _, podsAPI := range []string{unused, used} {
		if out, err := cleanup(podsAPI); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	for _, folder := range []string{books, unused} {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", folder, err)
		}
	}
	if _, err := os.Stat(used); err != nil {
		t.Errorf("a folder that another program uses was removed: %v", err)
	}
}

func TestWait(t *testing.T) {
	cmd := exec.Command(binary, "wait")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("the command ended without a signal: %v", err)
	case <-time.After(time.Second):
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
