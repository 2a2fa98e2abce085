// Package stdout prints the archive on standard output, for pipes.
package stdout

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/manifest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Config is the configuration from the flags.
type Config struct {
	Format, Table string
	// Memory records what was printed. It outlives the sink.
	Memory *manifest.Manifest
}

// Register adds the flags.
func (c *Config) Register(fs *flag.FlagSet) {
	c.Memory = &manifest.Manifest{}
	fs.StringVar(&c.Format, "stdout", "", "`format` to print the rows in: json for JSON lines, csv for one table")
	fs.StringVar(&c.Table, "stdout.table", "", "`table` to print: "+strings.Join(names(), ", ")+"; default is all for json")
}

// tables are printed: the manifest last. Corrections are not, since a changed hour is printed again.
var tables = append(slices.Clone(table.Data), table.Hours)

func names() []string {
	var all []string
	for _, t := range tables {
		all = append(all, t.Name)
	}
	return all
}

// Sink prints hours.
type Sink struct {
	filed  *manifest.Manifest
	out    *bufio.Writer
	csv    *csv.Writer // nil for JSON
	tables []table.Table
}

// Validate checks the flags, if a format is set.
func (c *Config) Validate() error {
	switch {
	case c.Format == "":
		return nil
	case c.Format != "json" && c.Format != "csv":
		return fmt.Errorf("--stdout=%s: must be json or csv", c.Format)
	case c.Format == "csv" && c.Table == "":
		return errors.New("--stdout=csv prints one table: set --stdout.table to one of " + strings.Join(names(), ", "))
	case c.Table != "" && !slices.Contains(names(), c.Table):
		return fmt.Errorf("--stdout.table=%s: must be one of %s", c.Table, strings.Join(names(), ", "))
	}
	return nil
}

// Open returns a sink that prints to a writer.
func Open(c Config, w io.Writer) (*Sink, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Sink{out: bufio.NewWriter(w), tables: tables, filed: c.Memory}
	if i := slices.Index(names(), c.Table); i >= 0 {
		s.tables = tables[i : i+1]
	}
	if c.Format == "csv" {
		s.csv = csv.NewWriter(s.out)
		return s, s.csv.Write(header(s.tables[0]))
	}
	return s, nil
}

func header(t table.Table) []string {
	var columns []string
	for _, c := range t.Columns {
		columns = append(columns, c.Name)
	}
	return columns
}

// Filed returns what was printed of an hour, zero for nothing.
func (s *Sink) Filed(_ context.Context, cluster string, hour time.Time) (table.Filed, error) {
	return s.filed.Filed(cluster, hour), nil
}

// Replace prints an hour.
func (s *Sink) Replace(_ context.Context, h *table.Hour) error {
	for _, t := range s.tables {
		for _, row := range t.Rows(h) {
			if err := s.print(t, h, row); err != nil {
				return err
			}
		}
	}
	if err := s.flush(); err != nil {
		return err
	}
	return s.filed.Add(h)
}

func (s *Sink) print(t table.Table, h *table.Hour, row []any) error {
	if s.csv == nil {
		_, err := s.out.Write(t.AppendJSON(nil, h.Revision, row))
		return err
	}
	texts := make([]string, len(row))
	for i, value := range row {
		texts[i] = table.Format(value)
	}
	return s.csv.Write(texts)
}

func (s *Sink) flush() error {
	if s.csv != nil {
		s.csv.Flush()
		if err := s.csv.Error(); err != nil {
			return err
		}
	}
	return s.out.Flush()
}

// Close prints what is left: the header, if no hour was printed.
func (s *Sink) Close() error { return s.flush() }
