// Simnode runs the real exporter on a simulated GPU node: it lays out a node in a
// directory, starts gpuledger on it as a child process, and keeps the node moving
// in real time until it is interrupted.
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
	// The child is killed when the thread that started it ends (PR_SET_PDEATHSIG),
	// so that must be a thread that lives as long as the program.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(status(run(ctx, os.Args[1:], output{os.Stdout, os.Stderr})))
}

// errUsage is an error in the flags that was already shown.
var errUsage = errors.New("bad flags")

// status is the exit status for the end of the program.
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

// output is where the program and the exporter write.
type output struct{ stdout, stderr io.Writer }

// run does everything but exit. It says what went wrong on stderr.
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

// simulate runs the node and the exporter until the context ends.
func simulate(ctx context.Context, opts options, out output) (err error) {
	if err := free(opts.listen); err != nil {
		return err
	}
	dir := opts.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "simnode"); err != nil {
			return fmt.Errorf("make a directory for the node: %w", err)
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
	group.Go(func() error { return watch(groupCtx, child) })
	group.Go(func() error { return node.Live(groupCtx, host.Now) })
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}
