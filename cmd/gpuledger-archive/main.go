// Command gpuledger-archive stores the long-term record of GPU fleets in tables. For each hour, the tables contain the
// place of each GPU and the pods that used the energy of this GPU. The command reads a Prometheus-compatible store and
// does not access GPUs. It accesses the Kubernetes API only to publish checkpoints in a ConfigMap. Its subcommand
// doctor runs the user's kubectl.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/common/version"

	"github.com/gpuledger/gpuledger/internal/archive"
	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/cli"
	"github.com/gpuledger/gpuledger/internal/doctor"
	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

func main() {
	cli.LimitMemory()
	if strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl_complete-") {
		ask.Complete(os.Stdout, os.Args[1:])
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	switch {
	case len(os.Args) == 1 && strings.HasPrefix(name(), "kubectl "), len(os.Args) > 1 && os.Args[1] == "help":
		usage()
		return
	case len(os.Args) > 1 && os.Args[1] == "doctor":
		os.Exit(doctor.Run(ctx, os.Args[2:], doctor.Process{Out: os.Stdout, Err: os.Stderr, Program: name(), Kubectl: os.Getenv("KUBECTL")}))
	case len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") && ask.Answers(os.Args[1]):
		os.Exit(question(ctx, os.Args[1:]))
	}
	cfg, err := archive.Parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage()
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "gpuledger-archive:", labelvalue.Printable(strings.ReplaceAll(err.Error(), "\n", "; ")))
		os.Exit(2)
	case cfg.Version:
		fmt.Println(version.Print("gpuledger-archive"))
		return
	case cfg.Schema != "":
		err = archive.PrintSchema(os.Stdout, cfg, time.Now())
		if err != nil {
			fmt.Fprintln(os.Stderr, "gpuledger-archive:", labelvalue.Printable(err.Error()))
			os.Exit(1)
		}
		return
	}
	log := cli.NewLogger(cfg.Log)
	if line := cli.NewStatusLine(os.Stderr); line != nil {
		log = cli.NewLoggerTo(line, cfg.Log)
		cfg.Progress = line.Set
	}
	if err := run(ctx, cfg, log); err != nil {
		log.Error("stopped", "err", err)
		stop()
		os.Exit(1)
	}
}

// question answers a query on the command line, and returns the exit status.
func question(ctx context.Context, args []string) int {
	var progress func(string)
	if line := cli.NewStatusLine(os.Stderr); line != nil {
		progress = line.Set
	}
	return ask.Run(ctx, args, ask.Process(name(), cli.IsTerminal(os.Stdout), progress), time.Now())
}

// name returns the name by which the program was called, such as kubectl gpuledger for a kubectl plugin.
func name() string {
	return strings.Replace(filepath.Base(os.Args[0]), "kubectl-", "kubectl ", 1)
}

func run(ctx context.Context, cfg archive.Config, log *slog.Logger) error {
	switch {
	case cfg.Run:
		return archive.Run(ctx, cfg, log)
	case cfg.ServeOnly:
		return archive.Serve(ctx, cfg, log)
	case cfg.RenameFrom != "":
		return archive.Rename(ctx, cfg, os.Stdout, log)
	case cfg.Prune:
		return archive.Prune(ctx, cfg, os.Stdout, time.Now(), log)
	}
	return archive.Once(ctx, cfg, time.Now(), log)
}

func usage() {
	flags, _ := archive.Flags()
	flags.SetOutput(os.Stdout)
	fmt.Print(`gpuledger-archive keeps the long-term record of GPU fleets: hourly tables of GPUs and charges.

usage: gpuledger-archive run [flags]              file each hour after its end, until SIGTERM
       gpuledger-archive serve [flags]            serve the answers to questions as web pages, until SIGTERM; file nothing
       gpuledger-archive once [flags]             file the missing hours, then exit
       gpuledger-archive accept CLUSTER --from=HOUR --to=HOUR --reason=TEXT [flags]
                                                  file hours although samples are missing
       gpuledger-archive prune --before=DATE [flags]
                                                  delete old hours and events, but keep monthly sums
       gpuledger-archive rename-cluster OLD NEW [flags]
                                                  rename a cluster in all filed hours
       gpuledger-archive schema [postgres|mysql]  print the statements that create or update the tables
       kubectl gpuledger doctor [flags]           print how to install gpuledger on a cluster, and which Nodes have no exporter

`)
	ask.Usage(os.Stdout, name())
	flags.PrintDefaults()
}
