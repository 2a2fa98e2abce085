package main

import (
	"fmt"
	"strings"

	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/test/markdown"
)

// healthPage replaces only the table of rules in health.md.
func healthPage(old string) ([]byte, error) {
	var table strings.Builder
	table.WriteString("| code | meaning | advice | again | alert | source |\n|---|---|---|---|---|---|\n")
	for _, r := range health.Rules {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s | [%s](%s) |\n", r.Code, r.Meaning, r.Advice, r.Again, r.Alert, r.Source.Name, r.Source.Address)
	}
	page, err := markdown.Replace(old, "go generate", table.String())
	return []byte(page), err
}
