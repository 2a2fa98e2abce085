// Command pages reads an exporter's inventory with the packages of its own version, and prints the catalogue of metrics. tools/previous builds it with the earlier version, too.
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

// run prints the catalogue, or the inventory that it reads, as the reconciler understands it.
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

// row is a metric of the catalogue.
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
