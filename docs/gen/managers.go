package main

import (
	"fmt"
	"strings"

	"github.com/gpuledger/gpuledger/internal/unit"
	"github.com/gpuledger/gpuledger/test/markdown"
)

// managersPage replaces only the table of managers in managers.md.
func managersPage(old string) ([]byte, error) {
	var table strings.Builder
	table.WriteString("| manager | unit | from |\n|---|---|---|\n")
	for _, m := range unit.BuiltInManagers() {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", m.Name, m.Unit, m.Source())
	}
	page, err := markdown.Replace(old, "go generate", table.String())
	return []byte(page), err
}
