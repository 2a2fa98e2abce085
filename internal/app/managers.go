package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/host"
	"github.com/gpuledger/gpuledger/internal/owner"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/internal/unit"
	"github.com/gpuledger/gpuledger/podmapper"
)

// UnitsConfig is the configuration of the commands units and doctor.
type UnitsConfig struct {
	Units
	ProcFS, PodResources string
	// Explain is the PID of the process to explain, or 0 for none.
	Explain uint
}

// UnitsFlags returns the flag set of the command units or doctor.
func UnitsFlags(command string) (*flag.FlagSet, *UnitsConfig) {
	var c UnitsConfig
	fs := flag.NewFlagSet("gpuledger "+command, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	if command == UnitsCommand {
		fs.UintVar(&c.Explain, "explain", 0, "`PID` of a process: print its cgroup, the rule that decides its owner, and the reasons why the other rules do not match")
	}
	fs.StringVar(&c.ProcFS, "path.procfs", "/proc", procFSUsage)
	fs.StringVar(&c.PodResources, "kubelet.pod-resources-socket", auto, podResourcesUsage)
	c.register(fs)
	return fs, &c
}

func parseUnits(command string, args []string) (UnitsConfig, error) {
	fs, c := UnitsFlags(command)
	err := parse(fs, args)
	if err == nil {
		err = c.validate()
	}
	return *c, err
}

// anyPod is a resolver that returns the same owner for all pods.
type anyPod struct{}

// Resolve implements [owner.Resolver].
func (anyPod) Resolve(owner.Process) func() owner.Answer {
	return func() owner.Answer { return owner.Answer{Owner: gpu.Owner{Kind: gpu.OwnerPod}, Final: true} }
}

func (c *UnitsConfig) mapper(ctx context.Context) (*unit.Mapper, error) {
	now, log := host.Now, slog.New(slog.DiscardHandler)
	all := Config{ProcFS: c.ProcFS, PodResources: c.PodResources, Units: c.Units}
	all.Adapt(ThisMachine())
	cfg := all.units(nil, now, log, stage.New(log, now))
	if all.PodResources != "" {
		cfg.Pods, cfg.IsPod = anyPod{}, podmapper.IsPod
	}
	m := unit.New(cfg)
	m.Activate()
	return m, m.Refresh(ctx)
}

func (c *UnitsConfig) known() []unit.Manager {
	return slices.Concat([]unit.Manager(c.Patterns), c.Known)
}

// ShowUnits lists the managers and the files that define them, or explains the owner of a process.
func ShowUnits(ctx context.Context, c UnitsConfig, out io.Writer) error {
	if c.Explain != 0 {
		return explainProcess(ctx, &c, out)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MANAGER\tUNIT\tFROM")
	for _, m := range c.known() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", m.Name, strings.ReplaceAll(m.Unit, "`", ""), m.File)
	}
	return w.Flush()
}

func explainProcess(ctx context.Context, c *UnitsConfig, out io.Writer) error {
	m, err := c.mapper(ctx)
	e, failed := m.Explain(ctx, uint32(c.Explain))
	if failed != nil {
		return fmt.Errorf("process %d: %w", c.Explain, failed)
	}
	fmt.Fprintf(out, "process %d (%s) belongs to %s\n\n%s\n", c.Explain, e.Process, e.Owner, e.Cgroup)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var others []string
	for _, r := range e.Rules {
		mark := " "
		switch {
		case r.Reason == "":
			others = append(others, r.Manager)
			continue
		case r.Decided:
			mark = "*"
		}
		fmt.Fprintf(w, "%s %s\t%s\t(%s)\n", mark, r.Manager, r.Reason, r.File)
	}
	fmt.Fprintf(w, "\nno path matches for these managers: %s\n", strings.Join(others, ", "))
	return errors.Join(w.Flush(), problem(err))
}

func problem(err error) error {
	if err != nil {
		err = fmt.Errorf("cannot read some units: %w", err)
	}
	return err
}

// Doctor looks for a running unit of each manager and prints the result. It returns an error if a source cannot be read
// or a unit has no name.
func Doctor(ctx context.Context, c UnitsConfig, out io.Writer) error {
	m, err := c.mapper(ctx)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var errs []error
	for _, r := range m.Checks() {
		state, text := "-", "no unit runs here"
		switch {
		case !r.Enabled:
			text = "--units omits this manager"
		case r.Problem != "":
			state, text = "!", r.Problem
			errs = append(errs, fmt.Errorf("%s: %s", r.Manager, r.Problem))
		case r.Units > 0:
			state, text = "ok", fmt.Sprintf("units: %d, such as %s with the process %d", r.Units, r.Example, r.PID)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", state, r.Manager, text)
	}
	return errors.Join(w.Flush(), problem(err), errors.Join(errs...))
}
