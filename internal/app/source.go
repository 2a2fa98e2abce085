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

// The values of --source. DCGM was a source of readings once.
const (
	sourceAuto = "auto"
	sourceNVML = "nvml"
	sourceDCGM = "dcgm"
)

// DCGM is what the flags say of the host engine.
type DCGM struct {
	Address   string
	Library   string
	Profiling bool
	Fields    string
	// HostnameLabel is the label of the field page that names the node.
	HostnameLabel string

	// What the above comes to.
	address dcgm.Address
	fields  []dcgm.Field
	// useless says which rows of the file of fields are of no use, nil if all are.
	useless error
}

func (c *Config) registerSource(fs *flag.FlagSet) {
	fs.StringVar(&c.Source, "source", sourceAuto, "`source` of the readings: nvml, or auto for every source that there is")
	fs.StringVar(&c.DCGM.Address, "dcgm.address", "", "`address` of a DCGM host engine for --dcgm.fields and --dcgm.profiling: the path of its unix socket, host:port, a URI, or embedded for one in this process")
	fs.StringVar(&c.DCGM.Library, "dcgm.library", "", "`path` of libdcgm.so.4; by default the loader finds it")
	fs.BoolVar(&c.DCGM.Profiling, "dcgm.profiling", false, "measure the activity of MIG instances on GPUs before Hopper through the host engine, which reserves their profiling counters")
	fs.StringVar(&c.DCGM.Fields, "dcgm.fields", "", "`file` of the fields of the page /gpu/metrics, in the format of dcgm-exporter; default for the file that comes with the program")
	fs.StringVar(&c.DCGM.HostnameLabel, "dcgm.hostname-label", collector.Hostname, "`name` of the label for the node on the page /gpu/metrics: Hostname as in dcgm-exporter up to 4.8.2, or hostname as in later releases")
}

func (c *Config) validateSource() error {
	switch c.Source {
	case sourceAuto, sourceNVML:
	case sourceDCGM:
		return errors.New("--source=dcgm: readings come from NVML; a host engine adds to them, so remove --source and keep --dcgm.address")
	default:
		return fmt.Errorf("--source=%s: must be auto or nvml", c.Source)
	}
	if l := c.DCGM.HostnameLabel; l != collector.Hostname && l != collector.HostnameLower {
		return fmt.Errorf("--dcgm.hostname-label=%s: must be Hostname or hostname", l)
	}
	if c.DCGM.Library != "" && !filepath.IsAbs(c.DCGM.Library) {
		return fmt.Errorf("--dcgm.library=%s: want an absolute path", c.DCGM.Library)
	}
	var engine string // a flag that needs the engine
	switch {
	case c.DCGM.Fields != "":
		engine = "--dcgm.fields=" + c.DCGM.Fields
	case c.DCGM.Profiling:
		engine = "--dcgm.profiling"
	}
	switch {
	case engine != "" && c.DCGM.Address == "":
		return fmt.Errorf("%s: --dcgm.address must say where the host engine answers", engine)
	case c.DCGM.Address == "":
		return nil
	}
	var err error
	if c.DCGM.address, err = dcgm.ParseAddress(c.DCGM.Address); err != nil {
		return fmt.Errorf("--dcgm.address=%s: %w", c.DCGM.Address, err)
	}
	return c.DCGM.readFields()
}

// readFields reads the file of fields. A row that is of no use is told at start and does
// no harm to the others.
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
		return fmt.Errorf("--dcgm.fields=%s: no field to show: %w", d.Fields, cmp.Or(d.useless, errors.New("there are only comments")))
	}
	return nil
}

// enricher returns the host engine that adds to the readings, or nil.
func (c *Config) enricher(now gpu.Clock, log *slog.Logger) source.Enricher {
	if c.DCGM.Address == "" {
		return nil
	}
	if c.DCGM.useless != nil {
		log.Error("ignoring invalid rows in --dcgm.fields", "file", c.DCGM.Fields, "err", c.DCGM.useless)
	}
	if len(c.DCGM.fields) == 0 && !c.DCGM.Profiling {
		log.Warn("--dcgm.address adds nothing without --dcgm.fields or --dcgm.profiling: NVML gives all readings")
	}
	return dcgm.New(dcgm.Config{
		Address: c.DCGM.address, LibraryPath: c.DCGM.Library, CallTimeout: c.CallTimeout, Tick: c.Tick,
		Profiling: c.DCGM.Profiling, Fields: c.DCGM.fields, Now: now, Log: log,
	})
}
