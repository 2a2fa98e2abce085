// Gen writes the generated pages of docs.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

var pages = map[string]func(old string) ([]byte, error){
	"flags.md": whole(flagsPage), "metrics.md": whole(metricsPage), "tables.md": whole(tablesPage), "managers.md": managersPage,
	"health.md": healthPage, "dcgm.md": dcgmPage,
}

// whole returns a generator for a page that contains only generated text.
func whole(page func() ([]byte, error)) func(string) ([]byte, error) {
	return func(string) ([]byte, error) { return page() }
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen <folder>")
		os.Exit(2)
	}
	for name, page := range pages {
		if err := write(filepath.Join(os.Args[1], name), page); err != nil {
			fmt.Fprintf(os.Stderr, "gen: %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

func write(file string, page func(old string) ([]byte, error)) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := page(string(old))
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
