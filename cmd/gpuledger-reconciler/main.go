// Command gpuledger-reconciler labels Nodes with the identity of their GPUs, and exports the workload of each GPU pod.
// It needs Kubernetes credentials, and has no access to GPUs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/prometheus/common/version"

	"github.com/gpuledger/gpuledger/internal/cli"
	"github.com/gpuledger/gpuledger/internal/reconciler"
)

func main() {
	cfg, err := reconciler.Parse(os.Args[1:], os.Getenv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage()
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "gpuledger-reconciler:", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(2)
	case cfg.Version:
		fmt.Println(version.Print("gpuledger-reconciler"))
		return
	}
	cli.LimitMemory()
	cli.LimitFootprint(cli.ReconcilerGrowth)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log := cli.NewLogger(cfg.Log)
	if err := reconciler.Run(ctx, cfg, log); err != nil {
		log.Error("stopped", "err", err)
		os.Exit(1)
	}
}

func usage() {
	flags, _ := reconciler.Flags(os.Getenv)
	flags.SetOutput(os.Stdout)
	fmt.Print(`gpuledger-reconciler labels Nodes with the identity of their GPUs and exports the workload of each GPU pod.

usage: gpuledger-reconciler [flags]
       gpuledger-reconciler cleanup [flags]   remove everything that the reconciler wrote, and exit

`)
	flags.PrintDefaults()
}
