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
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/manifest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Config contains the values of the flags.
type Config struct {
	Format, Table string
	// All sinks share Output. It is still needed after a sink was closed.
	Output *Output
}

// Output records the rows that were printed on standard output.
type Output struct {
	filed  manifest.Manifest // the printed hours
	header bool              // set if the header of the CSV was printed
}

// Several sinks can print to standard output. printing is locked while one of them prints rows.
var printing sync.Mutex

// Register adds the flags.
func (c *Config) Register(fs *flag.FlagSet) {
	c.Output = &Output{}
	fs.StringVar(&c.Format, "stdout", "", "`format` to print the rows in: json for JSON lines, csv for one table")
	fs.StringVar(&c.Table, "stdout.table", "", "`table` to print: "+strings.Join(names(), ", ")+"; the default with --stdout=json is all tables")
}

// hourly lists the tables whose rows are printed for each hour. The manifest is last. Corrections are not printed,
// because all rows of a changed hour are printed again. tables lists all tables that can be printed. It includes the
// tables of events.
var (
	hourly = append(slices.Clone(table.Data), table.Hours)
	tables = slices.Concat(hourly, table.Appended)
)

// KeepsEvents reports whether events or snapshots are printed.
func (c *Config) KeepsEvents() bool {
	return slices.Contains(c.tables(), table.Events.Name) || slices.Contains(c.tables(), table.Snapshots.Name)
}

func (c *Config) tables() []string {
	if c.Table != "" {
		return []string{c.Table}
	}
	return names()
}

func names() []string {
	var all []string
	for _, t := range tables {
		all = append(all, t.Name)
	}
	return all
}

// Sink prints hours and events.
type Sink struct {
	*Output
	out    *bufio.Writer
	csv    *csv.Writer // nil if the format is JSON
	tables []string
}

// Validate checks the flags. It accepts all values if no format is set.
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
	s := &Sink{Output: c.Output, out: bufio.NewWriter(w), tables: c.tables()}
	if c.Format == "csv" {
		s.csv = csv.NewWriter(s.out)
		return s, s.begin(tables[slices.Index(names(), c.Table)])
	}
	return s, nil
}

func (s *Sink) begin(t table.Table) error {
	printing.Lock()
	defer printing.Unlock()
	if s.header {
		return nil
	}
	err := errors.Join(s.csv.Write(t.Names()), s.flush())
	s.header = err == nil
	return err
}

// Filed returns the row of an hour in the manifest. It returns zero if the hour was not printed.
func (s *Sink) Filed(_ context.Context, cluster string, hour time.Time) (table.Filed, error) {
	return s.filed.Filed(cluster, hour), nil
}

// Clusters returns, for each cluster, the first and the last hour whose rows were printed.
func (s *Sink) Clusters(context.Context, time.Time) (map[string]table.Span, error) {
	return s.filed.Clusters(), nil
}

// Replace prints the rows of an hour.
func (s *Sink) Replace(_ context.Context, h *table.Hour) error {
	printing.Lock()
	defer printing.Unlock()
	for _, t := range hourly {
		if err := s.print(t, h.Revision, t.Rows(h)); err != nil {
			return err
		}
	}
	if err := s.flush(); err != nil {
		return err
	}
	return s.filed.Add(h)
}

// Append prints rows of one of the tables in [table.Appended]. After an error, the caller must pass all rows again.
func (s *Sink) Append(_ context.Context, t table.Table, rows [][]any) error {
	printing.Lock()
	defer printing.Unlock()
	if err := s.print(t, 0, rows); err != nil {
		return err
	}
	return s.flush()
}

func (s *Sink) print(t table.Table, revision int64, rows [][]any) error {
	if !slices.Contains(s.tables, t.Name) {
		return nil
	}
	for _, row := range rows {
		if err := s.printRow(t, revision, row); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sink) printRow(t table.Table, revision int64, row []any) error {
	if s.csv == nil {
		_, err := s.out.Write(t.AppendJSON(nil, revision, row))
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

// Close does nothing, because all rows have already been printed.
func (s *Sink) Close() error { return nil }
