// Gen writes the generated pages of docs.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

var pages = map[string]func() ([]byte, error){"flags.md": flagsPage, "metrics.md": metricsPage, "tables.md": tablesPage}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen <folder>")
		os.Exit(2)
	}
	for name, page := range pages {
		text, err := page()
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], name), text, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "gen: %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}
