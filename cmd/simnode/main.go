// Simnode runs the real exporter on a simulated GPU node. It creates a node in a directory, and starts gpuledger on
// this node as a child process. It updates the node in real time until it is interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/gpuledger/gpuledger/internal/host"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

func main() {
	// If the thread that started the child ends, the kernel kills the child (PR_SET_PDEATHSIG). Therefore this thread
	// must run as long as the program.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(status(run(ctx, os.Args[1:], output{os.Stdout, os.Stderr})))
}

// errUsage means that the flags are invalid and that the error was already printed.
var errUsage = errors.New("invalid flags")

func status(err error) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	default:
		return 1
	}
}

type output struct{ stdout, stderr io.Writer }

// run prints errors on stderr. It does not call os.Exit.
func run(ctx context.Context, args []string, out output) error {
	opts, err := parse(args, out)
	if err != nil {
		return err
	}
	if opts.list {
		for _, sc := range simnode.Scenarios() {
			fmt.Fprintf(out.stdout, "%-14s %s\n", sc.Name, sc.Description)
		}
		return nil
	}
	if err := simulate(ctx, opts, out); err != nil {
		fmt.Fprintln(out.stderr, "simnode:", err)
		return err
	}
	return nil
}

func simulate(ctx context.Context, opts options, out output) (err error) {
	if err := checkAddress(opts.listen); err != nil {
		return err
	}
	dir := opts.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "simnode"); err != nil {
			return fmt.Errorf("create a directory for the node: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	node, err := simnode.Open(dir, opts.scenario, host.Now())
	if err != nil {
		return fmt.Errorf("open node: %w", err)
	}
	defer func() { err = errors.Join(err, node.Close()) }()

	greet(out.stdout, opts, node.Dir())
	group, groupCtx := errgroup.WithContext(ctx)
	child, err := startExporter(groupCtx, opts, node, out)
	if err != nil {
		return fmt.Errorf("start exporter: %w", err)
	}
	group.Go(func() error { return waitForExporter(groupCtx, child) })
	group.Go(func() error { return node.RunLive(groupCtx, host.Now) })
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}
