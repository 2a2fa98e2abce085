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
	"github.com/gpuledger/gpuledger/internal/dcgm"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/source"
)

// Who reads the GPUs, as --source says it.
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
	fs.StringVar(&c.Source, "source", sourceAuto, "`who` reads the GPUs: nvml, dcgm, or auto for the host engine where --dcgm.address is given and answers, and NVML otherwise")
	fs.StringVar(&c.DCGM.Address, "dcgm.address", "", "`address` of a DCGM host engine: the path of its unix socket, host:port, a URI, or embedded for one in this process")
	fs.StringVar(&c.DCGM.Library, "dcgm.library", "", "`path` of libdcgm.so.4; by default the loader finds it")
	fs.BoolVar(&c.DCGM.Profiling, "dcgm.profiling", false, "let the host engine measure how busy MIG instances are; before Hopper, nothing else can use the profiling counters then")
	fs.StringVar(&c.DCGM.Fields, "dcgm.fields", "", "`file` of the fields of the page /gpu/metrics, in the format of dcgm-exporter; default for the file that comes with the program")
	fs.StringVar(&c.DCGM.HostnameLabel, "dcgm.hostname-label", collector.Hostname, "`name` of the label for the node on the page /gpu/metrics: Hostname as in dcgm-exporter up to 4.8.2, or hostname as in later releases")
}

func (c *Config) validateSource() error {
	switch c.Source {
	case sourceAuto, sourceNVML:
	case sourceDCGM:
		if c.DCGM.Address == "" {
			return errors.New("--source=dcgm: --dcgm.address must say where the host engine answers, such as /run/nvidia/dcgm.sock or localhost:5555")
		}
	default:
		return fmt.Errorf("--source=%s: want auto, nvml or dcgm", c.Source)
	}
	if l := c.DCGM.HostnameLabel; l != collector.Hostname && l != collector.HostnameLower {
		return fmt.Errorf("--dcgm.hostname-label=%s: must be Hostname or hostname", l)
	}
	if c.DCGM.Library != "" && !filepath.IsAbs(c.DCGM.Library) {
		return fmt.Errorf("--dcgm.library=%s: want an absolute path", c.DCGM.Library)
	}
	var engine string // a flag that is of use only with the engine
	switch {
	case c.DCGM.Fields != "":
		engine = "--dcgm.fields=" + c.DCGM.Fields
	case c.DCGM.Profiling:
		engine = "--dcgm.profiling"
	}
	switch {
	case engine != "" && c.Source == sourceNVML:
		return fmt.Errorf("%s: with --source=nvml no host engine is read; want auto or dcgm", engine)
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

// engine returns the host engine that is to be read, or nil.
func (c *Config) engine(now gpu.Clock, log *slog.Logger) source.Driver {
	if c.Source == sourceNVML || c.DCGM.Address == "" {
		return nil
	}
	if c.DCGM.useless != nil {
		log.Error("some rows of --dcgm.fields are of no use, the others are served", "file", c.DCGM.Fields, "err", c.DCGM.useless)
	}
	return dcgm.New(dcgm.Config{
		Address: c.DCGM.address, LibraryPath: c.DCGM.Library, CallTimeout: c.CallTimeout, Tick: c.Tick,
		Profiling: c.DCGM.Profiling, Fields: c.DCGM.fields, Now: now, Log: log,
	})
}
