// Command pages reads an exporter's inventory with the packages of the version from which it was built, or prints the
// catalogue of metrics. tools/previous also builds it from the earlier version.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/archive"
	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/metric"
	"github.com/gpuledger/gpuledger/internal/reconciler"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pages catalogue|inventory")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

// run prints the catalogue, or the inventory as the reconciler decodes it.
func run(what string, in io.Reader, out io.Writer) error {
	switch what {
	case "catalogue":
		return catalogue(out)
	case "inventory":
		page, err := inventory.Decode(in)
		if err != nil {
			return err
		}
		if err := page.Contradiction(); err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(page)
	}
	return fmt.Errorf("unknown argument %q", what)
}

// row describes a metric in the catalogue.
type row struct {
	Name, Type, Page string
	Labels           []string
}

// catalogue prints the metrics of all programs.
func catalogue(out io.Writer) error {
	var rows []row
	add := func(program string, metrics []metric.Metric) {
		for _, m := range metrics {
			rows = append(rows, row{m.Name, m.TypeName(), program + m.Page.Path(), m.Labels})
		}
	}
	add("gpuledger", collector.Catalogue())
	add("gpuledger-archive", archive.Catalogue())
	for _, page := range reconciler.Catalogue() {
		add("gpuledger-reconciler", page.Metrics)
	}
	return json.NewEncoder(out).Encode(rows)
}
