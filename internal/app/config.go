package app

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/cli"
	"github.com/gpuledger/gpuledger/internal/serve"
	"github.com/gpuledger/gpuledger/podmapper"
)

// Config is what the flags say.
type Config struct {
	Serve serve.Config
	Log   cli.LogConfig

	NodeName string
	Tick     time.Duration

	ProcFS        string
	SysFS         string
	ContainerLogs string
	PodLogs       string
	PodResources  string
	PodsAPI       string
	Resources     cli.Pattern
	StatePath     string
	NVMLLibrary   string
	CallTimeout   time.Duration
	Source        string
	DCGM          DCGM

	Retention    time.Duration
	MaxProcesses int
	Collector    collector.Options

	// Sandbox is whether the exporter restricts itself to its [Config.SandboxRules].
	Sandbox bool

	// Command is [Status], [Cleanup] or [Wait], or empty to serve.
	Command string
	Status  StatusConfig
	Version bool
}

// Flags returns the flag set of the exporter, bound to a configuration that holds
// the defaults.
func Flags(getenv func(string) string) (*flag.FlagSet, *Config) {
	c := &Config{Collector: collector.Options{Gauges: true}}
	fs := flag.NewFlagSet("gpuledger", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // the caller prints one line

	c.Serve.Register(fs)
	c.Log.Register(fs)
	fs.StringVar(&c.NodeName, "node.name", getenv("NODE_NAME"), "`name` of the Kubernetes node; the default is $NODE_NAME")
	fs.DurationVar(&c.Tick, "tick", time.Second, "`time` between two readings of the GPUs, 200ms to 30s")
	fs.StringVar(&c.ProcFS, "path.procfs", "/proc", "`folder` where procfs is mounted")
	fs.StringVar(&c.SysFS, "path.sysfs", "/sys", "`folder` where sysfs is mounted")
	fs.StringVar(&c.ContainerLogs, "path.container-logs", "/var/log/containers", "`folder` of the kubelet's container log links")
	fs.StringVar(&c.PodLogs, "path.pod-logs", "/var/log/pods", "`folder` of the pods' logs, read where container log links are missing")
	fs.StringVar(&c.PodsAPI, "kubelet.pods-api-socket", "/var/lib/kubelet/pods-api/pods-api.sock", "`socket` of the kubelet's Pods API (Kubernetes 1.37), used where it exists")
	fs.TextVar(&c.Resources, "kubelet.resource-pattern", cli.MustPattern(podmapper.DefaultResources), "`regexp` of GPU resource names")
	fs.StringVar(&c.PodResources, "kubelet.pod-resources-socket", "/var/lib/kubelet/pod-resources/kubelet.sock", "`socket` of the kubelet's pod-resources API; empty on a machine without Kubernetes: nothing of it is looked for then")
	fs.StringVar(&c.StatePath, "state.path", "/run/gpuledger", "`folder` of the ledger's file; should live as long as the boot does")
	fs.StringVar(&c.NVMLLibrary, "nvml.library", "", "`path` of libnvidia-ml.so.1; by default the loader finds it")
	fs.DurationVar(&c.CallTimeout, "nvml.call-timeout", 500*time.Millisecond, "`time` that a tick waits for a GPU before it goes on without it")
	c.registerSource(fs)
	fs.DurationVar(&c.Retention, "retention", 5*time.Minute, "`time` that counters stay after their process or pod ended; at least three scrape intervals")
	fs.BoolVar(&c.Collector.Gauges, "collector.gauges", true, "show power, temperature, utilisation, memory and clocks of each GPU")
	fs.TextVar(&c.Collector.Process, "collector.process", collector.ProcessAlways, "`mode` of the series per process: always, shared or never")
	fs.IntVar(&c.MaxProcesses, "collector.process.max", 1000, "`number` of processes with series of their own; the rest is folded into pid=\"other\"")
	fs.BoolVar(&c.Sandbox, "sandbox", true, "restrict this process with Landlock and no_new_privs, as far as the kernel can: it writes in --state.path and to devices only, executes no program, signals no process and connects to no TCP port but that of --dcgm.address")
	fs.BoolVar(&c.Version, "version", false, "print the version and exit")
	return fs, c
}

// Parse reads the command line: flags, and a command before them if that is what is
// wanted. Its errors name the flag and what is wrong in one line; [flag.ErrHelp] asks
// for the usage of the command in the result.
func Parse(args []string, getenv func(string) string) (Config, error) {
	if len(args) > 0 && args[0] == Status {
		fs, c := StatusFlags()
		err := parse(fs, args[1:])
		return Config{Command: Status, Status: *c}, err
	}
	fs, c := Flags(getenv)
	if len(args) > 0 && (args[0] == Cleanup || args[0] == Wait) {
		c.Command, args = args[0], args[1:]
	}
	if err := parse(fs, args); err != nil {
		return Config{}, err
	}
	return *c, c.validate()
}

func parse(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: flags are given as --name=value", fs.Arg(0))
	}
	return nil
}

func (c *Config) validate() error {
	var errs []error
	absolute := func(name, path string) {
		if !filepath.IsAbs(path) {
			errs = append(errs, fmt.Errorf("--%s=%s: want an absolute path", name, path))
		}
	}
	atLeast := func(name string, least, d time.Duration) {
		if d < least {
			errs = append(errs, fmt.Errorf("--%s=%v: want at least %v", name, d, least))
		}
	}
	absolute("path.procfs", c.ProcFS)
	absolute("path.sysfs", c.SysFS)
	absolute("path.container-logs", c.ContainerLogs)
	absolute("path.pod-logs", c.PodLogs)
	if c.PodResources != "" {
		absolute("kubelet.pod-resources-socket", c.PodResources)
	}
	absolute("kubelet.pods-api-socket", c.PodsAPI)
	absolute("state.path", c.StatePath)
	if c.NVMLLibrary != "" {
		absolute("nvml.library", c.NVMLLibrary)
	}
	// The board's counter moves every 100 ms: shorter ticks would see it stand.
	atLeast("tick", 200*time.Millisecond, c.Tick)
	// A process that ended is remembered for half a minute, to be known at the next one.
	if c.Tick > 30*time.Second {
		errs = append(errs, fmt.Errorf("--tick=%v: want at most 30s", c.Tick))
	}
	atLeast("nvml.call-timeout", 10*time.Millisecond, c.CallTimeout)
	atLeast("retention", c.Tick, c.Retention)
	if c.MaxProcesses < 1 {
		errs = append(errs, fmt.Errorf("--collector.process.max=%d: want at least 1; --collector.process=never hides processes", c.MaxProcesses))
	}
	errs = append(errs, c.validateSource(), c.Log.Validate(), c.Serve.Validate())
	return errors.Join(errs...)
}
