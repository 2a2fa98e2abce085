package main

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	args := append(node.Flags(), "--nvml.library="+library, "--sandbox") // as it is shipped
	if opts.dcgm {
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

// free says if somebody else has the exporter's address. The exporter itself would wait
// for it, and whoever looks there would meanwhile see the page of another program.
func free(address string) error {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w by another program; take another address: make run ADDRESS=127.0.0.1:9841, or --web.listen-address", err)
	}
	if err != nil {
		return fmt.Errorf("--web.listen-address: %w", err)
	}
	return l.Close()
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
