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
	"github.com/gpuledger/gpuledger/internal/reconciler/injector"
	"github.com/gpuledger/gpuledger/internal/reconciler/nodes"
	"github.com/gpuledger/gpuledger/internal/reconciler/outbox"
	"github.com/gpuledger/gpuledger/internal/reconciler/workloads"
	"github.com/gpuledger/gpuledger/internal/serve"
)

// These are the valid values for --enable.
const (
	partLabels    = "labels"
	partWorkloads = "workloads"
)

// Config contains the values of the flags.
type Config struct {
	Serve serve.Config
	Log   cli.LogConfig

	Kubeconfig string
	Enable     cli.List
	Lease      Lease

	Labels    nodes.Options
	Workloads workloads.Options
	Events    outbox.Options
	Webhook   injector.Options
	// Expected is the path of the expected inventory, or empty.
	Expected string

	// Cleanup is set for the command "cleanup", which removes all labels and exits.
	Cleanup bool
	Version bool
}

// Flags returns the flag set and a configuration. When the flag set parses arguments, it sets this configuration.
func Flags(getenv func(string) string) (*flag.FlagSet, *Config) {
	c := &Config{Enable: cli.List{partLabels, partWorkloads}}
	fs := flag.NewFlagSet("gpuledger-reconciler", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // the caller prints the error on one line

	c.Serve.Register(fs, ":9840")
	c.Log.Register(fs)
	fs.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig `file`; default is the service account of the pod")
	fs.TextVar(&c.Enable, "enable", c.Enable, "comma-separated `parts` to run: labels, workloads")
	c.Lease.register(fs, getenv)
	c.Labels.Register(fs)
	c.Workloads.Register(fs)
	c.Events.Register(fs)
	c.Webhook.Register(fs)
	fs.StringVar(&c.Expected, "expected-inventory", "", "CSV `file` with the expected inventory, or a directory of such files; see docs/runbooks/rma.md")
	fs.BoolVar(&c.Version, "version", false, "print the version and exit")
	return fs, c
}

// Parse parses the command line, which contains the optional command "cleanup" and then flags. The text of an error is
// one line with the flag and the reason. The error [flag.ErrHelp] means that the user requested the usage.
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
	c.Webhook.Namespace = c.Lease.Namespace
	c.Labels.Resources = c.Workloads.Resources.Regexp
	return *c, err
}

func (c *Config) validate() error {
	var errs []error
	if len(c.Enable) == 0 {
		errs = append(errs, errors.New("--enable is empty: must be labels, workloads or both"))
	}
	for _, part := range c.Enable {
		if part != partLabels && part != partWorkloads {
			errs = append(errs, fmt.Errorf("--enable: %q is not a part; must be labels, workloads or both", part))
		}
	}
	return errors.Join(append(errs, c.Log.Validate(), c.Serve.Validate(), c.Serve.ValidateKey(), c.Lease.validate(), c.Labels.Validate(), c.Workloads.Validate(), c.validateEvents(), c.Webhook.Validate())...)
}

func (c *Config) validateEvents() error {
	switch {
	case c.Events.URL == "" && c.Workloads.SendsSnapshots():
		return errors.New("--snapshots=send requires --events.url")
	case c.Events.URL != "" && !c.runs(partWorkloads):
		return errors.New("--events.url requires --enable=workloads")
	}
	return c.Events.Validate()
}

func (c *Config) runs(part string) bool { return slices.Contains(c.Enable, part) }

// Lease configures the leader election.
type Lease struct {
	Elect     bool
	Namespace string
	Name      string
	Identity  string
	// Duration is the time after which a leader that does not renew the Lease is replaced.
	Duration time.Duration
}

func (l *Lease) register(fs *flag.FlagSet, getenv func(string) string) {
	fs.BoolVar(&l.Elect, "leader-election", true, "elect a leader with a Lease; set it to false only if there is never a second replica")
	fs.StringVar(&l.Namespace, "leader-election.namespace", cmp.Or(getenv("POD_NAMESPACE"), "gpuledger"), "`namespace` of the Lease; default $POD_NAMESPACE, or gpuledger")
	fs.StringVar(&l.Name, "leader-election.name", "gpuledger-reconciler", "`name` of the Lease")
	hostname, _ := os.Hostname() // in a pod, the host name is the name of the pod
	fs.StringVar(&l.Identity, "leader-election.identity", cmp.Or(getenv("POD_NAME"), hostname), "`name` of this replica; default $POD_NAME or the host name")
	fs.DurationVar(&l.Duration, "leader-election.duration", 15*time.Second, "`time` after which a leader that does not renew the Lease is replaced")
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
		errs = append(errs, fmt.Errorf("--leader-election.duration=%v: must be at least 1s", l.Duration))
	}
	return errors.Join(errs...)
}
