package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// startExporter starts the exporter on a node. When the context ends it gets
// SIGTERM, and after five seconds SIGKILL; if simnode itself is killed, so is the
// exporter. It is in a process group of its own, so that Ctrl-C on the terminal
// reaches it through simnode only.
func startExporter(ctx context.Context, opts options, node *simnode.Node, out output) (*exec.Cmd, error) {
	args := append(node.Flags(), "--web.listen-address="+opts.listen)
	libraries := map[string]string{"nvml.library": opts.library}
	if opts.driver == "dcgm" {
		libraries["dcgm.library"] = opts.engine
		args = append(args, "--source=dcgm", "--dcgm.profiling", "--dcgm.address="+simnode.EngineAddress)
	}
	for flag, path := range libraries {
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("fake driver library: %w", err)
		}
		args = append(args, "--"+flag+"="+path)
	}
	cmd := exec.CommandContext(ctx, opts.exporter, append(args, opts.extra...)...)
	cmd.Env = append(os.Environ(), node.Env()...)
	cmd.Stdout, cmd.Stderr = out.stdout, out.stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd, cmd.Start()
}

// watch waits for the exporter's end, which is an error unless it was asked for.
func watch(ctx context.Context, child *exec.Cmd) error {
	err := child.Wait()
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("exporter ended by itself: %w", err)
	default:
		return fmt.Errorf("exporter ended by itself with status 0")
	}
}
