//go:build realtime

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An interrupt must make simnode end the exporter with SIGTERM and remove the node.
func TestInterrupt(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "ready")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	args := stub(t, `trap 'echo terminated; exit 0' TERM
echo "$GPULEDGER_FAKE_NVML_STATE $*" > `+fifo+`
while :; do sleep 0.05; done
`)
	ctx, interrupt := context.WithCancel(t.Context())
	var out bytes.Buffer
	ended := make(chan error)
	go func() { ended <- run(ctx, append(args, "--", "--log.level=debug"), output{&out, &out}) }()
	ready, err := os.ReadFile(fifo) // blocks until the exporter has written to the file
	if err != nil {
		t.Fatal(err)
	}
	interrupt()
	if got := status(<-ended); got != 0 {
		t.Errorf("status %d, want 0:\n%s", got, &out)
	}
	if !strings.HasSuffix(out.String(), "terminated\n") || !strings.Contains(out.String(), "http://127.0.0.1:0/metrics") {
		t.Errorf("output is:\n%s", &out)
	}
	state, flags, _ := strings.Cut(string(ready), " ")
	if !strings.HasSuffix(flags, "--web.listen-address=127.0.0.1:0 --log.level=debug\n") {
		t.Errorf("flags are %s", flags)
	}
	if _, err := os.Stat(filepath.Dir(filepath.Dir(state))); !os.IsNotExist(err) {
		t.Errorf("the temporary directory is still there: %v", err)
	}
}
