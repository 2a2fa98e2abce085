package reconciler

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/cli"
	"github.com/gpuledger/gpuledger/internal/reconciler/nodes"
	"github.com/gpuledger/gpuledger/internal/reconciler/workloads"
	"github.com/gpuledger/gpuledger/internal/serve"
)

// The parts of the program that --enable names.
const (
	partLabels    = "labels"
	partWorkloads = "workloads"
)

// Config is what the flags say.
type Config struct {
	Serve serve.Config
	Log   cli.LogConfig

	Kubeconfig string
	Enable     cli.List
	Lease      Lease

	Labels    nodes.Options
	Workloads workloads.Options
	// Expected is the path of the site's list of boards; empty for none.
	Expected string

	// Cleanup is set if the command is "cleanup": remove all labels and end.
	Cleanup bool
	Version bool
}

// Flags returns the flag set of the reconciler, bound to a configuration that holds
// the defaults.
func Flags(getenv func(string) string) (*flag.FlagSet, *Config) {
	c := &Config{Enable: cli.List{partLabels, partWorkloads}}
	fs := flag.NewFlagSet("gpuledger-reconciler", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // the caller prints one line

	c.Serve.Register(fs)
	c.Log.Register(fs)
	fs.StringVar(&c.Kubeconfig, "kubeconfig", "", "`file` that names the API server and how to log in; the default is the pod's own account")
	fs.TextVar(&c.Enable, "enable", c.Enable, "`parts` to run, with commas between: labels, workloads")
	c.Lease.register(fs, getenv)
	c.Labels.Register(fs)
	c.Workloads.Register(fs)
	fs.StringVar(&c.Expected, "expected-inventory", "", "CSV `file` of the boards that should be there, or a folder of such files; see docs/runbooks/rma.md")
	fs.BoolVar(&c.Version, "version", false, "print the version and exit")
	return fs, c
}

// Parse reads the command line: flags, and "cleanup" before them if that is what is
// wanted. Its errors name the flag and what is wrong in one line; [flag.ErrHelp]
// asks for the usage.
func Parse(args []string, getenv func(string) string) (Config, error) {
	fs, c := Flags(getenv)
	if len(args) > 0 && args[0] == "cleanup" {
		c.Cleanup, args = true, args[1:]
	}
	if err := fs.Parse(args); err != nil {
		return Config{}, err
	}
	if fs.NArg() > 0 {
		return Config{}, fmt.Errorf("unexpected argument %q: flags are given as --name=value", fs.Arg(0))
	}
	err := c.validate()
	c.Labels.Resources = c.Workloads.Resources.Regexp
	return *c, err
}

func (c *Config) validate() error {
	var errs []error
	if len(c.Enable) == 0 {
		errs = append(errs, errors.New("--enable is empty: want labels, workloads or both"))
	}
	for _, part := range c.Enable {
		if part != partLabels && part != partWorkloads {
			errs = append(errs, fmt.Errorf("--enable: %q is not a part; want labels, workloads or both", part))
		}
	}
	return errors.Join(append(errs, c.Log.Validate(), c.Serve.Validate(), c.Lease.validate(), c.Labels.Validate(), c.Workloads.Validate())...)
}

// runs reports whether a part is to be run.
func (c *Config) runs(part string) bool { return slices.Contains(c.Enable, part) }

// Lease is which Lease the leader holds, and for how long.
type Lease struct {
	Elect     bool
	Namespace string
	Name      string
	// Identity is this replica's name on the Lease.
	Identity string
	// Duration is how long others wait for a leader that has gone silent.
	Duration time.Duration
}

func (l *Lease) register(fs *flag.FlagSet, getenv func(string) string) {
	fs.BoolVar(&l.Elect, "leader-election", true, "wait for the Lease before doing anything; false only if there can be no second replica")
	fs.StringVar(&l.Namespace, "leader-election.namespace", cmp.Or(getenv("POD_NAMESPACE"), "gpuledger"), "`namespace` of the Lease; the default is $POD_NAMESPACE, or gpuledger")
	fs.StringVar(&l.Name, "leader-election.name", "gpuledger-reconciler", "`name` of the Lease")
	hostname, _ := os.Hostname() // in a pod, its name
	fs.StringVar(&l.Identity, "leader-election.identity", cmp.Or(getenv("POD_NAME"), hostname), "`name` of this replica; the default is $POD_NAME or the host's name")
	fs.DurationVar(&l.Duration, "leader-election.duration", 15*time.Second, "`time` after which a silent leader is replaced")
}

func (l *Lease) validate() error {
	if !l.Elect {
		return nil
	}
	var errs []error
	for name, value := range map[string]string{"namespace": l.Namespace, "name": l.Name, "identity": l.Identity} {
		if value == "" {
			errs = append(errs, fmt.Errorf("--leader-election.%s is empty", name))
		}
	}
	if l.Duration < time.Second {
		errs = append(errs, fmt.Errorf("--leader-election.duration=%v: want at least 1s", l.Duration))
	}
	return errors.Join(errs...)
}
