// Dashboards writes the Grafana dashboards into a folder, one JSON file each.
//
// They are written by a program so that a panel of one kind looks the same everywhere,
// and so that an expression that several panels ask is there once. Grafana's own types
// see to it that no panel has an option that Grafana does not know.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
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

// write writes each dashboard into a file named after it.
func write(folder string) error {
	for name, builder := range map[string]*dashboard.DashboardBuilder{
		"incident": incident(),
		"chassis":  chassis(),
		"gpu-life": gpuLife(),
		"energy":   energy(),
		"health":   health(),
	} {
		d, err := builder.Build()
		if err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
		d.SchemaVersion = schemaVersion
		for i := range d.Panels {
			d.Panels[i].Panel.Id = &[]uint32{uint32(i + 1)}[0]
		}
		text, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			return fmt.Errorf("encode %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, name+".json"), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}
