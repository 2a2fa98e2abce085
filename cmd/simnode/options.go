package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

type options struct {
	scenario simnode.Scenario
	list     bool
	listen   string
	dir      string // directory of the node; empty for a temporary directory
	exporter string
	library  string
	dcgm     bool     // simulate a host engine
	engine   string   // path of the fake libdcgm
	extra    []string // additional flags for the exporter
}

// parse prints an error as one line on stderr.
func parse(args []string, out output) (options, error) {
	opts, err := parseFlags(args, out.stdout)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return opts, err
	}
	fmt.Fprintln(out.stderr, "simnode:", err)
	return opts, errUsage
}

func parseFlags(args []string, stdout io.Writer) (options, error) {
	var opts options
	here := executableDir()
	fs := flag.NewFlagSet("simnode", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	scenario := fs.String("scenario", "dgx-h100", "`name` of the scenario; --list prints all names")
	var machine simnode.Machine
	fs.IntVar(&machine.Number, "number", 0, "`number` of the machine, to run several machines of a scenario")
	fs.IntVar(&machine.Boot, "boot", 0, "`number` of earlier boots; each boot runs different pods")
	fs.Func("board", "`POSITION=NUMBER.POSITION`: a board that was moved to this position from a position of another machine (repeatable)", func(s string) error {
		return addBoard(&machine, s)
	})
	fs.BoolVar(&opts.list, "list", false, "list the scenarios and exit")
	fs.StringVar(&opts.listen, "web.listen-address", "127.0.0.1:9840", "`address` on which the exporter serves")
	fs.StringVar(&opts.dir, "dir", "", "empty or new `directory` for the node (default: a temporary one, removed at the end)")
	fs.StringVar(&opts.exporter, "exporter", filepath.Join(here, "gpuledger"), "`path` of the exporter")
	fs.StringVar(&opts.library, "nvml.library", filepath.Join(here, "lib", "libnvidia-ml.so.1"), "`path` of the fake driver library")
	fs.BoolVar(&opts.dcgm, "dcgm", false, "simulate a DCGM host engine, and serve its fields on /gpu/metrics")
	fs.StringVar(&opts.engine, "dcgm.library", filepath.Join(here, "lib", "libdcgm.so.4"), "`path` of the fake client library of the host engine")
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(stdout, "usage: simnode [flags] [-- flags of the exporter]")
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return opts, err
	case err != nil:
		return opts, err
	}
	opts.extra = fs.Args()
	return opts, opts.check(*scenario, machine)
}

// check validates the values that package flag does not validate.
func (o *options) check(scenario string, machine simnode.Machine) (err error) {
	if o.scenario, err = simnode.Lookup(scenario); err != nil {
		return fmt.Errorf("--scenario: %w", err)
	}
	if o.scenario, err = o.scenario.On(machine); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(o.listen); err != nil {
		return fmt.Errorf("--web.listen-address: %w", err)
	}
	for _, arg := range o.extra {
		if !strings.HasPrefix(arg, "-") {
			return fmt.Errorf("unexpected argument %q", arg)
		}
	}
	return nil
}

func addBoard(m *simnode.Machine, s string) error {
	var position int
	var b simnode.Board
	_, err := fmt.Sscanf(s, "%d=%d.%d", &position, &b.Machine, &b.Position)
	if err != nil || fmt.Sprintf("%d=%d.%d", position, b.Machine, b.Position) != s {
		return fmt.Errorf("%s: must be POSITION=NUMBER.POSITION", s)
	}
	if _, ok := m.Boards[position]; ok {
		return fmt.Errorf("%s: position %d already has a board", s, position)
	}
	if m.Boards == nil {
		m.Boards = make(map[int]simnode.Board)
	}
	m.Boards[position] = b
	return nil
}

func executableDir() string {
	self, err := os.Executable()
	if err != nil {
		return "."
	}
	return filepath.Dir(self)
}
