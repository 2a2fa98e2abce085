// Command gpuledger is the node exporter: it reads the GPUs of a node, finds the pods that use
// them, keeps their energy books and serves the result to Prometheus. It needs no Kubernetes
// credentials.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/prometheus/common/version"

	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/internal/cli"
	"github.com/gpuledger/gpuledger/internal/sandbox"
)

func main() {
	cfg, err := app.Parse(os.Args[1:], os.Getenv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(cfg.Command)
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "gpuledger:", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(2)
	case cfg.Version:
		fmt.Println(version.Print("gpuledger"))
		return
	}
	log := cli.NewLogger(cfg.Log)
	if cfg.Command == "" && cfg.Sandbox {
		enterSandbox(&cfg, log)
	}
	cli.LimitFootprint(cli.ExporterGrowth)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if cfg.Command == app.Status {
		if err := app.ShowStatus(ctx, cfg.Status, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "gpuledger status:", err)
			os.Exit(1)
		}
		return
	}
	if err := app.Run(ctx, cfg, log); err != nil {
		log.Error("stopped", "err", err)
		os.Exit(1)
	}
}

// enterSandbox executes the program again, so it comes before signals are caught.
func enterSandbox(cfg *app.Config, log *slog.Logger) {
	abi, err := sandbox.Enter(cfg.SandboxRules())
	if err != nil {
		log.Warn("running without Landlock (--sandbox=false disables this warning)", "err", err)
	}
	filtered := cfg.Seccomp && filter(cfg, log)
	if abi > 0 || filtered {
		log.Info("running in the sandbox", "landlock_abi", abi, "seccomp", filtered)
	}
}

// filter installs the system call filters, the second one when all addresses are served.
func filter(cfg *app.Config, log *slog.Logger) bool {
	const without = "running without the system call filter (--sandbox.seccomp=false disables this warning)"
	if err := sandbox.Filter(cfg.FilterRules()); err != nil {
		log.Warn(without, "err", err)
		return false
	}
	cfg.Serving = func() {
		if err := sandbox.FilterListening(); err != nil {
			log.Warn(without, "err", err)
		}
	}
	return true
}

func usage(command string) {
	if command == app.Status {
		flags, _ := app.StatusFlags()
		flags.SetOutput(os.Stdout)
		fmt.Print("gpuledger status prints the state of the node from a running exporter.\n\n")
		flags.PrintDefaults()
		return
	}
	flags, _ := app.Flags(os.Getenv)
	flags.SetOutput(os.Stdout)
	fmt.Print(`gpuledger serves which physical GPU served which pod, and for how many joules.

usage: gpuledger [flags]
       gpuledger status [flags]    print the state of this node from the running exporter
       gpuledger cleanup [flags]   remove the files of the exporter from this node and exit
       gpuledger wait              wait for a signal
       gpuledger amd-files         write the driver's files about AMD GPUs to stdout, as tar, without serial numbers

`)
	flags.PrintDefaults()
}
