// Dashboards writes the Grafana dashboards into a folder, as one JSON file for each dashboard.
//
// Generated dashboards have three advantages: panels of one kind look the same everywhere, common expressions are
// defined only once, and Grafana's own types prevent unknown options.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/table"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboards <folder>")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	for name, builder := range map[string]*dashboard.DashboardBuilder{
		"incident": incident(),
		"chassis":  chassis(),
		"gpu-life": gpuLife(),
		"energy":   energy(),
		"health":   health(),
		"fleet":    fleet(),

		"statement": statement(),
	} {
		d, err := builder.Build()
		if err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
		d.SchemaVersion = schemaVersion
		for i, p := range d.Panels {
			p.Panel.Id = ptr(uint32(i + 1))
			if options, ok := p.Panel.Options.(*table.Options); ok {
				options.Footer = nil // Grafana 12 moved this option
			}
		}
		for i := range d.Templating.List {
			v := &d.Templating.List[i]
			v.Auto, v.AutoMin, v.AutoCount = nil, nil, nil // options only for variables with intervals
		}
		text, err := json.MarshalIndent(annotated{d, events(name)}, "", "  ")
		if err != nil {
			return fmt.Errorf("encode %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, name+".json"), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}
