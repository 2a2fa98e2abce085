package app

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/cli"
	"github.com/gpuledger/gpuledger/internal/ledger"
	"github.com/gpuledger/gpuledger/internal/serve"
	"github.com/gpuledger/gpuledger/podmapper"
)

// Config contains the values of the exporter's flags.
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
	Reservations  cli.List
	StatePath     string
	Features      string
	NVMLLibrary   string
	KernelLog     string
	CallTimeout   time.Duration
	RestartAfter  time.Duration
	Source        string
	DCGM          DCGM
	Units         Units

	IdlePower    IdlePowers
	Retention    time.Duration
	MaxProcesses int
	// Explain limits the intervals that are kept to explain charges.
	Explain   ledger.Explain
	Collector collector.Options

	// AMDClients makes the AMD source read DRM clients.
	AMDClients bool
	// Sandbox enables the restrictions in [Config.SandboxRules]. If Seccomp is also set, the
	// restrictions in [Config.FilterRules] are also enabled.
	Sandbox, Seccomp bool
	// Serving is called once, when the exporter listens on all its addresses. It may be nil.
	Serving  func()
	replaced func() error

	// Command is a command such as [Status], or empty if the exporter serves its pages.
	Command string
	Status  StatusConfig
	// Inspect configures [UnitsCommand] and [DoctorCommand].
	Inspect UnitsConfig
	Charge  ExplainConfig
	Release ReleaseConfig
	Version bool
}

// Both the exporter and its commands have flags with these help texts.
const (
	procFSUsage       = "`directory` where procfs is mounted"
	podResourcesUsage = "`socket` of the kubelet's pod-resources API; empty disables everything that needs Kubernetes; auto is " + kubeletSocket + " in a pod or if " + kubelet + " exists, otherwise empty"
)

// Flags returns the exporter's flag set and a configuration that contains the defaults. Parsing
// the flags changes this configuration.
func Flags(getenv func(string) string) (*flag.FlagSet, *Config) {
	c := &Config{Collector: collector.Options{Gauges: true, Health: true}}
	fs := flag.NewFlagSet("gpuledger", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // the caller prints errors, in one line

	c.Serve.Register(fs, ":9840")
	c.Log.Register(fs)
	fs.StringVar(&c.NodeName, "node.name", getenv("NODE_NAME"), "`name` of the node; default is $NODE_NAME, or, without Kubernetes, the host name")
	fs.DurationVar(&c.Tick, "tick", time.Second, "`interval` between two readings of the GPUs, 200ms to 30s")
	fs.StringVar(&c.ProcFS, "path.procfs", "/proc", procFSUsage)
	fs.StringVar(&c.SysFS, "path.sysfs", "/sys", "`directory` where sysfs is mounted")
	fs.StringVar(&c.ContainerLogs, "path.container-logs", "/var/log/containers", "`directory` of the kubelet's container log links")
	fs.StringVar(&c.PodLogs, "path.pod-logs", "/var/log/pods", "`directory` of the pod logs, read if container log links are missing")
	fs.StringVar(&c.PodsAPI, "kubelet.pods-api-socket", "/var/lib/kubelet/pods-api/pods-api.sock", "`socket` of the kubelet's Pods API (Kubernetes 1.37), used if it exists")
	fs.TextVar(&c.Resources, "kubelet.resource-pattern", cli.MustPattern(podmapper.DefaultResources), "`regexp` of GPU resource names")
	fs.TextVar(&c.Reservations, "kubelet.reservation-namespaces", cli.List(podmapper.DefaultReservations), "comma-separated `namespaces` of pods that only reserve GPUs for other pods, such as the reservation pods of KAI Scheduler and Run:ai")
	fs.StringVar(&c.PodResources, "kubelet.pod-resources-socket", auto, podResourcesUsage)
	fs.StringVar(&c.StatePath, "state.path", auto, "`directory` of the state file, preferably on a file system that is empty after a boot, such as a tmpfs; auto means "+systemState+", or $XDG_RUNTIME_DIR/gpuledger for a user who does not own "+systemState)
	fs.StringVar(&c.Features, "nfd.features", "", "`directory` of Node Feature Discovery's feature files, to write the Node's labels; empty disables it")
	fs.StringVar(&c.NVMLLibrary, "nvml.library", "", "`path` of libnvidia-ml.so.1; by default, the dynamic loader finds it")
	fs.DurationVar(&c.CallTimeout, "nvml.call-timeout", 500*time.Millisecond, "`timeout` for one reading of a GPU; after a timeout, the exporter continues with the other GPUs")
	fs.DurationVar(&c.RestartAfter, "nvml.restart-after", time.Minute, "`time` after which this process restarts if the kernel's driver and the loaded library have different versions: the process executes itself again if the library's file was replaced, otherwise it exits; 0 disables restarts")
	c.registerSource(fs)
	c.Units.register(fs)
	fs.Var(&c.IdlePower, "idle-power", "`model=watts`: power of a GPU of this model with open contexts and no work, used until the power is measured; write the model as in gpuledger_gpu_info (repeatable)")
	fs.DurationVar(&c.Retention, "retention", 5*time.Minute, "`time` for which series remain after their process or pod has ended; should be at least three scrape intervals")
	fs.StringVar(&c.KernelLog, "xid.kernel-log", "", "`file` with the kernel log, /dev/kmsg, in which the exporter counts XID errors since boot, including XID errors without an NVML event, and SXID errors of NVSwitches; needs CAP_SYSLOG; empty disables it")
	fs.BoolVar(&c.Collector.Gauges, "collector.gauges", true, "export power, temperature, utilisation, memory and clocks of each GPU")
	fs.BoolVar(&c.Collector.Health, "collector.health", true, "read and export the memory, PCIe and NVLink errors, the links, and the clock and power limits of each GPU, every 10 s")
	fs.BoolVar(&c.Collector.Details, "collector.health.details", false, "also export details of each NVIDIA GPU: temperature margin, fans, current reasons for low clocks, remapped rows and NVLink-C2C links (read every 10 s), highest clocks, modes and firmware versions (read every 10 min), and whether the InfoROM is valid (checked once a day)")
	fs.BoolVar(&c.Collector.Profiling, "collector.profiling", false, "measure and export the activity of multiprocessors, tensor cores, floating-point units, memory and media engines every 10 s, on GPUs since Hopper that are not in MIG mode")
	fs.TextVar(&c.Collector.Process, "collector.process", collector.ProcessAlways, "`mode` of process series: always, shared (only for GPUs that several containers hold or use) or never")
	fs.IntVar(&c.MaxProcesses, "collector.process.max", 1000, "`maximum` number of processes with their own series; the other processes are summed up in pid=\"other\"")
	fs.DurationVar(&c.Explain.Period, "explain.period", time.Hour, "`time` for which charged intervals are kept in memory for gpuledger explain; 0 keeps none")
	fs.IntVar(&c.Explain.Bytes, "explain.max-bytes", 1<<20, "`maximum` memory in bytes for the intervals of each GPU; the oldest intervals are dropped first")
	fs.BoolVar(&c.Sandbox, "sandbox", true, "restrict this process with Landlock and no_new_privs if the kernel supports them: the process then can write only to --state.path, --nfd.features and devices, cannot execute other programs or send signals, and can connect only to the TCP port of --dcgm.address")
	fs.BoolVar(&c.Seccomp, "sandbox.seccomp", true, "with --sandbox, also install a system call filter: this process then cannot affect other processes, start programs or mount file systems, and can open only the ports and socket families that it needs")
	fs.BoolVar(&c.Version, "version", false, "print the version and exit")
	return fs, c
}

// Parse parses the command line: an optional command, then flags. An error is one line with the
// flag and the reason. The error [flag.ErrHelp] means that the user requested the usage of the
// returned command.
func Parse(args []string, getenv func(string) string) (Config, error) {
	if len(args) > 0 && args[0] == Status {
		fs, c := StatusFlags()
		err := parse(fs, args[1:])
		return Config{Command: Status, Status: *c}, err
	}
	if len(args) > 0 && args[0] == Explain {
		fs, c := ExplainFlags()
		err := parse(fs, args[1:])
		if err == nil {
			err = c.validate()
		}
		return Config{Command: Explain, Charge: *c}, err
	}
	if len(args) > 0 && (args[0] == UnitsCommand || args[0] == DoctorCommand) {
		c, err := parseUnits(args[0], args[1:])
		return Config{Command: args[0], Inspect: c}, err
	}
	if len(args) > 0 && args[0] == ReleaseCommand {
		return parseRelease(args[1:], getenv)
	}
	fs, c := Flags(getenv)
	if len(args) > 0 && slices.Contains([]string{Cleanup, Wait, AMDFiles}, args[0]) {
		c.Command, args = args[0], args[1:]
	}
	if err := parse(fs, args); err != nil {
		return Config{}, err
	}
	err := c.validate()
	return *c, err
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
			errs = append(errs, fmt.Errorf("--%s=%s: must be an absolute path", name, path))
		}
	}
	atLeast := func(name string, least, d time.Duration) {
		if d < least {
			errs = append(errs, fmt.Errorf("--%s=%v: must be at least %v", name, d, least))
		}
	}
	absolute("path.procfs", c.ProcFS)
	absolute("path.sysfs", c.SysFS)
	absolute("path.container-logs", c.ContainerLogs)
	absolute("path.pod-logs", c.PodLogs)
	if c.PodResources != "" && c.PodResources != auto {
		absolute("kubelet.pod-resources-socket", c.PodResources)
	}
	absolute("kubelet.pods-api-socket", c.PodsAPI)
	if c.StatePath != auto {
		absolute("state.path", c.StatePath)
	}
	if c.Features != "" {
		absolute("nfd.features", c.Features)
	}
	if c.NVMLLibrary != "" {
		absolute("nvml.library", c.NVMLLibrary)
	}
	if c.KernelLog != "" {
		absolute("xid.kernel-log", c.KernelLog)
	}
	// The board refreshes its counter every 100 ms. With a tick of at least 200 ms, each reading finds a new value.
	atLeast("tick", 200*time.Millisecond, c.Tick)
	// The sampler remembers an ended process for half a minute. The next tick must begin within this time.
	if c.Tick > 30*time.Second {
		errs = append(errs, fmt.Errorf("--tick=%v: must be at most 30s", c.Tick))
	}
	atLeast("nvml.call-timeout", 10*time.Millisecond, c.CallTimeout)
	atLeast("nvml.restart-after", 0, c.RestartAfter)
	atLeast("retention", c.Tick, c.Retention)
	atLeast("explain.period", 0, c.Explain.Period)
	if c.Explain.Bytes < 0 {
		errs = append(errs, fmt.Errorf("--explain.max-bytes=%d: must be at least 0", c.Explain.Bytes))
	}
	if c.MaxProcesses < 1 {
		errs = append(errs, fmt.Errorf("--collector.process.max=%d: must be at least 1; use --collector.process=never to hide processes", c.MaxProcesses))
	}
	errs = append(errs, c.validateSource(), c.Units.validate(), c.Log.Validate(), c.Serve.Validate())
	return errors.Join(errs...)
}
