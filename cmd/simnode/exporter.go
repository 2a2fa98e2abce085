package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// When the context ends, the exporter receives SIGTERM and, five seconds later, SIGKILL. If simnode is killed, the
// kernel also kills the exporter. The exporter has its own process group, so Ctrl-C on the terminal stops only simnode.
// Simnode then stops the exporter.
func startExporter(ctx context.Context, opts options, node *simnode.Node, out output) (*exec.Cmd, error) {
	library, err := libraryPath(opts.library)
	if err != nil {
		return nil, err
	}
	args := append(node.Flags(), "--nvml.library="+library)
	if !slices.Contains(args, "--amd.fdinfo") { // the sandbox denies reading fdinfo
		args = append(args, "--sandbox") // enabled as in a release
	}
	if opts.dcgm {
		if library, err = libraryPath(opts.engine); err != nil {
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

// If another program used the address, the exporter would wait, and users would see the pages of this program.
func checkAddress(address string) error {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w by another program; use another address: make run ADDRESS=127.0.0.1:9841, or --web.listen-address", err)
	}
	if err != nil {
		return fmt.Errorf("--web.listen-address: %w", err)
	}
	return l.Close()
}

func libraryPath(path string) (string, error) {
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("fake driver library: %w", err)
	}
	return filepath.Abs(path)
}

// waitForExporter returns an error if the exporter ends before ctx is cancelled.
func waitForExporter(ctx context.Context, child *exec.Cmd) error {
	err := child.Wait()
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("exporter ended unexpectedly: %w", err)
	default:
		return errors.New("exporter ended unexpectedly with status 0")
	}
}
