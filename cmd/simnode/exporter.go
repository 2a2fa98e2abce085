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
	library, err := found(opts.library)
	if err != nil {
		return nil, err
	}
	args := append(node.Flags(), "--nvml.library="+library)
	if opts.driver == "dcgm" {
		if library, err = found(opts.engine); err != nil {
			return nil, err
		}
		args = append(args, node.EngineFlags(library)...)
	}
	args = append(args, "--web.listen-address="+opts.listen)
	cmd := exec.CommandContext(ctx, opts.exporter, append(args, opts.extra...)...)
	cmd.Env = append(os.Environ(), node.Env()...)
	cmd.Stdout, cmd.Stderr = out.stdout, out.stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd, cmd.Start()
}

// found returns the absolute path of a fake library.
func found(path string) (string, error) {
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("fake driver library: %w", err)
	}
	return filepath.Abs(path)
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
