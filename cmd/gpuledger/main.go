// Command gpuledger is the node exporter. It reads the GPUs of a node, charges the energy of each GPU to the pods that
// use it, and serves the result to Prometheus. It needs no Kubernetes credentials.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
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
	cfg.Adapt(app.ThisMachine())
	log := cli.NewLogger(cfg.Log)
	if cfg.Command == "" && cfg.Sandbox {
		enterSandbox(&cfg, log)
	}
	cli.LimitMemory()
	cli.LimitFootprint(cli.ExporterGrowth)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if ask := question(cfg); ask != nil {
		if err := ask(ctx, os.Stdout); err != nil {
			fmt.Fprintf(os.Stderr, "gpuledger %s: %v\n", cfg.Command, err)
			os.Exit(1)
		}
		return
	}
	err = app.Run(ctx, cfg, log)
	if again, ok := errors.AsType[app.Restart](err); ok && ctx.Err() == nil {
		log.Warn("restarting", "err", err)
		err = errors.Join(err, sandbox.Restart(again.Environment...))
	}
	if err != nil {
		log.Error("stopped", "err", err)
		os.Exit(1)
	}
}

// question returns the function for a command that sends a request to the running exporter, or that reads the machine
// and exits. For other commands, it returns nil.
func question(cfg app.Config) func(context.Context, io.Writer) error {
	switch cfg.Command {
	case app.Status:
		return func(ctx context.Context, out io.Writer) error { return app.ShowStatus(ctx, cfg.Status, out) }
	case app.Explain:
		return func(ctx context.Context, out io.Writer) error { return app.ShowExplanation(ctx, cfg.Charge, out) }
	case app.ReleaseCommand:
		return func(ctx context.Context, out io.Writer) error { return app.ReleaseDriver(ctx, cfg, out) }
	case app.UnitsCommand:
		return func(ctx context.Context, out io.Writer) error { return app.ShowUnits(ctx, cfg.Inspect, out) }
	case app.DoctorCommand:
		return func(ctx context.Context, out io.Writer) error { return app.Doctor(ctx, cfg.Inspect, out) }
	}
	return nil
}

// enterSandbox executes the program again, so it must be called before the program catches signals.
func enterSandbox(cfg *app.Config, log *slog.Logger) {
	abi, err := sandbox.Enter(cfg.SandboxRules())
	if err != nil {
		log.Warn("running without Landlock (--sandbox=false disables this warning)", "err", err)
	}
	filtered := cfg.Seccomp && filter(cfg, abi > 0, log)
	if abi > 0 || filtered {
		log.Info("running in the sandbox", "landlock_abi", abi, "seccomp", filtered)
	}
}

// filter installs the first system call filter immediately, and the second filter when all addresses are served. If
// Landlock is active, the first filter allows execve, because Landlock restricts execution to this program.
func filter(cfg *app.Config, landlock bool, log *slog.Logger) bool {
	const without = "running without the system call filter (--sandbox.seccomp=false disables this warning)"
	rules := cfg.FilterRules()
	rules.Execute = landlock
	if err := sandbox.Filter(rules); err != nil {
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
	switch command {
	case app.Status:
		flags, _ := app.StatusFlags()
		commandUsage(flags, "gpuledger status prints the state of the node, as a running exporter reports it.")
		return
	case app.Explain:
		flags, _ := app.ExplainFlags()
		commandUsage(flags, "gpuledger explain prints why an owner was charged energy, as a running exporter reports it.\n"+
			"Example: gpuledger explain --gpu=0 --owner=team-a/train-0 --since=10m")
		return
	case app.ReleaseCommand:
		flags, _ := app.ReleaseFlags()
		commandUsage(flags, "gpuledger release makes the running exporter close NVIDIA's driver, so that the driver can be unloaded or a GPU can be reset.\n"+
			"Example: gpuledger release --gpu=1652923000017 --for=10m")
		return
	case app.UnitsCommand:
		flags, _ := app.UnitsFlags(command)
		commandUsage(flags, "gpuledger units lists the managers of units and the files that define them.\n"+
			"Example: gpuledger units --explain=4711")
		return
	case app.DoctorCommand:
		flags, _ := app.UnitsFlags(command)
		commandUsage(flags, "gpuledger doctor looks for a running unit of each manager. The command fails if it cannot read a source or cannot find the name of a unit. It needs no GPU.")
		return
	}
	flags, _ := app.Flags(os.Getenv)
	flags.SetOutput(os.Stdout)
	fmt.Print(`gpuledger exports which workload used which physical GPU, and the energy that the workload used.

usage: gpuledger [flags]
       gpuledger status [flags]    print the state of this node from the running exporter
       gpuledger explain [flags]   print the causes of a charge from the running exporter
       gpuledger units [flags]     list the managers of units, or explain the owner of a process (--explain=PID)
       gpuledger doctor [flags]    look for a unit of each manager on this machine
       gpuledger release [flags]   make the running exporter close the driver, or a GPU, for a while
       gpuledger cleanup [flags]   remove the files of the exporter from this node and exit
       gpuledger wait              do nothing until a signal ends the process
       gpuledger amd-files         write a tar archive of the driver's files about AMD GPUs to stdout, without serial numbers

`)
	flags.PrintDefaults()
}

func commandUsage(flags *flag.FlagSet, about string) {
	flags.SetOutput(os.Stdout)
	fmt.Printf("%s\n\n", about)
	flags.PrintDefaults()
}
