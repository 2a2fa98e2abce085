package app

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/source"
	"github.com/gpuledger/gpuledger/internal/source/dcgm"
)

// These are the values of --source. The last value is no longer valid. The exporter rejects it with an
// error that contains advice.
const (
	sourceAuto = "auto"
	sourceNVML = "nvml"
	sourceAMD  = "amd"
	sourceDCGM = "dcgm"
)

const metricsSource = "gpu-metrics.source"

// DCGM is the configuration of the host engine and of the field page.
type DCGM struct {
	Address   string
	Library   string
	Profiling bool
	Fields    string
	// PageSource is the source of the field page: auto, nvml or dcgm.
	PageSource string
	// HostnameLabel is the name of the node label on the field page.
	HostnameLabel string

	// The following fields are derived from the fields above.
	address dcgm.Address
	fields  []dcgm.Field
	// byNVML is set if the values of the field page come from NVML. If byNVML is set, selected contains the
	// fields on the page, and missing lists the fields in the field file that NVML does not provide.
	byNVML   bool
	selected collector.FieldSelection
	missing  []string
	// useless is an error that lists the invalid rows in the field file, or nil if there are none.
	useless error
}

func (c *Config) registerSource(fs *flag.FlagSet) {
	fs.StringVar(&c.Source, "source", sourceAuto, "`source` of the readings: nvml, amd (experimental), or auto, which selects the sources by the vendors of the GPUs on the PCI bus")
	fs.BoolVar(&c.AMDClients, "amd.fdinfo", false, "find graphics and media processes on AMD GPUs through /proc/<pid>/fdinfo; needs CAP_SYS_PTRACE and --sandbox=false")
	fs.StringVar(&c.DCGM.Address, "dcgm.address", "", "`address` of a DCGM host engine for --dcgm.fields and --dcgm.profiling: the path of its unix socket, host:port, a URI, or embedded, which runs a host engine in this process")
	fs.StringVar(&c.DCGM.Library, "dcgm.library", "", "`path` of libdcgm.so.4; by default, the dynamic loader finds it")
	fs.BoolVar(&c.DCGM.Profiling, "dcgm.profiling", false, "measure the activity of MIG instances on GPUs before Hopper through the host engine, which reserves the profiling counters of these GPUs")
	fs.StringVar(&c.DCGM.Fields, "dcgm.fields", "", "`file` with the fields for /gpu/metrics, in the format of dcgm-exporter; the value default selects the built-in file; if the flag is empty and --gpu-metrics.source is nvml, the page contains the default fields of dcgm-exporter")
	fs.StringVar(&c.DCGM.PageSource, metricsSource, sourceAuto, "`source` of /gpu/metrics: nvml, dcgm (the host engine), or auto, which is dcgm if --dcgm.fields is set, else nvml")
	fs.StringVar(&c.DCGM.HostnameLabel, "dcgm.hostname-label", collector.Hostname, "`name` of the node label on /gpu/metrics: Hostname as in dcgm-exporter up to 4.8.2, or hostname as in later releases")
}

func (c *Config) validateSource() error {
	switch c.Source {
	case sourceAuto, sourceNVML, sourceAMD:
	case sourceDCGM:
		return errors.New("--source=dcgm: readings come from NVML, and a host engine only adds values; remove --source and keep --dcgm.address")
	default:
		return fmt.Errorf("--source=%s: must be auto, nvml or amd", c.Source)
	}
	if c.AMDClients && c.Sandbox {
		return errors.New("--amd.fdinfo: must be used with --sandbox=false, since Landlock denies reading /proc/<pid>/fdinfo")
	}
	if l := c.DCGM.HostnameLabel; l != collector.Hostname && l != collector.HostnameLower {
		return fmt.Errorf("--dcgm.hostname-label=%s: must be Hostname or hostname", l)
	}
	if c.DCGM.Library != "" && !filepath.IsAbs(c.DCGM.Library) {
		return fmt.Errorf("--dcgm.library=%s: must be an absolute path", c.DCGM.Library)
	}
	if err := c.DCGM.validatePage(); err != nil {
		return err
	}
	var engine string // a flag that requires the host engine
	switch {
	case c.DCGM.Fields != "" && !c.DCGM.byNVML:
		engine = "--dcgm.fields=" + c.DCGM.Fields
	case c.DCGM.Profiling:
		engine = "--dcgm.profiling"
	}
	switch {
	case engine != "" && c.DCGM.Address == "":
		return fmt.Errorf("%s: --dcgm.address must be set to the address of the host engine", engine)
	case c.DCGM.Address != "":
		var err error
		if c.DCGM.address, err = dcgm.ParseAddress(c.DCGM.Address); err != nil {
			return fmt.Errorf("--dcgm.address=%s: %w", c.DCGM.Address, err)
		}
	}
	if err := c.DCGM.readFields(); err != nil {
		return err
	}
	if c.DCGM.byNVML {
		c.DCGM.selectFields()
	}
	return nil
}

func (d *DCGM) validatePage() error {
	switch d.PageSource {
	case sourceAuto:
		d.byNVML = d.Fields == ""
	case sourceNVML:
		d.byNVML = true
	case sourceDCGM:
		if d.Fields == "" || d.Address == "" {
			return fmt.Errorf("--%s=dcgm: --dcgm.address and --dcgm.fields must be set", metricsSource)
		}
	default:
		return fmt.Errorf("--%s=%s: must be auto, nvml or dcgm", metricsSource, d.PageSource)
	}
	return nil
}

func (d *DCGM) selectFields() {
	if d.Fields == "" {
		d.selected = collector.DefaultSelection()
		return
	}
	for _, f := range d.fields {
		if !d.selected.Add(f.Name, f.Help, collector.FieldType(f.Type)) {
			d.missing = append(d.missing, f.Name)
		}
	}
	d.fields = nil // the host engine does not read these fields
}

func (d *DCGM) needing(flag string) []string {
	if d.Fields == "" {
		return nil
	}
	return d.selected.Needing(flag)
}

func (d *DCGM) page(latest func() *gpu.Snapshot) *collector.Fields {
	if d.byNVML {
		return collector.NewNVMLFields(latest, d.HostnameLabel, d.selected)
	}
	return collector.NewFields(latest, d.HostnameLabel)
}

// Invalid rows are ignored and logged at start.
func (d *DCGM) readFields() error {
	if d.Fields == "" {
		return nil
	}
	text := dcgm.DefaultFields
	if d.Fields != "default" {
		content, err := os.ReadFile(d.Fields)
		if err != nil {
			return fmt.Errorf("--dcgm.fields: %w", err)
		}
		text = string(content)
	}
	d.fields, d.useless = dcgm.ParseFields(strings.NewReader(text))
	if len(d.fields) == 0 {
		return fmt.Errorf("--dcgm.fields=%s: no valid field: %w", d.Fields, cmp.Or(d.useless, errors.New("the file contains only comments")))
	}
	return nil
}

// enricher returns nil if no host engine is configured.
func (c *Config) enricher(now gpu.Clock, log *slog.Logger) source.Enricher {
	if c.DCGM.useless != nil {
		log.Error("ignoring invalid rows in --dcgm.fields", "file", c.DCGM.Fields, "err", c.DCGM.useless)
	}
	if len(c.DCGM.missing) > 0 {
		log.Warn("omitting fields in --dcgm.fields that NVML does not provide", "file", c.DCGM.Fields, "fields", strings.Join(c.DCGM.missing, " "))
	}
	for _, o := range []struct {
		flag    string
		enabled bool
	}{{collector.FlagProfiling, c.Collector.Profiling}, {collector.FlagDetails, c.Collector.Details}} {
		if fields := c.DCGM.needing(o.flag); len(fields) > 0 && !o.enabled {
			log.Warn("some fields in --dcgm.fields have no values, because a flag is not set", "flag", o.flag, "file", c.DCGM.Fields, "fields", strings.Join(fields, " "))
		}
	}
	if c.DCGM.Address == "" {
		return nil
	}
	if len(c.DCGM.fields) == 0 && !c.DCGM.Profiling {
		log.Warn("--dcgm.address has no effect without --dcgm.fields or --dcgm.profiling: all readings come from NVML")
	}
	return dcgm.New(dcgm.Config{
		Address: c.DCGM.address, LibraryPath: c.DCGM.Library, CallTimeout: c.CallTimeout, Tick: c.Tick,
		Profiling: c.DCGM.Profiling, Fields: c.DCGM.fields, Now: now, Log: log,
	})
}
